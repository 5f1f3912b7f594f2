#include "edge/listener.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "edge/ws_guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libwebsockets.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    ACCEPTS_A_WAKE = 64,
    PAUSE_MS = 250,      /* before accepting is tried again where descriptors ran out */
    UNSENT_MAX = 16384,  /* bytes of a socket that the kernel may hold unsent */
    HANDSHAKE_SECS = 20, /* for a whole request to be there */
    READ_BUFFER = 16384, /* one for the context */
    PIECE_MAX = 1024,    /* of a message, in one callback; one such buffer for each socket */
    WRITE_MAX = 65536,   /* libwebsockets copies what is longer */
    RETRY_AFTER_MAX_S = 10,
    HANG_UP = -1,
    ANSWERED = 1,
    GO_ON = 0
};

/* One socket, from accept to close. */
struct conn {
    struct listener *listener;
    int fd;
    bool known; /* libwebsockets has told us of it, so it will tell its end too */
    struct http_reply reply;
    struct upgrade_query query; /* from the decision to the upgrade */
    struct ws *ws;              /* NULL: plain HTTP, or gone */
};

struct acceptor {
    struct listener *listener;
    struct address address;
    int fd; /* -1: closed */
    struct loop_watch watch;
};

struct listener {
    struct loop_uv *loop;
    struct http *http;
    struct ws_host *ws;
    struct metrics *metrics;
    size_t max_websockets;
    struct upgrade_rules rules;
    struct lws_context *context;
    struct lws_vhost *vhost;
    struct acceptor *acceptors;
    size_t acceptor_count;
    size_t conns;
    int spare_fd; /* given up to tell one client where there are no others left */
    struct loop_timer pause;
};

/* --- too many ------------------------------------------------------------------------------- */

/* Drawn for each, so that they don't all come back at once. */
static unsigned retry_after(struct listener *l)
{
    return 1 + (unsigned)loop_random_below(&l->loop->loop, RETRY_AFTER_MAX_S);
}

/* Straight onto the socket, which is then closed. Its request is read if it is there, as a close
 * with unread bytes would reset the connection and the answer with it. */
static void turn_away(struct listener *l, int fd)
{
    char text[256];
    int len = snprintf(text, sizeof(text),
                       "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n"
                       "Retry-After: %u\r\nContent-Length: 0\r\n\r\n",
                       retry_after(l));
    metrics_inc(l->metrics, M_REFUSED_LIMIT);
    ws_guard_drain(fd);
    (void)send(fd, text, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT); /* closed either way */
    (void)shutdown(fd, SHUT_WR);
    ws_guard_drain(fd);
    (void)close(fd);
}

/* --- accepting ------------------------------------------------------------------------------ */

static void adopt(struct listener *l, int fd)
{
    struct conn *conn = xalloc_zero(sizeof(*conn));
    conn->listener = l;
    conn->fd = fd;

    lws_adopt_desc_t how = {
        .vh = l->vhost,
        .fd = {.sockfd = fd},
        .type = LWS_ADOPT_SOCKET | LWS_ADOPT_HTTP | LWS_ADOPT_ALLOW_SSL,
        .opaque = conn,
    };
    l->conns++;
    ws_guard_start(fd);
    if (lws_adopt_descriptor_vhost_via_info(&how) != NULL || conn->known)
        return;
    /* Refused before it had a wsi: the descriptor is closed, and no callback will come. */
    ws_guard_stop(fd);
    l->conns--;
    free(conn);
}

static void welcome(struct listener *l, int fd, bool is_unix)
{
    if (l->conns >= l->max_websockets + LISTENER_HTTP_MARGIN) {
        logger_warn("connection refused: too many", KV_NUM("open", l->conns));
        turn_away(l, fd);
        return;
    }
    if (!is_unix) {
        int on = 1, unsent = UNSENT_MAX;
        /* Neither failing does harm to anything but speed. */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent));
    }
    adopt(l, fd);
}

static void on_connections(void *arg, unsigned events);

static void watch_acceptors(struct listener *l)
{
    for (size_t i = 0; i < l->acceptor_count; i++) {
        struct acceptor *a = &l->acceptors[i];
        if (a->fd >= 0)
            loop_watch_start(&l->loop->loop, &a->watch, a->fd, LOOP_READ, on_connections, a);
    }
}

static void on_pause_over(void *arg)
{
    struct listener *l = arg;
    if (l->spare_fd < 0)
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    watch_acceptors(l);
}

/* The socket stays readable, so going on would spin. One client is told by means of the spare
 * descriptor; the others wait in the kernel's queue. */
