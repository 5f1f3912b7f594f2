#include "bench/publisher.h"

#include "bench/clock.h"
#include "bench/die.h"
#include "bench/inbound.h"
#include "bench/payload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* Publishes in flight while rooms are being filled: enough to keep the server busy, and well below
 * what it allows to one socket. */
enum { FILL_WINDOW = 32, ENVELOPE_MAX = 128 + ROOM_SET_NAME_MAX };

/* --- frames --------------------------------------------------------------------------------- */

static void publish(struct publisher *pub, struct room_set_room *room, uint64_t t_ns)
{
    char *p = pub->frame;
    int head =
        snprintf(p, ENVELOPE_MAX,
                 "{\"op\":\"publish\",\"room\":\"%s\",\"type\":\"bench\",\"data\":", room->name);
    payload_write(p + head, pub->size, pub->set->run, t_ns);
    size_t len = (size_t)head + pub->size;
    p[len++] = '}';
    if (!ws_conn_text(&pub->conn, (struct str){p, len})) {
        pub->unsent++;
        return;
    }
    room->sent++;
    pub->sent++;
}

static struct room_set_room *next_room(struct publisher *pub)
{
    struct room_set_room *room = &pub->set->rooms[pub->next_room];
    if (++pub->next_room >= pub->set->count)
        pub->next_room = pub->first_room;
    return room;
}

/* --- filling -------------------------------------------------------------------------------- */

static void fill_more(struct publisher *pub)
{
    uint64_t in_flight = pub->sent - pub->acked - pub->rejected;
    /* Half a window at a time: one send for many. */
    if (pub->fill_left == 0 || in_flight > FILL_WINDOW / 2)
        return;
    for (; pub->fill_left > 0 && in_flight < FILL_WINDOW; in_flight++, pub->fill_left--)
        publish(pub, next_room(pub), 0);
    ws_conn_flush(&pub->conn);
}

void publisher_fill(struct publisher *pub, uint64_t each)
{
    pub->fill_left = each * pub->set->count;
    fill_more(pub);
}

void publisher_put(struct publisher *pub, size_t room)
{
    publish(pub, &pub->set->rooms[room], 0);
    ws_conn_flush(&pub->conn);
}

/* --- the schedule --------------------------------------------------------------------------- */

static uint64_t due_ns(const struct publisher *pub)
{
    return pub->start_ns + (uint64_t)((double)pub->bursts_sent * pub->interval_ns);
}

static void arm(struct publisher *pub)
{
    struct itimerspec spec = {0};
    if (!publisher_is_done(pub)) {
        uint64_t due = due_ns(pub);
        spec.it_value.tv_sec = (time_t)(due / CLOCK_SECOND);
        spec.it_value.tv_nsec = (long)(due % CLOCK_SECOND);
    }
    if (timerfd_settime(pub->timer.fd, TFD_TIMER_ABSTIME, &spec, NULL) < 0)
        die(DIE_RUN, "timer: %s", strerror(errno));
}

void publisher_pump(struct publisher *pub)
{
    if (publisher_is_done(pub) || pub->conn.state != WS_CONN_OPEN)
        return;
    uint64_t now = clock_now_ns();
    uint64_t due = due_ns(pub);
    if (due > now)
        return;
    for (; due <= now && !publisher_is_done(pub); due = due_ns(pub)) {
        struct room_set_room *room = next_room(pub);
        for (unsigned i = 0; i < pub->burst; i++)
            publish(pub, room, due);
        hist_add(&pub->late, now - due);
        pub->bursts_sent++;
    }
    ws_conn_flush(&pub->conn);
    arm(pub);
}

static void on_timer(struct poller_source *source, uint32_t events)
{
    struct publisher *pub =
        (struct publisher *)((char *)source - offsetof(struct publisher, timer));
    uint64_t expirations;
    /* Only to make it unreadable again: what is due is the clock's to say. */
    (void)!read(source->fd, &expirations, sizeof(expirations));
    publisher_pump(pub);
}

void publisher_start(struct publisher *pub, const struct publisher_plan *plan)
{
    pub->burst = plan->burst;
    pub->interval_ns = (double)CLOCK_SECOND * plan->burst / plan->rate;
    pub->bursts_total = (uint64_t)(plan->seconds * plan->rate / plan->burst + 0.5);
    pub->bursts_sent = 0;
    pub->first_room = plan->first_room;
    if (pub->next_room < pub->first_room)
        pub->next_room = pub->first_room;
    pub->start_ns = clock_now_ns() + CLOCK_MS;
    arm(pub);
}

bool publisher_is_done(const struct publisher *pub)
{
    return pub->bursts_sent == pub->bursts_total;
}

/* --- the socket ----------------------------------------------------------------------------- */

static void note_rejection(struct publisher *pub, struct str reason)
{
    if (pub->rejected++ == 0)
        snprintf(pub->first_rejection, sizeof(pub->first_rejection), "%.*s", (int)reason.len,
                 str_present(reason) ? reason.p : "");
}

static void on_text(struct ws_conn *conn, struct str text)
{
    struct publisher *pub = (struct publisher *)conn;
    struct inbound in;
    if (!inbound_read(text, &in)) {
        pub->breaches++;
        return;
    }
    if (in.op == INBOUND_REFUSAL) {
        note_rejection(pub, in.reason);
    } else if (in.op == INBOUND_ACK) {
        struct room_set_room *room = str_present(in.room) ? room_set_find(pub->set, in.room) : NULL;
        if (room == NULL) {
            pub->breaches++;
            return;
        }
        room->acked++;
        pub->acked++;
    }
    fill_more(pub);
}

static void on_open(struct ws_conn *conn)
{
}

static void on_closed(struct ws_conn *conn)
{
    if (!conn->opened)
        die(DIE_RUN, "can't connect to the server: %s", conn->why);
    if (conn->why != NULL)
        die(DIE_RUN, "the publisher's connection: %s", conn->why);
    die(DIE_RUN, "the server closed the publisher with code %u", conn->close_code);
}

static const struct ws_conn_ops OPS = {on_open, on_text, on_closed};

void publisher_open(struct publisher *pub, struct ws_conn_io *io, struct room_set *set, size_t size)
{
    pub->set = set;
    pub->size = size;
    pub->frame = die_if_null(malloc(ENVELOPE_MAX + size + 1));
    pub->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (pub->timer.fd < 0)
        die(DIE_RUN, "timer: %s", strerror(errno));
    pub->timer.on_ready = on_timer;
    if (ws_conn_open(&pub->conn, io, &OPS) != WS_CONN_STARTED)
        die(DIE_RUN, "can't connect to the server: %s", strerror(errno));
    poller_watch(io->poller, &pub->timer, EPOLLIN);
}

bool publisher_is_open(const struct publisher *pub)
{
    return pub->conn.state == WS_CONN_OPEN;
}

bool publisher_is_quiet(const struct publisher *pub)
{
    return pub->fill_left == 0 && pub->acked + pub->rejected >= pub->sent;
}

void publisher_fini(struct publisher *pub)
{
    ws_conn_abort(&pub->conn);
    poller_remove(pub->conn.io->poller, &pub->timer);
    close(pub->timer.fd);
    free(pub->frame);
}
