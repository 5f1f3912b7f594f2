#include "roomlog/redis_redirect.h"

#include "roomlog/redis_reply.h"
#include "roomlog/redis_slot.h"

#include <stdlib.h>

enum { TEXT_MAX = 320 /* of an error that is one of these */ };

/* Digits only, no more than max. False: anything else. */
static bool number(struct str text, unsigned long max, unsigned long *out)
{
    char digits[8];
    if (text.len == 0 || text.len >= sizeof(digits))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        digits[i] = text.p[i];
    }
    digits[text.len] = '\0';
    *out = strtoul(digits, NULL, 10);
    return *out <= max;
}

/* " <slot> <host>:<port>" */
static bool parse_where(const char *text, struct redis_redirect *out)
{
    unsigned long slot;
    unsigned long port;
    if (*text++ != ' ')
        return false;
    size_t len = strcspn(text, " ");
    if (text[len] != ' ' || !number((struct str){text, len}, REDIS_SLOTS - 1, &slot))
        return false;
    const char *host = text + len + 1;
    /* The last one: an IPv6 address has more, and no brackets. */
    const char *colon = strrchr(host, ':');
    if (colon == NULL || !number(str_from(colon + 1), UINT16_MAX, &port) || port == 0)
        return false;
    out->slot = (unsigned)slot;
    out->place = (struct redis_place){.port = (uint16_t)port};
    return colon == host ||
           redis_place_set(&out->place, (struct str){host, (size_t)(colon - host)}, (int)port);
}

bool redis_redirect_parse(const char *text, struct redis_redirect *out)
{
    if (strncmp(text, "MOVED", 5) == 0) {
        out->kind = REDIS_REDIRECT_MOVED;
        return parse_where(text + 5, out);
    }
    if (strncmp(text, "ASK", 3) == 0) {
        out->kind = REDIS_REDIRECT_ASK;
        return parse_where(text + 3, out);
    }
    out->kind = REDIS_REDIRECT_TRYAGAIN;
    return strncmp(text, "TRYAGAIN", 8) == 0 && (text[8] == ' ' || text[8] == '\0');
}

bool redis_redirect_of(const struct redis_reply *reply, struct redis_redirect *out)
{
    char text[TEXT_MAX];
    return redis_reply_error_text(reply, text, sizeof(text)) && redis_redirect_parse(text, out);
}
