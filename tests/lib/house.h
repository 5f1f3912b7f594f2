/* house.h - the whole server but its doors, in one process with a clock that the test turns.
 *
 * The real registry, rooms, replay and sessions over the real log in the process, which stands
 * behind a faulty_roomlog that passes everything through until it is told otherwise. Visitors are
 * clients over fake sockets; they keep what they read as text, a frame a line.
 */
#ifndef TESTS_LIB_HOUSE_H
#define TESTS_LIB_HOUSE_H

#include "base/buf.h"
#include "room/registry.h"
#include "roomlog/roomlog_mem.h"
#include "tests/lib/fake_conn.h"
#include "tests/lib/fake_loop.h"
#include "tests/lib/faulty_roomlog.h"

struct house_limits {
    struct roomlog_mem_limits log;
    struct registry_limits registry;
    struct session_limits session;
};

struct house {
    struct fake_loop loop;
    struct metrics metrics;
    struct roomlog *mem;
    struct roomlog *log; /* what the house knows: mem behind a faulty_roomlog, which owns it */
    struct registry registry;
    struct session_host host;
};

/* The server's defaults, with a page of 10 entries. */
struct house_limits house_limits(void);

/* Mutes the logger. */
void house_build(struct house *house, const struct house_limits *limits);
/* All visitors must be gone. Looks for what was left behind: rooms, members, packets. */
void house_take_down(struct house *house);

/* Adds to a room's log the entries 1-n, from first to last, with {"n":n} as data. */
void house_fill(struct house *house, const char *room, unsigned first, unsigned last);

struct house_visitor {
    struct fake_conn conn;
    struct buf read;
    size_t frames; /* text frames read in all */
};

/* Comes in, and reads `welcome` away. hello may be NULL. */
void house_visitor_open(struct house *house, struct house_visitor *visitor,
                        const struct session_hello *hello);
/* Its socket is gone, and its memory given back. */
void house_visitor_close(struct house_visitor *visitor);

/* A turn of the loop, then reads all there is, and again, until nothing comes. Returns the frames
 * read since this was called last, each with a line end behind it. Valid until the next call. */
const char *house_visitor_read(struct house *house, struct house_visitor *visitor);
/* The same of what was read already, e.g. with fake_conn_read. */
const char *house_visitor_heard(struct house_visitor *visitor);

#endif
