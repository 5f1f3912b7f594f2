/* redis_link.h - a plain, blocking connection of the load tools to one Redis.
 *
 * For what is beside the measurement (filling rooms, asking for the counts, cutting connections)
 * and for a publisher of its own process. Commands are queued and go out together; answers are
 * counted, and only errors are kept. Whatever fails ends the process with DIE_RUN and a line that
 * says what.
 */
#ifndef BENCH_REDIS_LINK_H
#define BENCH_REDIS_LINK_H

#include "protocol/str.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { REDIS_LINK_WORDS_MAX = 24, REDIS_LINK_REASON_MAX = 160 };

struct redis_link;

/* url: as roomd's --redis; one Redis, without TLS. Returns owned. */
struct redis_link *redis_link_open(const char *url);
void redis_link_close(struct redis_link *link); /* NULL is fine */

/* Queues one command. */
void redis_link_put(struct redis_link *link, const struct str *words, size_t count);
/* Sends what is queued. */
void redis_link_flush(struct redis_link *link);
/* Takes the answers that have come; waits up to wait_ms (-1: for ever) for the first of them. */
void redis_link_drain(struct redis_link *link, int wait_ms);
/* Sends what is queued, and waits until all is answered. */
void redis_link_settle(struct redis_link *link);

/* Commands without an answer yet, and answers that were errors, with the first one's text. */
uint64_t redis_link_unanswered(const struct redis_link *link);
uint64_t redis_link_errors(const struct redis_link *link);
const char *redis_link_error(const struct redis_link *link);

/* Questions. Nothing may be unanswered: asserted. */

/* The number of this connection: what is connected later has a greater one. */
uint64_t redis_link_client_id(struct redis_link *link);

/* The connections above an id whose name begins with prefix. Returns how many; at most cap are put
 * into out_ids. */
size_t redis_link_find_clients(struct redis_link *link, uint64_t above, const char *prefix,
                               uint64_t *out_ids, size_t cap);

/* Calls of a command so far (INFO commandstats; "xrange"). */
uint64_t redis_link_calls(struct redis_link *link, const char *command);

/* The server's process, where it runs on this machine and may be looked at; else 0. */
pid_t redis_link_server_pid(struct redis_link *link);

#endif
