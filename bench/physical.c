/* roomd-bench-physical - a bare epoll broadcast server: the limit that roomd is held against.
 *
 * It does what no room server can do without: one send for each socket and turn of the loop, with
 * everything that arrived in the turn in it, framed once. And nothing else: no log, no replay, no
 * limits for the sake of fairness, no timers. It speaks just enough of the wire that roomd-bench
 * runs on it unchanged (not `replay`: it remembers nothing).
 *
 *   roomd-bench-physical PORT [CPU]      port 0: any free one; the port is printed
 */
#include "bench/die.h"
#include "bench/physical_room.h"
#include "bench/physical_wire.h"
#include "bench/poller.h"
#include "bench/ws_frame.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CONNS_MAX = 65536, /* descriptors */
    RX_SIZE = 1 << 18,
    UNFINISHED_MAX = 1 << 17, /* of a client's frame */
    UNSENT_MAX = 1 << 20      /* a client that lets more wait is cut */
};

struct conn {
    struct poller_source source; /* first: the poller's pointer is ours */
    struct physical_room_member member;
    bool upgraded;
    bool dirty;          /* listed in server.touched */
    struct bytes rest;   /* received, not whole yet */
    struct bytes unsent; /* own answers, and what a send left over */
};

static struct server {
    struct poller poller;
    struct poller_source listener;
    struct conn *conns[CONNS_MAX]; /* by descriptor; kept for the next one with that number */
    struct physical_room_table rooms;
    struct physical_room *busy[PHYSICAL_ROOM_MAX]; /* with frames of this turn */
    struct conn *touched[CONNS_MAX];               /* with answers of this turn */
    size_t busy_count, touched_count;
    uint8_t rx[RX_SIZE];
} server;

static struct conn *conn_of(struct physical_room_member *member)
{
    return (struct conn *)((char *)member - offsetof(struct conn, member));
}

/* --- out ------------------------------------------------------------------------------------ */

static void drop(struct conn *conn)
{
    physical_room_leave(&conn->member);
    poller_remove(&server.poller, &conn->source);
    close(conn->source.fd);
    conn->source.fd = -1;
    bytes_fini(&conn->rest);
    bytes_fini(&conn->unsent);
}

