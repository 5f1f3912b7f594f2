#include "roomlog/redis_url.h"

#include "base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PORT = 6379 };

/* What is being parsed, and where complaints go. */
struct parse {
    struct redis_url *url;
    char *reason;
    size_t cap;
};

static bool wrong(const struct parse *parse, const char *what)
{
    (void)snprintf(parse->reason, parse->cap, "%s", what);
    return false;
}

/* "scheme://" at the head of text, whatever its case? Returns what follows, or NULL. */
static const char *after_scheme(const char *text, const char *scheme)
{
    size_t len = strlen(scheme);
    return strncasecmp(text, scheme, len) == 0 ? text + len : NULL;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Undoes %XX. Returns owned, or NULL where an escape is malformed or stands for a NUL. */
static char *decode(struct str text)
{
    char *out = xalloc(text.len + 1);
    size_t len = 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.p[i];
        if (c == '%') {
            int high = i + 1 < text.len ? hex_digit(text.p[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.p[i + 2]) : -1;
            if (high < 0 || low < 0 || (high == 0 && low == 0)) {
                free(out);
                return NULL;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        out[len++] = c;
    }
    out[len] = '\0';
    return out;
}

/* Digits only, no more than max. */
static bool number(struct str text, uint32_t max, uint32_t *out)
{
    if (text.len == 0)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.p[i] < '0' || text.p[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(text.p[i] - '0');
        if (value > max)
            return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool parse_db(const struct parse *parse, struct str text)
{
    if (!number(text, REDIS_URL_DB_MAX, &parse->url->db))
        return wrong(parse, "the database must be a number from 0 to 65535");
    return true;
}

static bool parse_user(const struct parse *parse, struct str text)
{
    const char *colon = memchr(text.p, ':', text.len);
    if (colon == NULL)
        return wrong(parse, "before the @ both a user and a password are needed (user:password@, "
                            "or :password@ for the default user)");
    size_t user_len = (size_t)(colon - text.p);
    struct str password = {colon + 1, text.len - user_len - 1};
    if (password.len == 0)
        return wrong(parse, "the password before the @ is empty");

    if (user_len != 0 && (parse->url->user = decode((struct str){text.p, user_len})) == NULL)
        return wrong(parse, "the user has a % that is not followed by two hexadecimal digits");
    if ((parse->url->password = decode(password)) == NULL)
        return wrong(parse, "the password has a % that is not followed by two hexadecimal digits");
    return true;
}

static bool parse_port(const struct parse *parse, struct str text)
{
    uint32_t port;
    if (!number(text, UINT16_MAX, &port) || port == 0)
        return wrong(parse, "the port must be a number from 1 to 65535");
    parse->url->port = (uint16_t)port;
    return true;
}

static bool host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

/* host[:port], [v6][:port] */
static bool parse_host(const struct parse *parse, struct str text)
{
    struct str host = text;
    struct str rest;
    if (text.len != 0 && text.p[0] == '[') {
        const char *end = memchr(text.p, ']', text.len);
        if (end == NULL)
            return wrong(parse, "the IPv6 address lacks its closing bracket");
        host = (struct str){text.p + 1, (size_t)(end - text.p) - 1};
        rest = (struct str){end + 1, text.len - host.len - 2};
        for (size_t i = 0; i < host.len; i++)
            if (hex_digit(host.p[i]) < 0 && host.p[i] != ':' && host.p[i] != '.')
                return wrong(parse, "the brackets hold something that is no IPv6 address");
    } else {
        const char *colon = memchr(text.p, ':', text.len);
        host.len = colon == NULL ? text.len : (size_t)(colon - text.p);
        rest = (struct str){text.p + host.len, text.len - host.len};
        for (size_t i = 0; i < host.len; i++)
            if (!host_char(host.p[i]))
                return wrong(parse, "the host has a character that no host name has");
    }
    if (host.len == 0)
        return wrong(parse, "the host is missing");
    if (host.len > REDIS_URL_HOST_MAX)
        return wrong(parse, "the host is longer than 253 bytes");
    if (rest.len != 0 && rest.p[0] != ':')
        return wrong(parse, "after the host only a port may follow (host:port)");
    if (rest.len != 0 && !parse_port(parse, (struct str){rest.p + 1, rest.len - 1}))
        return false;
    parse->url->host = xalloc_str(host);
    return true;
}

static bool parse_tcp(const struct parse *parse, const char *text)
{
    parse->url->port = DEFAULT_PORT;
    size_t len = strcspn(text, "/?#");
    /* The last @ ends the password: one that was not escaped inside it is forgiven. */
    const char *at = memrchr(text, '@', len);
    struct str authority = {text, len};
    if (at != NULL) {
        if (!parse_user(parse, (struct str){text, (size_t)(at - text)}))
            return false;
        authority = (struct str){at + 1, len - (size_t)(at - text) - 1};
    }
    if (!parse_host(parse, authority))
        return false;
    const char *rest = text + len;
    if (rest[0] == '\0' || strcmp(rest, "/") == 0)
        return true;
    if (rest[0] != '/')
        return wrong(parse, "after the host and port only /db may follow");
    return parse_db(parse, str_from(rest + 1));
}

static bool parse_unix(const struct parse *parse, const char *text)
{
    if (text[0] != '/')
        return wrong(parse, "the socket's path must be absolute (unix:///path)");
    size_t len = strcspn(text, "?");
    parse->url->path = decode((struct str){text, len});
    if (parse->url->path == NULL)
        return wrong(parse, "the path has a % that is not followed by two hexadecimal digits");
    if (strlen(parse->url->path) > REDIS_URL_PATH_MAX)
        return wrong(parse, "the socket's path is longer than 106 bytes");
    if (text[len] == '\0')
        return true;
    const char *db = after_scheme(text + len, "?db=");
    if (db == NULL)
        return wrong(parse, "after the path only ?db=N may follow");
    return parse_db(parse, str_from(db));
}

static bool parse_any(const struct parse *parse, const char *text)
{
    const char *rest;
    if ((rest = after_scheme(text, "redis://")) != NULL)
        return parse_tcp(parse, rest);
    if ((rest = after_scheme(text, "unix://")) != NULL)
        return parse_unix(parse, rest);
    if (after_scheme(text, "rediss://") != NULL)
        return wrong(parse, "TLS (rediss://) is not built in: use redis:// or unix:// through a "
                            "TLS tunnel such as stunnel");
    return wrong(parse, "a Redis URL begins with redis:// or unix://");
}

bool redis_url_parse(const char *text, struct redis_url *out_url, char *reason, size_t cap)
{
    *out_url = (struct redis_url){.host = NULL};
    struct parse parse = {.url = out_url, .reason = reason, .cap = cap};
    if (parse_any(&parse, text))
        return true;
    redis_url_fini(out_url);
    return false;
}

void redis_url_fini(struct redis_url *url)
{
    free(url->host);
    free(url->path);
    free(url->user);
    free(url->password);
    *url = (struct redis_url){.host = NULL};
}

void redis_url_address(const struct redis_url *url, char *dst, size_t cap)
{
    if (url->path != NULL)
        (void)snprintf(dst, cap, "unix:%s", url->path);
    else if (strchr(url->host, ':') != NULL)
        (void)snprintf(dst, cap, "[%s]:%u", url->host, url->port);
    else
        (void)snprintf(dst, cap, "%s:%u", url->host, url->port);
}
