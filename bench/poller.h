/* poller.h - the load tool's event loop: level-triggered epoll and nothing else.
 *
 * A source is embedded in whatever owns the descriptor, and must stay in memory until the
 * run ends: an event that was already fetched may still arrive after poller_remove, which its
 * owner recognises by its own state.
 */
#ifndef BENCH_POLLER_H
#define BENCH_POLLER_H

#include <stdbool.h>
#include <stdint.h>

struct poller_source;

/* Runs in poller_turn with the epoll events. May add, change and remove any source. */
typedef void (*poller_ready_fn)(struct poller_source *source, uint32_t events);

struct poller_source {
    int fd;
    uint32_t events; /* poller.c's: what epoll was last told */
    bool added;      /* poller.c's */
    poller_ready_fn on_ready;
};

struct poller {
    int epoll_fd;
};

void poller_init(struct poller *poller);
void poller_fini(struct poller *poller);

/* Watches source->fd for events from now on (errors and hang-ups are always reported). */
void poller_watch(struct poller *poller, struct poller_source *source, uint32_t events);

/* Before the descriptor is closed. */
void poller_remove(struct poller *poller, struct poller_source *source);

/* Waits for at most timeout_ms and hands out what is ready, a bounded batch. */
void poller_turn(struct poller *poller, int timeout_ms);

#endif
