#include "edge/ws.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "edge/ws_guard.h"

#include <assert.h>
#include <libwebsockets.h>
#include <stdlib.h>
#include <sys/socket.h>

struct ws {
    struct ws_host *host;
    struct lws *wsi;
    struct session *session;
    struct list dirty;
    struct buf message; /* a message under way, of which more pieces will come */
    size_t held;        /* of the last write, libwebsockets may still hold so much; 0: nothing */
    bool done;          /* the peer has closed, or the socket is cut: nothing is written any more */
    bool broken;        /* the peer broke the framing rules: to be said after what is queued */
};

static struct ws *from_link(struct list *link)
{
    return LIST_ITEM(link, struct ws, dirty);
}

/* --- what the session asks for -------------------------------------------------------------- */

static void want_write(void *conn)
{
    struct ws *ws = conn;
    if (ws->held == 0 && !ws->done && list_empty(&ws->dirty)) {
        list_push_back(&ws->host->dirty, &ws->dirty);
        ws->host->gathered++;
    }
}

/* Nothing is flushed, the kernel's buffers are dropped too, and the peer gets a reset. */
static void cut(void *conn)
{
    struct ws *ws = conn;
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    ws->done = true;
    list_remove(&ws->dirty);
    (void)setsockopt(lws_get_socket_fd(ws->wsi), SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    lws_set_timeout(ws->wsi, PENDING_TIMEOUT_USER_REASON_BASE, LWS_TO_KILL_ASYNC);
    /* That only put an entry into a list, which is looked at after libwebsockets' own events: make
     * one. */
    lws_cancel_service(lws_get_context(ws->wsi));
}

static const struct session_conn_ops session_ops = {.want_write = want_write, .abort = cut};

/* --- writing -------------------------------------------------------------------------------- */

static void write_out(struct ws *ws, char *p, size_t len)
{
    if (lws_write(ws->wsi, (unsigned char *)p, len, LWS_WRITE_RAW) < 0) {
        cut(ws);
        return;
    }
    if (lws_partial_buffered(ws->wsi)) {
        /* How much of it is private to libwebsockets; all of it is what we know. */
        ws->held = len;
        (void)lws_callback_on_writable(ws->wsi);
    }
}

/* As how many writes does one of so many bytes count? */
static unsigned price(size_t len)
{
    return (unsigned)(1 + len / WS_WRITE_BYTES);
}

/* One write: the next packet alone where it is large or the only one, else as many as fit. Returns
 * as how many it counts. */
static unsigned write_next(struct ws *ws)
{
    struct session *s = ws->session;
    struct packet *p = session_take(s);
    size_t next = session_next_len(s);
    if (next == 0 || packet_len(p) + next > WS_CHUNK) {
        unsigned alone = price(packet_len(p));
        write_out(ws, p->bytes, packet_len(p));
        packet_unref(p);
        return alone;
    }

    char *chunk = ws->host->chunk;
    size_t used = packet_len(p);
    memcpy(chunk, p->bytes, used);
    packet_unref(p);
    while (next != 0 && next <= WS_CHUNK - used) {
        p = session_take(s);
        memcpy(chunk + used, p->bytes, next);
        used += next;
        packet_unref(p);
        next = session_next_len(s);
    }
    write_out(ws, chunk, used);
    return price(used);
}

static unsigned write_queued(struct ws *ws)
{
    unsigned sum = 0;
    for (int writes = 0; writes < WS_WRITES_A_SOCKET && ws->held == 0 && !ws->done &&
                         session_next_len(ws->session) != 0;
         writes++)
        sum += write_next(ws);
    return sum;
}

/* Returns as how many writes what it made counts. */
static unsigned flush_socket(struct ws *ws)
{
    unsigned writes = write_queued(ws);
    if (ws->broken) {
        ws->broken = false;
        session_fail(ws->session, CLOSE_PROTOCOL_ERROR);
        writes += write_queued(ws);
    }
    if (ws->done)
        return writes;
    session_wrote(ws->session, ws->held);
    if (ws->held == 0 && session_next_len(ws->session) != 0) {
        /* It had its turn: the others first. */
        list_remove(&ws->dirty);
        list_push_back(&ws->host->backlog, &ws->dirty);
    }
    return writes;
}

/* Returns how many writes are left of those allowed. A socket may go over by those it may make. */
static unsigned flush_list(struct list *sockets, unsigned allowed)
{
    struct list *link;
    while (allowed != 0 && (link = list_pop_front(sockets)) != NULL) {
        unsigned writes = flush_socket(from_link(link));
        allowed -= writes < allowed ? writes : allowed;
    }
    return allowed;
}

static void stay_awake(uv_idle_t *more)
{
    (void)more; /* an active idle handle keeps the loop from sleeping: that is all it is for */
}

/* A message comes in pieces of a kilobyte, one a turn, and a burst of them in many turns. What they
 * lead to is gathered while more is coming in, or on its way through the log, so that a burst goes
 * out in few writes; but not for longer than half of what the writes themselves will take. */
static bool gather(struct ws_host *host)
{
    uint64_t now_ns = uv_hrtime();
    bool more = host->heard || loop_has_tasks(host->sessions->loop);
    host->heard = false;
    if (host->gathering_since_ns == 0)
        host->gathering_since_ns = now_ns;
    if (more && now_ns - host->gathering_since_ns < host->gathered * WS_GATHER_NS)
        return true;
    host->gathering_since_ns = 0;
    host->gathered = 0;
    return false;
}

static void on_flush(uv_prepare_t *flush)
{
    struct ws_host *host = flush->data;
    if (gather(host)) {
        (void)uv_idle_start(&host->more, stay_awake);
        return;
    }
    struct list
        before; /* a socket that has more goes to the backlog's end, and not round in circles */
    list_init(&before);
    list_move_all(&before, &host->backlog);

    unsigned share = list_empty(&before) ? 0 : WS_BACKLOG_SHARE;
    unsigned left = flush_list(&host->dirty, WS_WRITES_A_TURN - share);
    (void)flush_list(&before, left + share);

    list_move_all(&before, &host->backlog);
    list_move_all(&before, &host->dirty);
    list_move_all(&host->backlog, &before);
    if (list_empty(&host->backlog))
        (void)uv_idle_stop(&host->more);
    else
        (void)uv_idle_start(&host->more, stay_awake);
}

void ws_writable(struct ws *ws)
{
    if (lws_partial_buffered(ws->wsi)) {
        (void)lws_callback_on_writable(ws->wsi);
        return;
    }
    ws->held = 0;
    /* Even with nothing to write: a replay may be waiting for the socket to have drained. */
    want_write(ws);
}

/* --- reading -------------------------------------------------------------------------------- */

void ws_received(struct ws *ws, struct str piece)
{
    bool whole = lws_is_final_fragment(ws->wsi) != 0;
    size_t to_come = lws_remaining_packet_payload(ws->wsi);
    size_t room = ws->host->max_frame_bytes - ws->message.len;

    ws->host->heard = true;
    if (ws->done || session_closing(ws->session))
        return;
    if (lws_frame_is_binary(ws->wsi)) {
        session_fail(ws->session, CLOSE_BAD_FRAME);
        return;
    }
    /* The header has announced what is to come: refused before it is here. */
    if (piece.len > room || to_come > room - piece.len) {
        buf_clear(&ws->message, 0);
        session_fail(ws->session, CLOSE_TOO_BIG);
        return;
    }
    if (whole && ws->message.len == 0) {
        session_receive(ws->session, piece);
        return;
    }
    enum rd_err err = buf_append(&ws->message, piece.p, piece.len);
    assert(err == RD_OK); /* held against the same ceiling above */
    (void)err;
    if (whole) {
        session_receive(ws->session, buf_str(&ws->message));
        buf_clear(&ws->message, 0);
    }
}

static void on_pong(void *arg)
{
    struct ws *ws = arg;
    session_alive(ws->session);
}

/* libwebsockets hasn't yet handed over the good frames before this one: their answers go out first.
 */
static void on_broken(void *arg)
{
    struct ws *ws = arg;
    ws->broken = true;
    if (ws->held == 0)
        want_write(ws);
    else
        session_fail(ws->session, CLOSE_PROTOCOL_ERROR);
}

static const struct ws_guard_ops guard_ops = {.pong = on_pong, .broken = on_broken};

/* --- life ----------------------------------------------------------------------------------- */

struct ws *ws_open(struct ws_host *host, struct lws *wsi, const struct session_hello *hello)
{
    struct ws *ws = xalloc_zero(sizeof(*ws));
    if (!ws_guard_upgrade(lws_get_socket_fd(wsi), &guard_ops, ws)) {
        logger_warn("upgrade dropped: its bytes can't be followed", KV_STR("peer", hello->peer));
        free(ws);
        return NULL;
    }
    ws->host = host;
    ws->wsi = wsi;
    list_init(&ws->dirty);
    buf_init(&ws->message, host->max_frame_bytes);
    host->count++;
    ws->session = session_open(host->sessions, hello, &session_ops, ws);
    return ws;
}

/* -1 closes now; 0 lets libwebsockets answer with the peer's own close code. */
int ws_peer_closes(struct ws *ws)
{
    ws->done = true;
    list_remove(&ws->dirty);
    return session_closing(ws->session) ? -1 : 0;
}

void ws_closed(struct ws *ws)
{
    list_remove(&ws->dirty);
    session_closed(ws->session);
    buf_fini(&ws->message);
    ws->host->count--;
    free(ws);
}

void ws_host_init(struct ws_host *host, uv_loop_t *uv, struct session_host *sessions,
                  size_t max_frame_bytes)
{
    host->sessions = sessions;
    host->max_frame_bytes = max_frame_bytes;
    host->count = 0;
    list_init(&host->dirty);
    list_init(&host->backlog);
    (void)uv_prepare_init(uv, &host->flush); /* these three can't fail */
    (void)uv_idle_init(uv, &host->more);
    host->flush.data = host;
    (void)uv_prepare_start(&host->flush, on_flush);
    /* There is always a flush handler; that alone is no reason to go on. */
    uv_unref((uv_handle_t *)&host->flush);
}

void ws_host_fini(struct ws_host *host)
{
    assert(host->count == 0);
    uv_close((uv_handle_t *)&host->flush, NULL);
    uv_close((uv_handle_t *)&host->more, NULL);
}
