#include "edge/http.h"

#include "base/xalloc.h"
#include "edge/ws_guard.h"

#include <libwebsockets.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    HEAD_MAX = 2048,
    CHUNK = 16384,
    SLOW_READER_SECS = 30, /* for each chunk */
    METRICS_MAX = 64 << 10,
    CLOSE_NOW = -1
};

/* 'self' covers our own WebSockets in today's browsers, but not in Safari before 15.4. */
#define COMMON_HEADERS                                                                             \
    "Connection: close\r\n"                                                                        \
    "Content-Security-Policy: default-src 'self'; connect-src 'self' ws: wss:; "                   \
    "img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; "               \
    "frame-ancestors 'none'\r\n"                                                                   \
    "X-Content-Type-Options: nosniff\r\n"                                                          \
    "X-Frame-Options: DENY\r\n"                                                                    \
    "Referrer-Policy: no-referrer\r\n"                                                             \
    "Cross-Origin-Opener-Policy: same-origin\r\n"

static const char TEXT[] = "text/plain; charset=utf-8";

static const struct http_answer NOT_FOUND = {"404 Not Found", NULL, "There is nothing here.\n"};
static const struct http_answer NOT_ALLOWED = {"405 Method Not Allowed", "Allow: GET, HEAD\r\n",
                                               "Only GET and HEAD are answered here.\n"};

bool http_init(struct http *http, struct metrics *metrics, const struct http_config *config)
{
    *http = (struct http){
        .metrics = metrics,
        .not_ready = config->not_ready,
        .sample = config->sample,
        .arg = config->arg,
        .files = files_create(config->web_root, config->reload),
    };
    return http->files != NULL;
}

void http_fini(struct http *http)
{
    files_destroy(http->files);
    http->files = NULL;
}

void http_reply_fini(struct http_reply *reply)
{
    files_blob_unref(reply->blob);
    reply->blob = NULL;
}

/* --- writing -------------------------------------------------------------------------------- */

static bool is_head(struct lws *wsi)
{
    return lws_hdr_total_length(wsi, WSI_TOKEN_HEAD_URI) != 0;
}

/* LWS_WRITE_HTTP goes out as it is. */
static bool write_raw(struct lws *wsi, const char *p, size_t len)
{
    /* libwebsockets asks for a pointer that isn't const, and doesn't write through it. */
    return lws_write(wsi, (unsigned char *)(uintptr_t)p, len, LWS_WRITE_HTTP) >= 0;
}

static int finish(struct lws *wsi)
{
    ws_guard_drain(lws_get_socket_fd(wsi));
    return CLOSE_NOW;
}

int http_go_on(struct lws *wsi, struct http_reply *reply)
{
    struct files_blob *blob = reply->blob;
    if (blob == NULL)
        return CLOSE_NOW;
    while (!lws_partial_buffered(wsi) && reply->sent < blob->len) {
        size_t left = blob->len - reply->sent;
        size_t len = left < CHUNK ? left : CHUNK;
        if (!write_raw(wsi, blob->bytes + reply->sent, len))
            return CLOSE_NOW;
        reply->sent += len;
    }
    if (!lws_partial_buffered(wsi))
        return finish(wsi);
    lws_set_timeout(wsi, PENDING_TIMEOUT_HTTP_CONTENT, SLOW_READER_SECS);
    (void)lws_callback_on_writable(wsi);
    return 0;
}

/* Takes a reference to blob. */
static int send_blob(struct lws *wsi, struct http_reply *reply, const char *line,
                     const char *headers, struct files_blob *blob)
{
    char head[HEAD_MAX];
    int len = snprintf(head, sizeof(head),
                       "HTTP/1.1 %s\r\n" COMMON_HEADERS "%sContent-Type: %s\r\n"
                       "Content-Length: %zu\r\n\r\n",
                       line, headers == NULL ? "" : headers, blob->type, blob->len);
    if (len >= HEAD_MAX || reply->blob != NULL || !write_raw(wsi, head, (size_t)len))
        return CLOSE_NOW;
    if (is_head(wsi))
        return finish(wsi);
    reply->blob = files_blob_ref(blob);
    return http_go_on(wsi, reply);
}

/* The same, and lets go of the caller's own reference. */
static int send_made(struct lws *wsi, struct http_reply *reply, const char *line,
                     const char *headers, struct files_blob *blob)
{
    int rc = send_blob(wsi, reply, line, headers, blob);
    files_blob_unref(blob);
    return rc;
}

static int send_status(struct lws *wsi, struct http_reply *reply, const struct http_answer *status)
{
    return send_made(wsi, reply, status->line, status->headers,
                     files_blob_create(TEXT, str_from(status->text)));
}

void http_refuse(struct http *http, struct lws *wsi, const struct http_answer *status)
{
    char all[HEAD_MAX];
    int len = snprintf(all, sizeof(all),
                       "HTTP/1.1 %s\r\n" COMMON_HEADERS "%sContent-Type: %s\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       status->line, status->headers == NULL ? "" : status->headers, TEXT,
                       strlen(status->text), status->text);
    metrics_inc(http->metrics, M_HTTP_REQUESTS);
    if (len < HEAD_MAX)
        (void)write_raw(wsi, all, (size_t)len); /* closed either way */
    ws_guard_drain(lws_get_socket_fd(wsi));
}

