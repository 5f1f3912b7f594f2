#include "roomlog/redis_url.h"

#include "base/xalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_PORT = 6379, SENTINEL_PORT = 26379 };

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

static bool add_place(const struct parse *parse, struct str host, uint32_t port)
{
    struct redis_url *url = parse->url;
    if (url->count == REDIS_URL_PLACES_MAX)
        return wrong(parse, "more than 64 hosts");
    url->places = xalloc_array(url->places, url->count + 1, sizeof(*url->places));
    /* Both have been looked at. */
    return redis_place_set(&url->places[url->count++], host, port);
}

static bool host_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

/* Parts a host from what stands behind it, and looks at it. */
static bool take_host(const struct parse *parse, struct str text, struct str *host,
                      struct str *rest)
{
    if (text.len != 0 && text.p[0] == '[') {
        const char *end = memchr(text.p, ']', text.len);
        if (end == NULL)
            return wrong(parse, "the IPv6 address lacks its closing bracket");
        *host = (struct str){text.p + 1, (size_t)(end - text.p) - 1};
        *rest = (struct str){end + 1, text.len - host->len - 2};
        for (size_t i = 0; i < host->len; i++)
            if (hex_digit(host->p[i]) < 0 && host->p[i] != ':' && host->p[i] != '.')
                return wrong(parse, "the brackets hold something that is no IPv6 address");
        return true;
    }
    const char *colon = memchr(text.p, ':', text.len);
    host->p = text.p;
    host->len = colon == NULL ? text.len : (size_t)(colon - text.p);
    *rest = (struct str){text.p + host->len, text.len - host->len};
    for (size_t i = 0; i < host->len; i++)
        if (!host_char(host->p[i]))
            return wrong(parse, "the host has a character that no host name has");
    return true;
}

/* host[:port], [v6][:port] */
static bool parse_host(const struct parse *parse, struct str text, uint32_t port)
{
    struct str host;
    struct str rest;
    if (!take_host(parse, text, &host, &rest))
        return false;
    if (host.len == 0)
        return wrong(parse, "the host is missing");
    if (host.len > REDIS_PLACE_HOST_MAX)
        return wrong(parse, "the host is longer than 253 bytes");
    if (rest.len != 0 && rest.p[0] != ':')
        return wrong(parse, "after the host only a port may follow (host:port)");
    struct str digits = {rest.p + 1, rest.len - 1};
    if (rest.len != 0 && (!number(digits, UINT16_MAX, &port) || port == 0))
        return wrong(parse, "the port must be a number from 1 to 65535");
    return add_place(parse, host, port);
}

/* [user:password@]host[:port], and more hosts behind commas where there may be several. *out_rest
 * is what follows. */
static bool parse_authority(const struct parse *parse, const char *text, uint32_t port,
                            const char **out_rest)
{
    size_t len = strcspn(text, "/?#");
    /* The last @ ends the password: one that was not escaped inside it is forgiven. */
    const char *at = memrchr(text, '@', len);
    struct str hosts = {text, len};
    *out_rest = text + len;
    if (at != NULL) {
        if (!parse_user(parse, (struct str){text, (size_t)(at - text)}))
            return false;
        hosts = (struct str){at + 1, len - (size_t)(at - text) - 1};
    }
    if (parse->url->kind == REDIS_URL_ONE)
        return parse_host(parse, hosts, port);
    for (;;) {
        const char *comma = memchr(hosts.p, ',', hosts.len);
        size_t first = comma == NULL ? hosts.len : (size_t)(comma - hosts.p);
        if (!parse_host(parse, (struct str){hosts.p, first}, port))
            return false;
        if (comma == NULL)
            return true;
        hosts = (struct str){comma + 1, hosts.len - first - 1};
    }
}

static bool parse_tcp(const struct parse *parse, const char *text)
{
    const char *rest;
    if (!parse_authority(parse, text, DEFAULT_PORT, &rest))
        return false;
    if (rest[0] == '\0' || strcmp(rest, "/") == 0)
        return true;
    if (rest[0] != '/')
        return wrong(parse, "after the host and port only /db may follow");
    return parse_db(parse, str_from(rest + 1));
}

static bool parse_cluster(const struct parse *parse, const char *text)
{
    const char *rest;
    parse->url->kind = REDIS_URL_CLUSTER;
    if (!parse_authority(parse, text, DEFAULT_PORT, &rest))
        return false;
    if (rest[0] == '\0' || strcmp(rest, "/") == 0 || strcmp(rest, "/0") == 0)
        return true;
    return wrong(parse, "after the nodes of a cluster nothing may follow: it has database 0 alone");
}

/* name=value, into *out, which must not have been given yet. */
static bool parse_credential(const struct parse *parse, struct str value, char **out)
{
    if (value.len == 0 || *out != NULL)
        return wrong(parse, "sentinel_user and sentinel_password are given once, and not empty");
    *out = decode(value);
    if (*out == NULL)
        return wrong(parse, "what belongs to the sentinels has a % that is not followed by two "
                            "hexadecimal digits");
    return true;
}

