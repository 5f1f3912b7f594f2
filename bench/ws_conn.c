#include "bench/ws_conn.h"

#include "bench/clock.h"
#include "bench/die.h"
#include "bench/ws_frame.h"
#include "bench/ws_handshake.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    /* A message of the largest size, its header and one read more. */
    RX_SIZE = WS_CONN_MESSAGE_MAX + (1 << 18),
    HTTP_HEAD_MAX = 8192
};

/* --- shared --------------------------------------------------------------------------------- */

void ws_conn_io_init(struct ws_conn_io *io, struct poller *poller, const struct target *target)
{
    *io = (struct ws_conn_io){.poller = poller, .target = target};
    io->rx = die_if_null(malloc(RX_SIZE));
    if (getrandom(&io->random, sizeof(io->random), 0) != (ssize_t)sizeof(io->random))
        io->random = clock_now_ns();
    io->random |= 1;
}

void ws_conn_io_fini(struct ws_conn_io *io)
{
    free(io->rx);
}

/* xorshift64*: masks must differ from frame to frame, and need not be secret in a load test. */
static uint64_t next_random(struct ws_conn_io *io)
{
    io->random ^= io->random >> 12;
    io->random ^= io->random << 25;
    io->random ^= io->random >> 27;
    return io->random * UINT64_C(0x2545f4914f6cdd1d);
}

/* --- the end -------------------------------------------------------------------------------- */

void ws_conn_abort(struct ws_conn *conn)
{
    if (conn->state != WS_CONN_IDLE && conn->state != WS_CONN_CLOSED) {
        poller_remove(conn->io->poller, &conn->source);
        close(conn->source.fd);
    }
    conn->state = WS_CONN_CLOSED;
    bytes_fini(&conn->rest);
    bytes_fini(&conn->message);
    bytes_fini(&conn->unsent);
}

static void closed(struct ws_conn *conn, unsigned code, const char *why)
{
    ws_conn_abort(conn);
    conn->close_code = (uint16_t)code;
    conn->why = why;
    conn->ops->on_closed(conn);
}

/* --- out ------------------------------------------------------------------------------------ */

static void watch(struct ws_conn *conn)
{
    uint32_t events = conn->paused ? 0 : EPOLLIN;
    if (conn->unsent.len > 0 || conn->state == WS_CONN_CONNECTING)
        events |= EPOLLOUT;
    poller_watch(conn->io->poller, &conn->source, events);
}

void ws_conn_flush(struct ws_conn *conn)
{
    struct bytes *b = &conn->unsent;
    if (b->len == 0 || conn->state == WS_CONN_CLOSED)
        return;
    ssize_t n = send(conn->source.fd, b->p, b->len, MSG_NOSIGNAL);
    /* An error other than a full socket shows again on the next turn as EPOLLERR or end of file. */
    size_t sent = n > 0 ? (size_t)n : 0;
    bytes_consume(b, sent);
    watch(conn);
}

static void put_frame(struct ws_conn *conn, unsigned opcode, const void *p, size_t len)
{
    uint32_t mask_word = (uint32_t)(next_random(conn->io) >> 32);
    uint8_t mask[4];
    memcpy(mask, &mask_word, sizeof(mask));
    uint8_t head[WS_FRAME_HEAD_MAX];
    bytes_append(&conn->unsent, head, ws_frame_write_head(head, opcode, len, mask));
    size_t at = conn->unsent.len;
    if (len > 0) {
        bytes_append(&conn->unsent, p, len);
        ws_frame_mask(conn->unsent.p + at, len, mask);
    }
}

bool ws_conn_text(struct ws_conn *conn, struct str text)
{
    if (text.len > WS_CONN_UNSENT_MAX || conn->unsent.len > WS_CONN_UNSENT_MAX - text.len)
        return false;
    put_frame(conn, WS_FRAME_TEXT, text.p, text.len);
    return true;
}

void ws_conn_pause(struct ws_conn *conn, bool paused)
{
    conn->paused = paused;
    if (conn->state == WS_CONN_OPEN)
        watch(conn);
}