static void out_of_descriptors(struct listener *l, int listening_fd)
{
    int why = errno;
    metrics_inc(l->metrics, M_ACCEPT_PAUSES);
    logger_warn("accepting pauses", KV_TEXT("error", strerror(why)), KV_NUM("open", l->conns));
    if (l->spare_fd >= 0) {
        (void)close(l->spare_fd);
        int fd = accept4(listening_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0)
            turn_away(l, fd);
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
    for (size_t i = 0; i < l->acceptor_count; i++)
        loop_watch_stop(&l->loop->loop, &l->acceptors[i].watch);
    loop_timer_start(&l->loop->loop, &l->pause, PAUSE_MS, on_pause_over, l);
}

static void on_connections(void *arg, unsigned events)
{
    struct acceptor *a = arg;
    (void)events;
    for (int i = 0; i < ACCEPTS_A_WAKE; i++) {
        int fd = accept4(a->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            welcome(a->listener, fd, a->address.sa.ss_family == AF_UNIX);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            out_of_descriptors(a->listener, a->fd);
        if (errno != EINTR && errno != ECONNABORTED)
            return;
    }
}

/* --- what libwebsockets tells --------------------------------------------------------------- */

static int refuse_too_many(struct listener *l, struct lws *wsi)
{
    char header[40];
    (void)snprintf(header, sizeof(header), "Retry-After: %u\r\n", retry_after(l));
    struct http_answer status = {"503 Service Unavailable", header,
                                 "There are too many connections.\n"};
    metrics_inc(l->metrics, M_REFUSED_LIMIT);
    http_refuse(l->http, wsi, &status);
    return ANSWERED;
}

static int confirm_upgrade(struct conn *conn, struct lws *wsi, char *to)
{
    struct listener *l = conn->listener;
    /* It would go on in HTTP/2. With another name it goes on as the HTTP/1.1 that it still is. */
    if (strcasecmp(to, "h2c") == 0) {
        to[0] = '-';
        return GO_ON;
    }
    if (l->ws->count >= l->max_websockets)
        return refuse_too_many(l, wsi);
    const struct http_answer *no = upgrade_check(wsi, &l->rules, l->metrics, &conn->query);
    if (no == NULL)
        return GO_ON;
    http_refuse(l->http, wsi, no);
    return ANSWERED;
}

static int open_ws(struct conn *conn, struct lws *wsi)
{
    struct sockaddr_storage sa;
    socklen_t len = sizeof(sa);
    char peer[ADDRESS_TEXT_MAX] = "gone";
    if (getpeername(conn->fd, (struct sockaddr *)&sa, &len) == 0)
        address_format((const struct sockaddr *)&sa, len, peer, sizeof(peer));
    struct session_hello hello = {
        .peer = str_from(peer),
        .room = conn->query.room,
        .cursor = conn->query.cursor,
        .last = conn->query.last,
        .state = conn->query.state,
    };
    conn->ws = ws_open(conn->listener->ws, wsi, &hello);
    upgrade_query_fini(&conn->query);
    return conn->ws == NULL ? HANG_UP : GO_ON;
}

/* Comes without an open before it where the handshake failed half-way. */
static void ws_gone(struct conn *conn)
{
    if (conn->ws == NULL)
        return;
    ws_closed(conn->ws);
    conn->ws = NULL;
}

static void conn_gone(struct conn *conn)
{
    ws_gone(conn);
    ws_guard_stop(conn->fd);
    upgrade_query_fini(&conn->query);
    http_reply_fini(&conn->reply);
    conn->listener->conns--;
    free(conn);
}

static int on_ws_event(struct ws *ws, enum lws_callback_reasons reason, struct str in)
{
    if (ws == NULL)
        return GO_ON;
    if (reason == LWS_CALLBACK_WS_PEER_INITIATED_CLOSE)
        return ws_peer_closes(ws);
    if (reason == LWS_CALLBACK_RECEIVE)
        ws_received(ws, in);
    else
        ws_writable(ws);
    return GO_ON;
}

static int on_event(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in,
                    size_t len)
{
    /* libwebsockets calls with sockets of its own too, for which there is no conn. */
    struct conn *conn = wsi == NULL ? NULL : lws_get_opaque_user_data(wsi);
    struct str text = {in, len};
    (void)user;
    if (conn == NULL)
        return GO_ON;
    conn->known = true;

    switch (reason) {
    case LWS_CALLBACK_HTTP_CONFIRM_UPGRADE:
        return confirm_upgrade(conn, wsi, in);
    case LWS_CALLBACK_HTTP:
        return http_serve(conn->listener->http, wsi, &conn->reply, text);
    case LWS_CALLBACK_HTTP_WRITEABLE:
        return http_go_on(wsi, &conn->reply);
    case LWS_CALLBACK_ESTABLISHED:
        return open_ws(conn, wsi);
    case LWS_CALLBACK_RECEIVE:
    case LWS_CALLBACK_SERVER_WRITEABLE:
    case LWS_CALLBACK_WS_PEER_INITIATED_CLOSE:
        return on_ws_event(conn->ws, reason, text);
    case LWS_CALLBACK_CLOSED:
        ws_gone(conn);
        return GO_ON;
    case LWS_CALLBACK_RAW_ADOPT:
    case LWS_CALLBACK_RAW_RX:
        /* CONNECT: libwebsockets makes a raw connection of it, without any timeout. */
        return HANG_UP;
    case LWS_CALLBACK_WSI_DESTROY:
        lws_set_opaque_user_data(wsi, NULL);
        conn_gone(conn);
        return GO_ON;
    default:
        return GO_ON;
    }
}

/* While it starts, what it says is for the operator. */
static void on_lws_trouble(int level, const char *line)
{
    (void)level;
    logger_warn("libwebsockets", KV_STR("text", ((struct str){line, strcspn(line, "\n")})));
}

/* Later it is a developer's remark about what one client sent, whatever level it has there. */
static void on_lws_remark(int level, const char *line)
{
    (void)level;
    logger_debug("libwebsockets", KV_STR("text", ((struct str){line, strcspn(line, "\n")})));
}

/* --- life ----------------------------------------------------------------------------------- */

/* One protocol for everything: a client that names no subprotocol gets the first. */
static const struct lws_protocols PROTOCOLS[] = {
    {.name = UPGRADE_PROTOCOL,
     .callback = on_event,
     .rx_buffer_size = PIECE_MAX,
     .tx_packet_size = WRITE_MAX},
    {.name = NULL},
};

/* No pings and no idle limit by libwebsockets: each costs a walk through one list of all sockets.
 */
static const lws_retry_bo_t NO_KEEPALIVE = {.secs_since_valid_ping = 0};

static bool create_context(struct listener *l, char *reason, size_t cap)
{
    void *loops[] = {&l->loop->uv};
    struct lws_context_creation_info info = {
        .port = CONTEXT_PORT_NO_LISTEN_SERVER,
        .protocols = PROTOCOLS,
        .options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS,
        .foreign_loops = loops,
        .alpn = "http/1.1",
        .timeout_secs = HANDSHAKE_SECS,
        .pt_serv_buf_size = READ_BUFFER,
        .max_http_header_data = UPGRADE_HEADERS_MAX,
        .retry_and_idle_policy = &NO_KEEPALIVE,
        .gid = (gid_t)-1,
        .uid = (uid_t)-1,
        .user = l,
    };
    lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_trouble);
    l->context = lws_create_context(&info);
    if (l->context != NULL)
        l->vhost = lws_create_vhost(l->context, &info);
    lws_set_log_level(LLL_ERR | LLL_WARN, on_lws_remark);
    if (l->vhost != NULL)
        return true;
    (void)snprintf(reason, cap,
                   "libwebsockets could not start on libuv (on Debian the package "
                   "libwebsockets-evlib-uv is needed)");
    return false;
}

static bool bind_all(struct listener *l, const struct listener_config *config, char *reason,
                     size_t cap)
{
    l->acceptors = xalloc_array(NULL, config->count, sizeof(*l->acceptors));
    for (size_t i = 0; i < config->count; i++) {
        char why[160];
        struct acceptor *a = &l->acceptors[i];
        *a = (struct acceptor){.listener = l, .address = config->addresses[i]};
        a->fd = address_listen(&a->address, why, sizeof(why));
        if (a->fd < 0) {
            (void)snprintf(reason, cap, "can't listen on %s: %s", a->address.text, why);
            return false;
        }
        l->acceptor_count++;
    }
    return true;
}

static void say_listening(const struct listener *l)
{
    for (size_t i = 0; i < l->acceptor_count; i++) {
        struct sockaddr_storage sa;
        socklen_t len = sizeof(sa);
        char text[ADDRESS_TEXT_MAX] = "unknown";
        if (getsockname(l->acceptors[i].fd, (struct sockaddr *)&sa, &len) == 0)
            address_format((const struct sockaddr *)&sa, len, text, sizeof(text));
        logger_info("listening", KV_TEXT("address", text));
    }
}

struct listener *listener_create(struct loop_uv *loop, struct http *http, struct ws_host *ws,
                                 struct metrics *metrics, const struct listener_config *config,
                                 char *reason, size_t cap)
{
    struct listener *l = xalloc_zero(sizeof(*l));
    l->loop = loop;
    l->http = http;
    l->ws = ws;
    l->metrics = metrics;
    l->max_websockets = config->max_websockets;
    l->rules = config->rules;
    l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (!bind_all(l, config, reason, cap) || !create_context(l, reason, cap)) {
        listener_stop(l);
        listener_close(l);
        (void)uv_run(&loop->uv, UV_RUN_NOWAIT);
        listener_destroy(l);
        return NULL;
    }
    watch_acceptors(l);
    say_listening(l);
    return l;
}

void listener_stop(struct listener *l)
{
    loop_timer_stop(&l->loop->loop, &l->pause);
    for (size_t i = 0; i < l->acceptor_count; i++) {
        struct acceptor *a = &l->acceptors[i];
        if (a->fd < 0)
            continue;
        loop_watch_stop(&l->loop->loop, &a->watch);
        address_unlisten(&a->address, a->fd);
        a->fd = -1;
    }
}

void listener_close(struct listener *l)
{
    listener_stop(l);
    if (l->context != NULL)
        lws_context_destroy(l->context);
}

void listener_destroy(struct listener *l)
{
    if (l == NULL)
        return;
    /* The second call, which frees what the first could only ask libuv to close. */
    if (l->context != NULL)
        lws_context_destroy(l->context);
    assert(l->conns == 0);
    if (l->spare_fd >= 0)
        (void)close(l->spare_fd);
    free(l->acceptors);
    free(l);
}