/* sentinel_user=U&sentinel_password=P */
static bool parse_sentinel_query(const struct parse *parse, const char *text)
{
    struct redis_url *url = parse->url;
    for (;;) {
        size_t len = strcspn(text, "&");
        const char *value;
        char **out = NULL;
        if ((value = after_scheme(text, "sentinel_user=")) != NULL)
            out = &url->sentinel_user;
        else if ((value = after_scheme(text, "sentinel_password=")) != NULL)
            out = &url->sentinel_password;
        if (out == NULL)
            return wrong(parse, "after the ? only sentinel_user and sentinel_password may follow");
        if (!parse_credential(parse, (struct str){value, len - (size_t)(value - text)}, out))
            return false;
        if (text[len] == '\0')
            break;
        text += len + 1;
    }
    if (url->sentinel_password == NULL)
        return wrong(parse, "sentinel_user needs a sentinel_password");
    return true;
}

static bool parse_sentinel(const struct parse *parse, const char *text)
{
    const char *rest;
    parse->url->kind = REDIS_URL_SENTINEL;
    if (!parse_authority(parse, text, SENTINEL_PORT, &rest))
        return false;
    size_t len = rest[0] == '/' ? strcspn(rest + 1, "/?#") : 0;
    if (len == 0)
        return wrong(parse, "after the sentinels the service's name must follow (/service)");
    parse->url->service = decode((struct str){rest + 1, len});
    if (parse->url->service == NULL)
        return wrong(parse, "the service has a % that is not followed by two hexadecimal digits");
    rest += 1 + len;
    if (rest[0] == '/') {
        len = strcspn(rest + 1, "?#");
        if (!parse_db(parse, (struct str){rest + 1, len}))
            return false;
        rest += 1 + len;
    }
    if (rest[0] == '\0')
        return true;
    if (rest[0] != '?')
        return wrong(parse, "after the service only /db and ?sentinel_user=...&"
                            "sentinel_password=... may follow");
    return parse_sentinel_query(parse, rest + 1);
}

static bool add_path(const struct parse *parse, const char *path)
{
    struct redis_url *url = parse->url;
    if (strlen(path) > REDIS_URL_PATH_MAX)
        return wrong(parse, "the socket's path is longer than 106 bytes");
    url->places = xalloc_zero(sizeof(*url->places));
    url->count = 1;
    memcpy(url->places->host, path, strlen(path));
    return true;
}

static bool parse_unix(const struct parse *parse, const char *text)
{
    if (text[0] != '/')
        return wrong(parse, "the socket's path must be absolute (unix:///path)");
    size_t len = strcspn(text, "?");
    char *path = decode((struct str){text, len});
    if (path == NULL)
        return wrong(parse, "the path has a % that is not followed by two hexadecimal digits");
    bool fits = add_path(parse, path);
    free(path);
    if (!fits)
        return false;
    if (text[len] == '\0')
        return true;
    const char *db = after_scheme(text + len, "?db=");
    if (db == NULL)
        return wrong(parse, "after the path only ?db=N may follow");
    return parse_db(parse, str_from(db));
}

static bool parse_any(const struct parse *parse, const char *text)
{
    static const struct {
        const char *scheme;
        bool tls;
        bool (*parse)(const struct parse *parse, const char *text);
    } forms[] = {
        {"redis://", false, parse_tcp},
        {"rediss://", true, parse_tcp},
        {"unix://", false, parse_unix},
        {"redis+sentinel://", false, parse_sentinel},
        {"rediss+sentinel://", true, parse_sentinel},
        {"redis+cluster://", false, parse_cluster},
        {"rediss+cluster://", true, parse_cluster},
    };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const char *rest = after_scheme(text, forms[i].scheme);
        if (rest == NULL)
            continue;
        parse->url->tls = forms[i].tls;
        return forms[i].parse(parse, rest);
    }
    return wrong(parse,
                 "a Redis URL begins with redis://, rediss://, unix://, redis+sentinel:// or "
                 "redis+cluster://");
}

bool redis_url_parse(const char *text, struct redis_url *out_url, char *reason, size_t cap)
{
    *out_url = (struct redis_url){.count = 0};
    struct parse parse = {.url = out_url, .reason = reason, .cap = cap};
    if (parse_any(&parse, text))
        return true;
    redis_url_fini(out_url);
    return false;
}

void redis_url_fini(struct redis_url *url)
{
    free(url->places);
    free(url->user);
    free(url->password);
    free(url->service);
    free(url->sentinel_user);
    free(url->sentinel_password);
    *url = (struct redis_url){.count = 0};
}

void redis_url_address(const struct redis_url *url, char *dst, size_t cap)
{
    char text[REDIS_PLACE_TEXT_MAX];
    dst[0] = '\0';
    if (url->service != NULL)
        (void)snprintf(dst, cap, "%s at ", url->service);
    for (size_t i = 0; i < url->count; i++) {
        size_t len = strlen(dst);
        (void)snprintf(dst + len, cap - len, "%s%s", i == 0 ? "" : ",",
                       redis_place_format(&url->places[i], text));
    }
}