/* --- the upgrade ---------------------------------------------------------------------------- */

static void make_key(const struct ws_conn *conn, char out_key[WS_HANDSHAKE_KEY_LEN + 1])
{
    uint8_t nonce[16];
    memcpy(nonce, &conn->key_seed, 8);
    memcpy(nonce + 8, &conn->key_seed, 8);
    ws_handshake_key(nonce, out_key);
}

static void send_request(struct ws_conn *conn)
{
    char key[WS_HANDSHAKE_KEY_LEN + 1];
    make_key(conn, key);
    char request[2 * TARGET_TEXT_MAX + 256];
    int len = snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Key: %s\r\n"
                       "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: roomd.v1\r\n\r\n",
                       conn->io->target->path, conn->io->target->host, key);
    bytes_append(&conn->unsent, request, (size_t)len);
    conn->state = WS_CONN_UPGRADING;
    ws_conn_flush(conn);
}

/* Returns how many bytes the HTTP answer took; 0 while it isn't whole. */
static size_t read_answer(struct ws_conn *conn, const uint8_t *p, size_t len)
{
    const char *end = memmem(p, len, "\r\n\r\n", 4);
    if (end == NULL) {
        if (len > HTTP_HEAD_MAX)
            closed(conn, WS_CONN_ABNORMAL, "the server's HTTP answer is too long");
        return 0;
    }
    struct str head = {(const char *)p, (size_t)(end - (const char *)p)};
    if (head.len < 12 || memcmp(head.p, "HTTP/1.1 101", 12) != 0) {
        bool busy = head.len >= 12 && memcmp(head.p + 9, "503", 3) == 0;
        closed(conn, WS_CONN_ABNORMAL, busy ? "503 to the upgrade" : "the upgrade was refused");
        return 0;
    }
    char key[WS_HANDSHAKE_KEY_LEN + 1];
    char accept[WS_HANDSHAKE_ACCEPT_LEN + 1];
    make_key(conn, key);
    ws_handshake_accept(str_from(key), accept);
    if (!str_eq(ws_handshake_header(head, "Sec-WebSocket-Accept"), str_from(accept))) {
        closed(conn, WS_CONN_ABNORMAL, "the server's Sec-WebSocket-Accept is wrong");
        return 0;
    }
    conn->state = WS_CONN_OPEN;
    conn->opened = true;
    conn->ops->on_open(conn);
    return head.len + 4;
}

/* --- in ------------------------------------------------------------------------------------- */

static void take_close(struct ws_conn *conn, const uint8_t *payload, size_t len)
{
    unsigned code = len >= 2 ? (unsigned)payload[0] << 8 | payload[1] : 1005;
    put_frame(conn, WS_FRAME_CLOSE, payload, len < 2 ? 0 : 2);
    ws_conn_flush(conn);
    closed(conn, code, NULL);
}

static void take_fragment(struct ws_conn *conn, const struct ws_frame_head *head,
                          const uint8_t *payload)
{
    bool first = head->opcode != WS_FRAME_CONTINUATION;
    bool open = conn->message.p != NULL;
    if (first == open || conn->message.len > WS_CONN_MESSAGE_MAX - head->payload_len) {
        closed(conn, WS_CONN_ABNORMAL, "fragments out of order or too long");
        return;
    }
    /* Even an empty first fragment must leave a trace. */
    bytes_reserve(&conn->message, 0);
    bytes_append(&conn->message, payload, (size_t)head->payload_len);
    if (!head->fin)
        return;
    struct bytes whole = conn->message;
    conn->message = (struct bytes){0};
    conn->ops->on_text(conn, (struct str){(const char *)whole.p, whole.len});
    free(whole.p);
}

