/* delayed_roomlog.h - a log behind a slow line: every answer and every live entry waits until the
 * test lets it through.
 *
 * Wraps a real backend. A read, of the log or of a state, waits twice, before it is asked and
 * before it is answered, so its moment lies anywhere between; the feed of each room stays in order
 * but lags as the test likes. Appends go straight through. So a test meets every interleaving that
 * a log on another machine could produce.
 */
#ifndef TESTS_LIB_DELAYED_ROOMLOG_H
#define TESTS_LIB_DELAYED_ROOMLOG_H

#include "roomlog/roomlog.h"
#include "tests/lib/rng.h"

/* Returns owned: roomlog_close frees it, but not inner, which must outlive it. */
struct roomlog *delayed_roomlog_create(struct roomlog *inner);

/* Lets one thing through, drawn at random. False: nothing waits. */
bool delayed_roomlog_step(struct roomlog *log, struct rng *rng);

/* The same without chance, for a test that says what comes before what. The oldest read that was
 * not asked yet is asked: its moment is the inner log's next turn. */
bool delayed_roomlog_ask(struct roomlog *log);
/* The oldest read whose answer has come is answered. */
bool delayed_roomlog_answer(struct roomlog *log);
/* The oldest event of the first feed that has one gets through. */
bool delayed_roomlog_feed(struct roomlog *log);

#endif
