#include "edge/ws_guard.h"

#include "base/xalloc.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    DRAIN_CHUNK = 4096,
    DRAIN_CHUNKS_MAX = 16,
    FIN = 0x80,
    RSV = 0x70,
    OPCODE = 0x0f,
    CONTROL = 0x08, /* the bit that control opcodes have in common */
    OPCODE_CONTINUATION = 0x0,
    OPCODE_TEXT = 0x1,
    OPCODE_BINARY = 0x2,
    OPCODE_CLOSE = 0x8,
    OPCODE_PONG = 0xa,
    MASKED = 0x80,
    LENGTH_16 = 126,
    LENGTH_64 = 127,
    LENGTH_16_MAX = 0xffff,
    MASK_BYTES = 4
};

/* FREE → REQUEST → FRAMES → BROKEN, each back to FREE. */
enum phase { FREE, REQUEST, FRAMES, BROKEN };

struct guard {
    const struct ws_guard_ops *ops; /* NULL until upgraded */
    void *arg;
    uint64_t left;   /* FRAMES: payload bytes (and the mask) of this frame still to come */
    uint64_t length; /* the length as far as its bytes are there */
    uint8_t phase;
    uint8_t at; /* REQUEST: of the blank line; FRAMES: header bytes seen, 0: between frames */
    uint8_t opcode;
    uint8_t long_left;    /* bytes of a 16 or 64 bit length still to come */
    uint8_t short_length; /* the length in the second byte, or LENGTH_16 or LENGTH_64 */
    bool fragmented;      /* a message is under way */
    bool touched;         /* bytes came behind the request */
};

/* By descriptor. Descriptors are small and dense, so an array is the map. */
static _Thread_local struct guard *guards;
static _Thread_local size_t capacity;
static _Thread_local size_t in_use;

static struct guard *find(int fd)
{
    if (fd < 0 || (size_t)fd >= capacity || guards[fd].phase == FREE)
        return NULL;
    return &guards[fd];
}

void ws_guard_start(int fd)
{
    assert(fd >= 0 && find(fd) == NULL);
    if ((size_t)fd >= capacity) {
        size_t wanted = capacity == 0 ? 64 : capacity;
        while (wanted <= (size_t)fd)
            wanted *= 2;
        guards = xalloc_array(guards, wanted, sizeof(*guards));
        memset(guards + capacity, 0, (wanted - capacity) * sizeof(*guards));
        capacity = wanted;
    }
    guards[fd] = (struct guard){.phase = REQUEST};
    in_use++;
}

bool ws_guard_upgrade(int fd, const struct ws_guard_ops *ops, void *arg)
{
    struct guard *g = find(fd);
    if (g == NULL || g->phase != FRAMES || g->touched)
        return false;
    g->ops = ops;
    g->arg = arg;
    return true;
}

void ws_guard_stop(int fd)
{
    struct guard *g = find(fd);
    if (g == NULL)
        return;
    g->phase = FREE;
    if (--in_use != 0)
        return;
    free(guards);
    guards = NULL;
    capacity = 0;
}

void ws_guard_drain(int fd)
{
    char chunk[DRAIN_CHUNK];
    for (int i = 0; i < DRAIN_CHUNKS_MAX; i++) {
        ssize_t n = recvfrom(fd, chunk, sizeof(chunk), MSG_DONTWAIT, NULL, NULL);
        if (n < (ssize_t)sizeof(chunk))
            return;
    }
}

/* --- the request ---------------------------------------------------------------------------- */

/* How many of the bytes belong to the request, which ends with a blank line. A bare LF ends a line
 * for libwebsockets too. `at` counts what of the blank line is there: 1 after LF, 2 after LF CR. */
static size_t request_part(struct guard *g, const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (p[i] == '\n' && g->at != 0) {
            g->phase = FRAMES;
            g->at = 0;
            return i + 1;
        }
        if (p[i] == '\n')
            g->at = 1;
        else if (p[i] == '\r' && g->at == 1)
            g->at = 2;
        else
            g->at = 0;
    }
    return len;
}

/* --- frames --------------------------------------------------------------------------------- */

