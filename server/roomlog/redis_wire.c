#include "roomlog/redis_wire.h"

#include "base/loop.h"
#include "base/xalloc.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    FIRST_CAPACITY = 64 * 1024,
    READ_MIN = 16 * 1024, /* room for one read */
    KEEP_NODES = REDIS_WIRE_KEEP / sizeof(struct redis_scan_node),
    HEADER_MAX = 24 /* "$18446744073709551615\r\n" and then some */
};

/* In place of a reply that was passed over. */
static const char too_big[] = "TOOBIG the reply is larger than 256 MiB, or has too many parts";
static const struct redis_scan_node too_big_node = {
    .type = REDIS_SCAN_ERROR, .next = 1, .text = {.at = 0, .len = sizeof(too_big) - 1}};

static enum redis_wire_end lost(struct redis_wire *wire, const char *reason)
{
    (void)snprintf(wire->reason, sizeof(wire->reason), "%s", reason);
    return REDIS_WIRE_LOST;
}

/* --- buffers -------------------------------------------------------------------------------- */

static size_t waiting(const struct redis_wire_buffer *buffer)
{
    return buffer->end - buffer->begin;
}

static void give_back(struct redis_wire_buffer *buffer)
{
    free(buffer->p);
    *buffer = (struct redis_wire_buffer){.p = NULL};
}

/* `len` bytes at the head are done with. */
static void drop(struct redis_wire_buffer *buffer, size_t len)
{
    buffer->begin += len;
    if (buffer->begin != buffer->end)
        return;
    buffer->begin = 0;
    buffer->end = 0;
    if (buffer->capacity > REDIS_WIRE_KEEP)
        give_back(buffer);
}

/* Room for len more bytes behind end. What waits is moved to the front only where at least as much
 * has been dropped before it, and copied only into memory that has half as much room again, so that
 * all copying costs no more than a few times the bytes. */
static char *make_room(struct redis_wire_buffer *buffer, size_t len)
{
    if (buffer->capacity - buffer->end >= len)
        return buffer->p + buffer->end;
    size_t left = waiting(buffer);
    bool fits = buffer->begin >= left && buffer->capacity - left >= len;
    if (fits && buffer->capacity <= REDIS_WIRE_KEEP) {
        memcpy(buffer->p, buffer->p + buffer->begin, left);
    } else {
        /* Smaller than before, too, where a large reply has gone. */
        size_t capacity = FIRST_CAPACITY;
        while (capacity < left + (len > left / 2 ? len : left / 2))
            capacity *= 2;
        char *p = xalloc(capacity);
        if (left != 0)
            memcpy(p, buffer->p + buffer->begin, left);
        free(buffer->p);
        buffer->p = p;
        buffer->capacity = capacity;
    }
    buffer->begin = 0;
    buffer->end = left;
    return buffer->p + left;
}

/* --- the socket ----------------------------------------------------------------------------- */

/* What a call on the socket waits for: an event; 0: nothing, it is done; LOST. */
enum { LOST = 4 };

static unsigned lost_waits(struct redis_wire *wire, const char *reason)
{
    (void)lost(wire, reason);
    return LOST;
}

static unsigned tls_waits(struct redis_wire *wire, enum redis_tls_end end)
{
    switch (end) {
    case REDIS_TLS_DONE:
        return 0;
    case REDIS_TLS_READ:
        return LOOP_READ;
    case REDIS_TLS_WRITE:
        return LOOP_WRITE;
    default:
        return lost_waits(wire, redis_tls_reason(wire->tls));
    }
}

