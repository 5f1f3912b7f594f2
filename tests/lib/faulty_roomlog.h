/* faulty_roomlog.h - passes calls to a real log, except the one told to fail.
 *
 * With no fault set it must not be told from the log behind it: the contract suite runs through it.
 *
 * Counts appends, reads and state reads in the order they are made; the one at which the count
 * reaches the number told gets the fault, once. Following can't be refused and doesn't count; it
 * can be held up.
 */
#ifndef TESTS_LIB_FAULTY_ROOMLOG_H
#define TESTS_LIB_FAULTY_ROOMLOG_H

#include "base/loop.h"
#include "roomlog/roomlog.h"

enum faulty_roomlog_fault {
    FAULTY_ROOMLOG_REFUSED, /* the return value is err; err must not be RD_OK */
    FAULTY_ROOMLOG_ERROR,   /* the answer is err, and the call was not done */
    FAULTY_ROOMLOG_LOST,    /* the answer is err (RD_EUNKNOWN, say), and an append was done all the
                               same */
    FAULTY_ROOMLOG_SILENT,  /* not done and never answered; may be cancelled */
    FAULTY_ROOMLOG_FAULTS
};

/* Keeps inner, which it closes when it is closed, and loop. Returns owned. */
struct roomlog *faulty_roomlog_create(struct loop *loop, struct roomlog *inner);

/* The nth call from now (1: the next one) gets the fault. 0: none will. */
void faulty_roomlog_set(struct roomlog *log, unsigned nth, enum faulty_roomlog_fault fault,
                        enum rd_err err);
/* Has it struck since it was set? */
bool faulty_roomlog_struck(struct roomlog *log);
/* How many appends, reads and state reads were asked for so far. */
unsigned faulty_roomlog_calls(struct roomlog *log);

/* While held, whoever begins to follow hears nothing, as while a log is away; then the start comes.
 */
void faulty_roomlog_hold_follows(struct roomlog *log, bool held);
/* false: roomlog_readable and roomlog_ready say no, whatever the log behind says. */
void faulty_roomlog_set_ready(struct roomlog *log, bool ready);

#endif
