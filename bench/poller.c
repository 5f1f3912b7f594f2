#include "bench/poller.h"

#include "bench/die.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Small, so that a due publish never waits for more than this many sockets to be read. */
enum { BATCH = 64 };

void poller_init(struct poller *poller)
{
    poller->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (poller->epoll_fd < 0)
        die(DIE_RUN, "epoll: %s", strerror(errno));
}

void poller_fini(struct poller *poller)
{
    close(poller->epoll_fd);
}

void poller_watch(struct poller *poller, struct poller_source *source, uint32_t events)
{
    if (source->added && source->events == events)
        return;
    struct epoll_event event = {.events = events, .data.ptr = source};
    int op = source->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(poller->epoll_fd, op, source->fd, &event) < 0)
        die(DIE_RUN, "epoll: %s", strerror(errno));
    source->added = true;
    source->events = events;
}

void poller_remove(struct poller *poller, struct poller_source *source)
{
    if (!source->added)
        return;
    /* The descriptor is closed next, which removes it as well: a failure changes nothing. */
    (void)epoll_ctl(poller->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->added = false;
}

void poller_turn(struct poller *poller, int timeout_ms)
{
    struct epoll_event events[BATCH];
    int n = epoll_wait(poller->epoll_fd, events, BATCH, timeout_ms);
    if (n < 0 && errno != EINTR)
        die(DIE_RUN, "epoll: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
        struct poller_source *source = events[i].data.ptr;
        if (source->added)
            source->on_ready(source, events[i].events);
    }
}
