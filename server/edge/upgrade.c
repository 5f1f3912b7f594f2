#include "edge/upgrade.h"

#include "base/xalloc.h"

#include <libwebsockets.h>
#include <stdlib.h>
#include <strings.h>

/* libwebsockets copies these headers into buffers of 128 and 64 bytes, and hangs up where they
 * don't fit. */
enum { HEADER_MAX = 126, TOKEN_MAX = 63, ORIGIN_MAX = 1024, KEY_LEN = 24 };

static const struct http_answer NO_ENDPOINT = {
    "404 Not Found", NULL, "There is no WebSocket here, but at " UPGRADE_PATH ".\n"};
static const struct http_answer BAD_METHOD = {"405 Method Not Allowed", "Allow: GET\r\n",
                                              "A WebSocket begins with GET.\n"};
static const struct http_answer BAD_VERSION = {
    "426 Upgrade Required", "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
    "Only version 13 of the WebSocket protocol is spoken here.\n"};
static const struct http_answer BAD_HANDSHAKE = {
    "400 Bad Request", NULL, "Host, Connection or Sec-WebSocket-Key is missing or malformed.\n"};
static const struct http_answer BAD_PROTOCOL = {
    "400 Bad Request", NULL, "The subprotocol spoken here is " UPGRADE_PROTOCOL ".\n"};
static const struct http_answer BAD_ORIGIN = {"403 Forbidden", NULL,
                                              "This origin isn't allowed here.\n"};

/* --- small helpers -------------------------------------------------------------------------- */

static bool str_eq_nocase(struct str a, struct str b)
{
    return a.len == b.len && strncasecmp(a.p, b.p, a.len) == 0;
}

/* The header in buf, absent where it isn't there. False: too long. */
static bool header(struct lws *wsi, enum lws_token_indexes which, char *buf, size_t cap,
                   struct str *out)
{
    int len = lws_hdr_total_length(wsi, which);
    *out = (struct str){NULL, 0};
    if (len == 0)
        return true;
    if (len < 0 || (size_t)len >= cap || lws_hdr_copy(wsi, buf, (int)cap, which) < 0)
        return false;
    *out = (struct str){buf, (size_t)len};
    return true;
}

