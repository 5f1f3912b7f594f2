/* http.h - what roomd answers to plain HTTP: the chat page, the client's modules, health and
 * metrics.
 *
 * Every response closes its connection. Keep-alive is where libwebsockets 4.1.6 hangs on pipelined
 * requests and uses memory after it was freed (CVE-2025-11677), and these requests are few.
 *
 * Status lines and headers are written here, not by libwebsockets, whose own begin with HTTP/1.0
 * where it answers before it has read the version (at an upgrade). What it refuses before asking us
 * (a malformed URL, `Upgrade: foo`) still carries its own short answer.
 *
 * A body goes out in chunks through the writable callback, so that a slow reader has as long as it
 * goes on reading, instead of the 5 s that libwebsockets grants what it has buffered at a close.
 */
#ifndef EDGE_HTTP_H
#define EDGE_HTTP_H

#include "base/metrics.h"
#include "edge/files.h"

struct lws;

struct http_config {
    const char *web_root;
    bool reload; /* see files.h */
    /* For /readyz: NULL, or a literal that says what isn't ready. */
    const char *(*not_ready)(void *arg);
    /* Before /metrics: sets the gauges that are kept elsewhere. */
    void (*sample)(void *arg);
    void *arg;
};

/* Shared by all connections of a worker. The fields are http.c's. */
struct http {
    struct metrics *metrics;
    const char *(*not_ready)(void *arg);
    void (*sample)(void *arg);
    void *arg;
    struct files *files;
};

/* A response under way, embedded in the connection; zeroed before its first use. */
struct http_reply {
    struct files_blob *blob; /* owned reference; NULL: none */
    size_t sent;
};

/* An answer without a file behind it. */
struct http_answer {
    const char *line;    /* "404 Not Found" */
    const char *headers; /* more of them, each with its CRLF; NULL: none */
    const char *text;    /* the body */
};

/* False: the web root can't be read; errno says why. Keeps metrics and config's arg. */
RD_MUST_USE bool http_init(struct http *http, struct metrics *metrics,
                           const struct http_config *config);
void http_fini(struct http *http);

/* LWS_CALLBACK_HTTP and LWS_CALLBACK_HTTP_WRITEABLE: the returned value is for libwebsockets. */
int http_serve(struct http *http, struct lws *wsi, struct http_reply *reply, struct str path);
int http_go_on(struct lws *wsi, struct http_reply *reply);
/* The connection is gone. */
void http_reply_fini(struct http_reply *reply);

/* Writes the whole answer. The caller closes the connection. */
void http_refuse(struct http *http, struct lws *wsi, const struct http_answer *status);

#endif
