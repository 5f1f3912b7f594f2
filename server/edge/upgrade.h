/* upgrade.h - may this HTTP request become a WebSocket?
 *
 * Decided in LWS_CALLBACK_HTTP_CONFIRM_UPGRADE, where all headers are there and nothing has been
 * changed yet. What libwebsockets checks itself later it answers by hanging up, so everything it
 * would refuse is refused here first, with a status that says why.
 *
 * Origins: a browser sends the page's origin with each upgrade, and a page of another site must not
 * ride on what our users may do (RFC 6455 section 10.2). Allowed are the origin that the request
 * itself is addressed to (Host) and those in the list. A request without Origin comes from no
 * browser's page and is allowed.
 */
#ifndef EDGE_UPGRADE_H
#define EDGE_UPGRADE_H

#include "base/metrics.h"
#include "edge/http.h"

#define UPGRADE_PATH "/v1/ws"
#define UPGRADE_PROTOCOL "roomd.v1"

enum { UPGRADE_HEADERS_MAX = 8192 /* of one request, what libwebsockets is told to hold */ };

struct upgrade_rules {
    const char *const *origins; /* "https://chat.example.com", or "*" */
    size_t origin_count;
};

/* What the URL asks for, decoded. Absent: not given. */
struct upgrade_query {
    struct str room, cursor, last, state;
    char *memory; /* of the three */
};

/* NULL: yes, and *out_query is filled (to be freed with upgrade_query_fini). Else what to answer;
 * counted. */
const struct http_answer *upgrade_check(struct lws *wsi, const struct upgrade_rules *rules,
                                        struct metrics *metrics, struct upgrade_query *out_query);
void upgrade_query_fini(struct upgrade_query *query);

/* Each absent where the header is. Pure, for its own test. */
bool upgrade_origin_allowed(const struct upgrade_rules *rules, struct str origin, struct str host);

#endif