static void take_frame(struct ws_conn *conn, const struct ws_frame_head *head,
                       const uint8_t *payload)
{
    size_t len = (size_t)head->payload_len;
    switch (head->opcode) {
    case WS_FRAME_TEXT:
        if (head->fin && conn->message.p == NULL)
            conn->ops->on_text(conn, (struct str){(const char *)payload, len});
        else
            take_fragment(conn, head, payload);
        break;
    case WS_FRAME_CONTINUATION:
        take_fragment(conn, head, payload);
        break;
    case WS_FRAME_PING:
        put_frame(conn, WS_FRAME_PONG, payload, len);
        ws_conn_flush(conn);
        break;
    case WS_FRAME_PONG:
        break;
    case WS_FRAME_CLOSE:
        take_close(conn, payload, len);
        break;
    default:
        closed(conn, WS_CONN_ABNORMAL, "the server sent a binary frame");
    }
}

/* Hands out every whole frame. Returns how many bytes were used. */
static size_t take_frames(struct ws_conn *conn, const uint8_t *p, size_t len)
{
    size_t at = 0;
    while (conn->state == WS_CONN_OPEN) {
        struct ws_frame_head head;
        enum ws_frame_verdict verdict = ws_frame_read_head(p + at, len - at, &head);
        if (verdict == WS_FRAME_MORE)
            break;
        if (verdict == WS_FRAME_BAD || head.masked || head.payload_len > WS_CONN_MESSAGE_MAX) {
            closed(conn, WS_CONN_ABNORMAL, "the server sent a malformed or too long frame");
            break;
        }
        if (len - at - head.head_len < head.payload_len)
            break;
        take_frame(conn, &head, p + at + head.head_len);
        at += head.head_len + (size_t)head.payload_len;
    }
    return at;
}

static void receive(struct ws_conn *conn)
{
    uint8_t *rx = conn->io->rx;
    size_t have = conn->rest.len;
    if (have > 0)
        memcpy(rx, conn->rest.p, have);
    ssize_t n = recv(conn->source.fd, rx + have, RX_SIZE - have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        closed(conn, WS_CONN_ABNORMAL, n == 0 ? "end of file" : strerrordesc_np(errno));
        return;
    }
    conn->io->now_ns = clock_now_ns();
    size_t len = have + (size_t)n;
    size_t used = conn->state == WS_CONN_UPGRADING ? read_answer(conn, rx, len) : 0;
    if (conn->state == WS_CONN_OPEN)
        used += take_frames(conn, rx + used, len - used);
    if (conn->state == WS_CONN_CLOSED)
        return;
    bytes_consume(&conn->rest, have);
    if (used < len)
        bytes_append(&conn->rest, rx + used, len - used);
}

static void on_ready(struct poller_source *source, uint32_t events)
{
    struct ws_conn *conn = (struct ws_conn *)source;
    if (conn->state == WS_CONN_CONNECTING) {
        int error = 0;
        socklen_t size = sizeof(error);
        getsockopt(source->fd, SOL_SOCKET, SO_ERROR, &error, &size);
        if (error != 0)
            closed(conn, WS_CONN_ABNORMAL, strerrordesc_np(error));
        else if (events & EPOLLOUT)
            send_request(conn);
        return;
    }
    if (events & EPOLLOUT)
        ws_conn_flush(conn);
    /* Errors and hang-ups are read too, even by a paused client: a close frame may lie in front of
     * them. */
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        receive(conn);
}

enum ws_conn_opened ws_conn_open(struct ws_conn *conn, struct ws_conn_io *io,
                                 const struct ws_conn_ops *ops)
{
    const struct sockaddr *addr = (const struct sockaddr *)&io->target->addr;
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return WS_CONN_FAILED;
    int on = 1;
    if (addr->sa_family != AF_UNIX)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only costs latency */
    if (connect(fd, addr, io->target->addr_len) < 0 && errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        errno = error;
        return error == EAGAIN ? WS_CONN_BUSY : WS_CONN_FAILED;
    }
    *conn = (struct ws_conn){.source = {.fd = fd, .on_ready = on_ready},
                             .io = io,
                             .ops = ops,
                             .state = WS_CONN_CONNECTING,
                             .key_seed = next_random(io)};
    watch(conn);
    return WS_CONN_STARTED;
}
