#include "session/session_impl.h"

#include <assert.h>

enum {
    DRAIN_SLICE = 256, /* sessions told goodbye in one turn */
    SHED_SLICE = 16 /* longest queues evicted in one turn, before the budget is looked at again */
};

void session_host_init(struct session_host *host, struct loop *loop, struct roomlog *log,
                       struct registry *registry, struct packet_account *packets,
                       struct metrics *metrics, const struct session_limits *limits)
{
    *host = (struct session_host){.loop = loop,
                                  .log = log,
                                  .registry = registry,
                                  .packets = packets,
                                  .metrics = metrics,
                                  .limits = *limits};
    list_init(&host->sessions);
}

void session_host_fini(struct session_host *host)
{
    assert(list_empty(&host->sessions) && host->count == 0);
    loop_cancel(&host->shed);
    loop_cancel(&host->drain);
}

static void drain(void *arg)
{
    struct session_host *host = arg;
    size_t told = 0;
    list_for_each_safe (link, after, &host->sessions) {
        struct session *s = LIST_ITEM(link, struct session, link);
        if (s->state != SESSION_OPEN)
            continue;
        if (told++ == DRAIN_SLICE) {
            loop_defer(host->loop, &host->drain, drain, host);
            return;
        }
        outq_clear(&s->outq); /* as at any close: the client resumes elsewhere */
        session_say_bye(s);
    }
}

static struct session *longest_queue(const struct session_host *host)
{
    struct session *longest = NULL;
    list_for_each_safe (link, after, &host->sessions) {
        struct session *s = LIST_ITEM(link, struct session, link);
        if (s->state == SESSION_OPEN && session_queued_bytes(s) != 0 &&
            (longest == NULL || session_queued_bytes(s) > session_queued_bytes(longest)))
            longest = s;
    }
    return longest;
}

/* Empties rings, which can be read again, and then evicts the longest queues, until the packets fit
 * the budget again. Pending lists are given back in a later turn, so what is over after a slice is
 * looked at once more. */
static void shed(void *arg)
{
    struct session_host *host = arg;
    if (registry_shrink(host->registry, host->limits.packet_budget))
        return;
    for (int i = 0; i < SHED_SLICE; i++) {
        struct session *s = longest_queue(host);
        if (host->packets->bytes <= host->limits.packet_budget || s == NULL)
            return;
        session_evict(s, (struct str){0}, M_BUDGET_CLOSED);
    }
    loop_defer(host->loop, &host->shed, shed, host);
}

void session_host_drain(struct session_host *host, uint64_t spread_ms)
{
    host->draining = true;
    host->drain_spread_ms = spread_ms;
    loop_defer(host->loop, &host->drain, drain, host);
}

/* Packets are shared, so what they really cost shows only in their account. */
void session_host_check_budget(struct session_host *host)
{
    if (host->packets->bytes > host->limits.packet_budget)
        loop_defer(host->loop, &host->shed, shed, host);
}