static bool first_byte(struct guard *g, uint8_t c)
{
    bool fin = (c & FIN) != 0;
    g->opcode = c & OPCODE;
    if ((c & RSV) != 0)
        return false;
    if ((g->opcode & CONTROL) != 0)
        return fin && g->opcode <= OPCODE_PONG;
    if (g->opcode == OPCODE_CONTINUATION ? !g->fragmented : g->fragmented)
        return false;
    g->fragmented = !fin;
    return g->opcode <= OPCODE_BINARY;
}

static bool second_byte(struct guard *g, uint8_t c)
{
    uint8_t length = c & ~MASKED;
    if ((c & MASKED) == 0 || ((g->opcode & CONTROL) != 0 && length >= LENGTH_16))
        return false;
    g->length = g->short_length = length;
    g->long_left = 0;
    if (length == LENGTH_16 || length == LENGTH_64) {
        g->length = 0;
        g->long_left = length == LENGTH_16 ? 2 : 8;
    }
    return true;
}

/* Is the length, which is known now, one that may be, and written in as few bytes as can be? */
static bool length_fine(const struct guard *g)
{
    if (g->short_length == LENGTH_64)
        return g->length > LENGTH_16_MAX && g->length <= INT64_MAX;
    if (g->short_length == LENGTH_16)
        return g->length >= LENGTH_16;
    /* Half a close code is none. */
    return g->opcode != OPCODE_CLOSE || g->length != 1;
}

/* One byte of a header. False: it must not be. */
static bool header_byte(struct guard *g, uint8_t c)
{
    if (g->at == 0) {
        g->at = 1;
        return first_byte(g, c);
    }
    if (g->at == 1) {
        g->at = 2;
        if (!second_byte(g, c))
            return false;
    } else {
        g->length = g->length << 8 | c;
        g->long_left--;
    }
    if (g->long_left != 0)
        return true;
    if (!length_fine(g))
        return false;
    g->left = g->length + MASK_BYTES;
    g->at = 0;
    if (g->opcode == OPCODE_PONG && g->ops != NULL)
        g->ops->pong(g->arg);
    return true;
}

/* How many of the bytes are fine. */
static size_t frames_part(struct guard *g, const char *p, size_t len)
{
    size_t i = 0;
    g->touched = true;
    while (i < len) {
        if (g->at == 0 && g->left != 0) {
            size_t skip = g->left < len - i ? (size_t)g->left : len - i;
            g->left -= skip;
            i += skip;
        } else if (header_byte(g, (uint8_t)p[i])) {
            i++;
        } else {
            g->phase = BROKEN;
            if (g->ops != NULL)
                g->ops->broken(g->arg);
            return i;
        }
    }
    return len;
}

/* --- recv ----------------------------------------------------------------------------------- */

/* What the C library's own does. */
static ssize_t real_recv(int fd, void *buf, size_t len, int flags)
{
    return recvfrom(fd, buf, len, flags, NULL, NULL);
}

static ssize_t nothing_yet(void)
{
    errno = EAGAIN;
    return -1;
}

static ssize_t guarded_recv(struct guard *g, int fd, void *buf, size_t len)
{
    if (g->phase == REQUEST) {
        ssize_t n = real_recv(fd, buf, len, MSG_PEEK);
        return n <= 0 ? n : real_recv(fd, buf, request_part(g, buf, (size_t)n), 0);
    }
    ssize_t n = real_recv(fd, buf, len, 0);
    if (n <= 0)
        return n;
    if (g->phase == BROKEN)
        return nothing_yet();
    size_t fine = frames_part(g, buf, (size_t)n);
    return fine == 0 ? nothing_yet() : (ssize_t)fine;
}

/* Under its linker name, for the C library's headers may define recv as an inline function. */
ssize_t ws_guard_recv(int fd, void *buf, size_t len, int flags) __asm__("recv")
    __attribute__((used, visibility("default")));

ssize_t ws_guard_recv(int fd, void *buf, size_t len, int flags)
{
    struct guard *g = flags == 0 ? find(fd) : NULL;
    return g == NULL ? real_recv(fd, buf, len, flags) : guarded_recv(g, fd, buf, len);
}
