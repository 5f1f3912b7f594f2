#include "roomlog/redis_policy.h"

/* The value of a line `name:value\r\n`; absent where there is none. */
static struct str value_of(struct str info, const char *name)
{
    size_t len = strlen(name);
    for (size_t at = 0; at < info.len;) {
        const char *line = info.p + at;
        const char *end = memchr(line, '\n', info.len - at);
        size_t line_len = end == NULL ? info.len - at : (size_t)(end - line);
        at += line_len + 1;
        if (line_len <= len || memcmp(line, name, len) != 0 || line[len] != ':')
            continue;
        struct str value = {line + len + 1, line_len - len - 1};
        if (value.len != 0 && value.p[value.len - 1] == '\r')
            value.len--;
        return value;
    }
    return (struct str){NULL, 0};
}

enum redis_policy redis_policy_of(struct str info, struct str *out_name)
{
    struct str bound = value_of(info, "maxmemory");
    *out_name = value_of(info, "maxmemory_policy");
    if (!str_present(bound) || !str_present(*out_name)) {
        *out_name = (struct str){NULL, 0};
        return REDIS_POLICY_UNSAID;
    }
    bool keeps = str_eq(bound, STR("0")) || str_eq(*out_name, STR("noeviction"));
    return keeps ? REDIS_POLICY_KEEPS : REDIS_POLICY_EVICTS;
}