static struct str trim(struct str s)
{
    while (s.len != 0 && (*s.p == ' ' || *s.p == '\t')) {
        s.p++;
        s.len--;
    }
    while (s.len != 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Is the token in a comma-separated list, none of whose tokens is longer than TOKEN_MAX? */
static bool list_has(struct str list, struct str token, bool nocase)
{
    bool found = false;
    while (list.len != 0) {
        const char *comma = memchr(list.p, ',', list.len);
        size_t len = comma == NULL ? list.len : (size_t)(comma - list.p);
        struct str one = trim((struct str){list.p, len});
        if (one.len > TOKEN_MAX)
            return false;
        found = found || (nocase ? str_eq_nocase(one, token) : str_eq(one, token));
        size_t used = comma == NULL ? len : len + 1;
        list.p += used;
        list.len -= used;
    }
    return found;
}

/* --- origin --------------------------------------------------------------------------------- */

static bool strip_prefix(struct str *s, struct str prefix)
{
    if (s->len < prefix.len || strncasecmp(s->p, prefix.p, prefix.len) != 0)
        return false;
    s->p += prefix.len;
    s->len -= prefix.len;
    return true;
}

static struct str without_port(struct str authority, struct str port)
{
    if (authority.len > port.len &&
        memcmp(authority.p + authority.len - port.len, port.p, port.len) == 0)
        authority.len -= port.len;
    return authority;
}

/* A default port may be spelled out on one side and not on the other. */
static bool same_origin(struct str origin, struct str host)
{
    struct str port;
    if (!str_present(host))
        return false;
    if (strip_prefix(&origin, STR("https://")))
        port = STR(":443");
    else if (strip_prefix(&origin, STR("http://")))
        port = STR(":80");
    else
        return false;
    return str_eq_nocase(without_port(origin, port), without_port(host, port));
}

bool upgrade_origin_allowed(const struct upgrade_rules *rules, struct str origin, struct str host)
{
    if (!str_present(origin) || same_origin(origin, host))
        return true;
    for (size_t i = 0; i < rules->origin_count; i++) {
        struct str allowed = str_from(rules->origins[i]);
        if (str_eq(allowed, STR("*")) || str_eq_nocase(allowed, origin))
            return true;
    }
    return false;
}

/* --- query ---------------------------------------------------------------------------------- */

/* The first of equal names counts. What makes no sense is for the session to answer. */
static void read_query(struct lws *wsi, struct upgrade_query *query)
{
    struct {
        struct str name; /* with its "=" */
        struct str *value;
    } wanted[] = {{STR("room="), &query->room},
                  {STR("cursor="), &query->cursor},
                  {STR("last="), &query->last},
                  {STR("state="), &query->state}};
    char part[UPGRADE_HEADERS_MAX + 1];
    size_t used = 0;
    int len;

    *query = (struct upgrade_query){.memory = NULL};
    for (int i = 0;
         (len = lws_hdr_copy_fragment(wsi, part, sizeof(part), WSI_TOKEN_HTTP_URI_ARGS, i)) >= 0;
         i++) {
        for (size_t w = 0; w < sizeof(wanted) / sizeof(wanted[0]); w++) {
            struct str value = {part, (size_t)len};
            if (str_present(*wanted[w].value) || !strip_prefix(&value, wanted[w].name))
                continue;
            if (query->memory == NULL)
                query->memory = xalloc(UPGRADE_HEADERS_MAX);
            memcpy(query->memory + used, value.p, value.len);
            *wanted[w].value = (struct str){query->memory + used, value.len};
            used += value.len;
        }
    }
}

void upgrade_query_fini(struct upgrade_query *query)
{
    free(query->memory);
    *query = (struct upgrade_query){.memory = NULL};
}

/* --- the decision --------------------------------------------------------------------------- */

static const struct http_answer *check_handshake(struct lws *wsi)
{
    char buf[HEADER_MAX + 1];
    struct str value;
    char *uri;
    int uri_len;

    int method = lws_http_get_uri_and_method(wsi, &uri, &uri_len);
    if (method < 0 || !str_eq((struct str){uri, (size_t)uri_len}, STR(UPGRADE_PATH)))
        return &NO_ENDPOINT;
    if (lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) == 0)
        return &BAD_METHOD;
    if (!header(wsi, WSI_TOKEN_VERSION, buf, sizeof(buf), &value) || !str_eq(value, STR("13")))
        return &BAD_VERSION;
    if (lws_hdr_total_length(wsi, WSI_TOKEN_HOST) == 0 ||
        lws_hdr_total_length(wsi, WSI_TOKEN_KEY) != KEY_LEN)
        return &BAD_HANDSHAKE;
    if (!header(wsi, WSI_TOKEN_CONNECTION, buf, sizeof(buf), &value) ||
        !list_has(value, STR("upgrade"), true))
        return &BAD_HANDSHAKE;
    if (!header(wsi, WSI_TOKEN_PROTOCOL, buf, sizeof(buf), &value) ||
        (str_present(value) && !list_has(value, STR(UPGRADE_PROTOCOL), false)))
        return &BAD_PROTOCOL;
    return NULL;
}

static bool origin_allowed(struct lws *wsi, const struct upgrade_rules *rules)
{
    char origin_buf[ORIGIN_MAX], host_buf[ORIGIN_MAX];
    struct str origin, host;
    return header(wsi, WSI_TOKEN_ORIGIN, origin_buf, sizeof(origin_buf), &origin) &&
           header(wsi, WSI_TOKEN_HOST, host_buf, sizeof(host_buf), &host) &&
           upgrade_origin_allowed(rules, origin, host);
}

const struct http_answer *upgrade_check(struct lws *wsi, const struct upgrade_rules *rules,
                                        struct metrics *metrics, struct upgrade_query *out_query)
{
    const struct http_answer *no = check_handshake(wsi);
    if (no == NULL && !origin_allowed(wsi, rules)) {
        metrics_inc(metrics, M_REFUSED_ORIGIN);
        return &BAD_ORIGIN;
    }
    if (no == NULL)
        read_query(wsi, out_query);
    else
        metrics_inc(metrics, M_REFUSED_UPGRADE);
    return no;
}
