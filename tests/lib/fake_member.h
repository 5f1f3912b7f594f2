/* fake_member.h - a member of a room that writes down what it is told.
 *
 * Its ops are a session's, without the session: it reads on when told, and keeps what it heard as
 * text, so that a test can say in one line what must have been said, in which order.
 */
#ifndef TESTS_LIB_FAKE_MEMBER_H
#define TESTS_LIB_FAKE_MEMBER_H

#include "base/buf.h"
#include "room/room.h"

struct fake_member {
    struct room_member member;
    struct pending_budget budget; /* its own, unless the test points member.budget elsewhere */
    bool may_read;
    unsigned may_read_times; /* not 0: it may, so many times more, and then no more */
    bool refuses;            /* live entries */
    bool state;              /* for the test's use: how it joins */
    size_t entries;          /* heard of in all */
    struct buf heard;
    char id[64];
};

/* OUT, may read, and may hold 64 KiB. */
void fake_member_init(struct fake_member *fake);
/* It must be OUT. */
void fake_member_fini(struct fake_member *fake);

/* What it heard since this was called last, as in
 *
 *     joined -; head 5-2; oldest 5-1; complete; replayed 5-1; live 5-1 (1); entry 5-2; resync
 * trimmed; failed red: <the error's text>; signal <payload>; snapshot <payload>
 *
 * where - stands for a fresh start. Valid until the next call. */
const char *fake_member_heard(struct fake_member *fake);

#endif