/* As much of it as the socket takes at once: *out_len. */
static unsigned give(struct redis_wire *wire, const char *p, size_t len, size_t *out_len)
{
    *out_len = 0;
    if (wire->tls != NULL)
        return tls_waits(wire, redis_tls_write(wire->tls, p, len, out_len));
    ssize_t n;
    do {
        n = send(wire->fd, p, len, MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? LOOP_WRITE
                                                       : lost_waits(wire, strerror(errno));
    *out_len = (size_t)n;
    /* Fewer than there were: it is full. */
    return *out_len < len ? LOOP_WRITE : 0;
}

/* Up to len bytes: *out_len. LOOP_READ, too, where there were fewer. */
static unsigned take(struct redis_wire *wire, char *p, size_t len, size_t *out_len)
{
    *out_len = 0;
    if (wire->tls != NULL) {
        unsigned waits = tls_waits(wire, redis_tls_read(wire->tls, p, len, out_len));
        return waits == 0 && !redis_tls_holds(wire->tls) ? LOOP_READ : waits;
    }
    ssize_t n;
    do {
        /* Not recv, which the program defines itself for libwebsockets' sake. */
        n = read(wire->fd, p, len);
    } while (n < 0 && errno == EINTR);
    if (n == 0)
        return lost_waits(wire, "Redis closed the connection");
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? LOOP_READ
                                                       : lost_waits(wire, strerror(errno));
    *out_len = (size_t)n;
    return *out_len < len ? LOOP_READ : 0;
}

unsigned redis_wire_events(const struct redis_wire *wire)
{
    return wire->read_waits | wire->write_waits;
}

bool redis_wire_may_read(const struct redis_wire *wire, unsigned events)
{
    return (wire->read_waits & events) != 0;
}

bool redis_wire_may_write(const struct redis_wire *wire, unsigned events)
{
    return (wire->write_waits & events) != 0;
}

bool redis_wire_full(const struct redis_wire *wire)
{
    return wire->write_waits != 0;
}

bool redis_wire_holds(const struct redis_wire *wire)
{
    return wire->tls != NULL && redis_tls_holds(wire->tls);
}

/* --- out ------------------------------------------------------------------------------------ */

/* A kind, a number and a line's end. Returns what is behind them. */
static char *put_header(char *at, char kind, size_t number)
{
    char digits[HEADER_MAX];
    size_t count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    *at++ = kind;
    while (count != 0)
        *at++ = digits[--count];
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

void redis_wire_put(struct redis_wire *wire, const struct str *words, size_t count)
{
    size_t most = HEADER_MAX;
    for (size_t i = 0; i < count; i++)
        most += HEADER_MAX + words[i].len + 2;
    char *start = make_room(&wire->out, most);
    char *at = put_header(start, '*', count);
    for (size_t i = 0; i < count; i++) {
        at = put_header(at, '$', words[i].len);
        if (words[i].len != 0)
            memcpy(at, words[i].p, words[i].len);
        at += words[i].len;
        *at++ = '\r';
        *at++ = '\n';
    }
    wire->out.end += (size_t)(at - start);
}

enum redis_wire_end redis_wire_write(struct redis_wire *wire)
{
    struct redis_wire_buffer *out = &wire->out;
    while (waiting(out) != 0) {
        size_t n = 0;
        wire->write_waits = give(wire, out->p + out->begin, waiting(out), &n);
        if (wire->write_waits == LOST)
            return REDIS_WIRE_LOST;
        drop(out, n);
        if (wire->write_waits != 0)
            return REDIS_WIRE_MORE;
    }
    wire->write_waits = 0;
    return REDIS_WIRE_DONE;
}

/* --- in ------------------------------------------------------------------------------------- */

/* The reply given last is done with. */
static void let_go(struct redis_wire *wire)
{
    if (wire->reply_len == 0)
        return;
    drop(&wire->in, wire->reply_len);
    wire->reply_len = 0;
    redis_scan_next(&wire->scan);
    redis_scan_trim(&wire->scan, KEEP_NODES);
}

enum redis_wire_end redis_wire_read(struct redis_wire *wire, size_t *budget)
{
    struct redis_wire_buffer *in = &wire->in;
    let_go(wire);
    char *at = make_room(in, READ_MIN);
    size_t want = in->capacity - in->end;
    if (want > *budget)
        want = *budget;
    assert(want != 0);
    size_t n = 0;
    unsigned waits = take(wire, at, want, &n);
    if (waits == LOST)
        return REDIS_WIRE_LOST;
    in->end += n;
    *budget -= n;
    wire->read_waits = waits != 0 ? waits : LOOP_READ;
    return waits != 0 ? REDIS_WIRE_DONE : REDIS_WIRE_MORE;
}

enum redis_wire_end redis_wire_next(struct redis_wire *wire, const struct redis_reply **out_reply)
{
    struct redis_wire_buffer *in = &wire->in;
    let_go(wire);
    *out_reply = NULL;
    if (waiting(in) == 0)
        return REDIS_WIRE_DONE;
    const char *base = in->p + in->begin;
    enum redis_scan_verdict verdict = redis_scan_run(&wire->scan, (struct str){base, waiting(in)});
    if (verdict == REDIS_SCAN_BROKEN)
        return lost(wire, wire->scan.reason);
    if (verdict == REDIS_SCAN_MORE) {
        drop(in, redis_scan_drop(&wire->scan));
        return REDIS_WIRE_DONE;
    }
    wire->reply_len = wire->scan.at;
    wire->reply = redis_reply_of(&wire->scan, base);
    if (verdict == REDIS_SCAN_OVER) {
        wire->passed_over++;
        wire->reply = (struct redis_reply){.nodes = &too_big_node, .base = too_big};
    }
    *out_reply = &wire->reply;
    return REDIS_WIRE_DONE;
}

/* --- life ----------------------------------------------------------------------------------- */

void redis_wire_init(struct redis_wire *wire, int fd)
{
    *wire = (struct redis_wire){.fd = fd, .read_waits = LOOP_READ};
    redis_scan_init(&wire->scan);
}

void redis_wire_secure(struct redis_wire *wire, struct redis_tls *tls, const char *host)
{
    wire->tls = redis_tls_link_create(tls, wire->fd, host);
}

enum redis_wire_end redis_wire_handshake(struct redis_wire *wire)
{
    unsigned waits = tls_waits(wire, redis_tls_handshake(wire->tls));
    if (waits == LOST)
        return REDIS_WIRE_LOST;
    wire->read_waits = waits != 0 ? waits : LOOP_READ;
    return waits != 0 ? REDIS_WIRE_MORE : REDIS_WIRE_DONE;
}

void redis_wire_fini(struct redis_wire *wire)
{
    redis_tls_link_destroy(wire->tls);
    wire->tls = NULL;
    if (wire->fd >= 0)
        (void)close(wire->fd);
    wire->fd = -1;
    give_back(&wire->in);
    give_back(&wire->out);
    redis_scan_fini(&wire->scan);
}

void redis_wire_rest(struct redis_wire *wire)
{
    let_go(wire);
    if (waiting(&wire->in) == 0) {
        give_back(&wire->in);
        redis_scan_trim(&wire->scan, 0);
    }
    if (waiting(&wire->out) == 0)
        give_back(&wire->out);
}