/* --- what is where -------------------------------------------------------------------------- */

static bool etag_matches(struct lws *wsi, const char *etag)
{
    char given[256];
    int len = lws_hdr_copy(wsi, given, sizeof(given), WSI_TOKEN_HTTP_IF_NONE_MATCH);
    return len > 0 && (strstr(given, etag) != NULL || strcmp(given, "*") == 0);
}

/* The names of the files say nothing about their versions, so a browser has to ask each time; the
 * ETag makes the answer short. */
static int send_file(struct lws *wsi, struct http_reply *reply, struct files_blob *blob)
{
    char headers[128];
    (void)snprintf(headers, sizeof(headers), "Cache-Control: no-cache\r\nETag: %s\r\n", blob->etag);
    if (!etag_matches(wsi, blob->etag))
        return send_blob(wsi, reply, "200 OK", headers, blob);

    char head[HEAD_MAX];
    int len = snprintf(head, sizeof(head), "HTTP/1.1 304 Not Modified\r\n" COMMON_HEADERS "%s\r\n",
                       headers);
    (void)write_raw(wsi, head, (size_t)len); /* closed either way */
    return finish(wsi);
}

static int send_health(struct http *http, struct lws *wsi, struct http_reply *reply, bool ready)
{
    const char *what = ready && http->not_ready != NULL ? http->not_ready(http->arg) : NULL;
    char text[128];
    int len = snprintf(text, sizeof(text), "%s\n", what == NULL ? "ok" : what);
    return send_made(wsi, reply, what == NULL ? "200 OK" : "503 Service Unavailable",
                     "Cache-Control: no-store\r\n",
                     files_blob_create(TEXT, (struct str){text, (size_t)len}));
}

static int send_metrics(struct http *http, struct lws *wsi, struct http_reply *reply)
{
    char *text = xalloc(METRICS_MAX);
    http->sample(http->arg);
    size_t len = metrics_print(http->metrics, text, METRICS_MAX);
    struct files_blob *blob =
        files_blob_create("text/plain; version=0.0.4; charset=utf-8",
                          (struct str){text, len < METRICS_MAX ? len : METRICS_MAX - 1});
    free(text);
    return send_made(wsi, reply, "200 OK", "Cache-Control: no-store\r\n", blob);
}

static int send_no_icon(struct lws *wsi)
{
    static const char HEAD[] =
        "HTTP/1.1 204 No Content\r\n" COMMON_HEADERS "Cache-Control: max-age=86400\r\n\r\n";
    (void)write_raw(wsi, HEAD, sizeof(HEAD) - 1); /* closed either way */
    return finish(wsi);
}

enum page { PAGE_FILE, PAGE_HEALTH, PAGE_READY, PAGE_METRICS, PAGE_ICON, PAGE_UPGRADE, PAGE_NONE };

static enum page page_at(struct http *http, struct str path, struct files_blob **out_file)
{
    static const struct {
        struct str path;
        enum page page;
    } PAGES[] = {
        {{"/healthz", 8}, PAGE_HEALTH},  {{"/readyz", 7}, PAGE_READY},
        {{"/metrics", 8}, PAGE_METRICS}, {{"/favicon.ico", 12}, PAGE_ICON},
        {{"/v1/ws", 6}, PAGE_UPGRADE},
    };
    *out_file = files_find(http->files, path);
    if (*out_file != NULL)
        return PAGE_FILE;
    for (size_t i = 0; i < sizeof(PAGES) / sizeof(PAGES[0]); i++)
        if (str_eq(path, PAGES[i].path))
            return PAGES[i].page;
    return PAGE_NONE;
}

int http_serve(struct http *http, struct lws *wsi, struct http_reply *reply, struct str path)
{
    static const struct http_answer NO_UPGRADE = {
        "426 Upgrade Required",
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
        "This is a WebSocket endpoint.\n",
    };
    struct files_blob *file;
    enum page page = page_at(http, path, &file);

    metrics_inc(http->metrics, M_HTTP_REQUESTS);
    if (page == PAGE_NONE)
        return send_status(wsi, reply, &NOT_FOUND);
    if (lws_hdr_total_length(wsi, WSI_TOKEN_GET_URI) == 0 && !is_head(wsi))
        return send_status(wsi, reply, &NOT_ALLOWED);

    switch (page) {
    case PAGE_FILE:
        return send_file(wsi, reply, file);
    case PAGE_HEALTH:
    case PAGE_READY:
        return send_health(http, wsi, reply, page == PAGE_READY);
    case PAGE_METRICS:
        return send_metrics(http, wsi, reply);
    case PAGE_ICON:
        return send_no_icon(wsi);
    case PAGE_UPGRADE:
        return send_status(wsi, reply, &NO_UPGRADE);
    case PAGE_NONE:
        break;
    }
    return CLOSE_NOW;
}