/* How much of the bytes the socket took; the connection is dropped on an error. */
static size_t send_some(struct conn *conn, const uint8_t *p, size_t len)
{
    ssize_t n = send(conn->source.fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
        return (size_t)n;
    if (errno != EAGAIN && errno != EINTR)
        drop(conn);
    return 0;
}

static void flush_unsent(struct conn *conn)
{
    struct bytes *b = &conn->unsent;
    if (conn->source.fd < 0 || b->len == 0)
        return;
    size_t sent = send_some(conn, b->p, b->len);
    if (conn->source.fd < 0)
        return;
    bytes_consume(b, sent);
    poller_watch(&server.poller, &conn->source, b->len > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

static void deliver(struct conn *conn, const struct bytes *frames)
{
    size_t sent = conn->unsent.len == 0 ? send_some(conn, frames->p, frames->len) : 0;
    if (conn->source.fd < 0 || sent == frames->len)
        return;
    if (conn->unsent.len > UNSENT_MAX) {
        drop(conn);
        return;
    }
    bytes_append(&conn->unsent, frames->p + sent, frames->len - sent);
    poller_watch(&server.poller, &conn->source, EPOLLIN | EPOLLOUT);
}

/* The end of a turn: rooms first, so that an ack isn't ahead of the entry it is about. */
static void flush_turn(void)
{
    for (size_t r = 0; r < server.busy_count; r++) {
        struct physical_room *room = server.busy[r];
        /* Backwards: a drop puts the last member, which was served already, into the gap. */
        for (size_t i = room->member_count; i > 0; i--)
            deliver(conn_of(room->members[i - 1]), &room->turn);
        room->turn.len = 0;
    }
    server.busy_count = 0;
    for (size_t i = 0; i < server.touched_count; i++) {
        server.touched[i]->dirty = false;
        flush_unsent(server.touched[i]);
    }
    server.touched_count = 0;
}

static void touch(struct conn *conn)
{
    if (!conn->dirty)
        server.touched[server.touched_count++] = conn;
    conn->dirty = true;
}

/* --- in ------------------------------------------------------------------------------------- */

static void publish(struct conn *conn, struct physical_room *room,
                    const struct physical_wire_request *request)
{
    struct stream_id id = {1, room->last.seq + 1};
    if (room->turn.len == 0)
        server.busy[server.busy_count++] = room;
    physical_wire_entry(&room->turn, request->room, id, room->last, request->type, request->data);
    room->last = id;
    physical_wire_ack(&conn->unsent, request->room, id);
    touch(conn);
}

/* False: the client makes no sense to us. */
static bool take_text(struct conn *conn, struct str text)
{
    struct physical_wire_request request;
    if (!physical_wire_read(text, &request) || request.op == PHYSICAL_WIRE_OTHER)
        return false;
    struct physical_room *room = physical_room_open(&server.rooms, request.room);
    if (room == NULL)
        return false;
    if (request.op == PHYSICAL_WIRE_PUBLISH) {
        publish(conn, room, &request);
        return true;
    }
    /* What the turn brought before this join is below the head it is told, so it must go out first.
     */
    if (room->turn.len > 0)
        flush_turn();
    physical_room_enter(room, &conn->member);
    physical_wire_joined(&conn->unsent, request.room, room->last);
    touch(conn);
    return true;
}

static bool take_frame(struct conn *conn, const struct ws_frame_head *head, uint8_t *payload)
{
    size_t len = (size_t)head->payload_len;
    if (!head->masked || !head->fin)
        return false;
    ws_frame_mask(payload, len, head->mask);
    if (head->opcode == WS_FRAME_TEXT)
        return take_text(conn, (struct str){(const char *)payload, len});
    if (head->opcode == WS_FRAME_PING) {
        physical_wire_pong(&conn->unsent, payload, len);
        touch(conn);
    }
    return head->opcode == WS_FRAME_PING || head->opcode == WS_FRAME_PONG;
}

/* Returns how many bytes were used, or -1 where the client must go. */
static ssize_t take_frames(struct conn *conn, uint8_t *p, size_t len)
{
    size_t at = 0;
    for (;;) {
        struct ws_frame_head head;
        enum ws_frame_verdict verdict = ws_frame_read_head(p + at, len - at, &head);
        if (verdict == WS_FRAME_BAD ||
            (verdict == WS_FRAME_OK && head.payload_len > UNFINISHED_MAX - WS_FRAME_HEAD_MAX))
            return -1;
        if (verdict == WS_FRAME_MORE || len - at - head.head_len < head.payload_len)
            return (ssize_t)at;
        if (!take_frame(conn, &head, p + at + head.head_len))
            return -1;
        at += head.head_len + (size_t)head.payload_len;
    }
}

static ssize_t take_upgrade(struct conn *conn, const uint8_t *p, size_t len)
{
    const char *end = memmem(p, len, "\r\n\r\n", 4);
    if (end == NULL)
        return 0;
    struct str request = {(const char *)p, (size_t)(end - (const char *)p)};
    if (!physical_wire_upgrade(&conn->unsent, request))
        return -1;
    conn->upgraded = true;
    physical_wire_welcome(&conn->unsent);
    touch(conn);
    return (ssize_t)request.len + 4;
}

static void receive(struct conn *conn)
{
    size_t have = conn->rest.len;
    if (have > 0)
        memcpy(server.rx, conn->rest.p, have);
    ssize_t n = recv(conn->source.fd, server.rx + have, RX_SIZE - have, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    size_t len = have + (n > 0 ? (size_t)n : 0);
    ssize_t used = n > 0 ? 0 : -1;
    if (n > 0 && !conn->upgraded)
        used = take_upgrade(conn, server.rx, len);
    if (used >= 0 && conn->upgraded) {
        ssize_t more = take_frames(conn, server.rx + used, len - (size_t)used);
        used = more < 0 ? -1 : used + more;
    }
    /* take_frames may flush the turn, and that may drop this very client. */
    if (conn->source.fd < 0)
        return;
    if (used < 0 || len - (size_t)used > UNFINISHED_MAX) {
        drop(conn);
        return;
    }
    bytes_consume(&conn->rest, have);
    if ((size_t)used < len)
        bytes_append(&conn->rest, server.rx + used, len - (size_t)used);
}

static void on_ready(struct poller_source *source, uint32_t events)
{
    struct conn *conn = (struct conn *)source;
    if (events & EPOLLOUT)
        flush_unsent(conn);
    if (conn->source.fd >= 0 && (events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
        receive(conn);
}

static void on_accept(struct poller_source *source, uint32_t events)
{
    for (int i = 0; i < 64; i++) {
        int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        if (fd >= CONNS_MAX) {
            close(fd);
            return;
        }
        int on = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only costs latency */
        if (server.conns[fd] == NULL)
            server.conns[fd] = die_if_null(calloc(1, sizeof(struct conn)));
        struct conn *conn = server.conns[fd];
        /* A dropped one may still be listed in this turn's touched; it keeps its mark. */
        *conn = (struct conn){.source = {.fd = fd, .on_ready = on_ready}, .dirty = conn->dirty};
        poller_watch(&server.poller, &conn->source, EPOLLIN);
    }
}

static void listen_on(unsigned port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, (struct sockaddr *)&addr, len) < 0 || listen(fd, 1024) < 0 ||
        getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
        die(DIE_RUN, "port %u: %s", port, strerror(errno));
    server.listener = (struct poller_source){.fd = fd, .on_ready = on_accept};
    poller_watch(&server.poller, &server.listener, EPOLLIN);
    printf("port %u pid %d\n", ntohs(addr.sin_port), (int)getpid());
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3)
        die(DIE_USAGE, "usage: roomd-bench-physical PORT [CPU]");
    if (argc == 3) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)atoi(argv[2]), &set);
        if (sched_setaffinity(0, sizeof(set), &set) < 0)
            die(DIE_USAGE, "can't run on CPU %s", argv[2]);
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit); /* fewer sockets, then */
    }
    poller_init(&server.poller);
    listen_on((unsigned)atoi(argv[1]));
    for (;;) {
        poller_turn(&server.poller, -1);
        flush_turn();
    }
}
