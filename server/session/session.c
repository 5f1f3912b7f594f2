#include "session/session_impl.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "protocol/frame.h"
#include "protocol/json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { PINGS_MISSED_MAX = 2 /* pings without a sign of life before the socket is cut */ };

/* --- queueing ------------------------------------------------------------------------------- */

struct str session_name(const struct session *s)
{
    return (struct str){s->name, SESSION_NAME_LEN};
}

size_t session_queued_bytes(const struct session *s)
{
    return s->outq.bytes + s->pending.bytes + s->held;
}

/* What the socket must drain before a replay reads on. Pending lists don't count: only reading on
 * can empty them. */
bool session_below_low_water(const struct session *s)
{
    return s->outq.bytes + s->held < s->host->limits.low_water;
}

/* The room named is the one whose entry was refused; absent for other frames. */
void session_evict(struct session *s, struct str room, enum metric why)
{
    char id[STREAM_ID_TEXT_MAX];
    size_t id_len = stream_id_format(outq_oldest_id(&s->outq), id);
    metrics_inc(s->host->metrics, why);
    logger_warn("slow consumer closed", KV_STR("session", session_name(s)),
                KV_TEXT("peer", s->peer), KV_STR("room", room),
                KV_NUM("queued_bytes", session_queued_bytes(s)),
                KV_STR("oldest_id", ((struct str){id, id_len})));
    session_close(s, CLOSE_SLOW);
}

/* Before each push. */
static void note_time(struct session *s)
{
    if (outq_front(&s->outq) == NULL)
        s->queued_since_ms = loop_now_ms(s->host->loop);
}

/* After each push. */
static void note_queued(struct session *s)
{
    session_host_check_budget(s->host);
    s->ops->want_write(s->conn);
}

static bool stands(struct session *s)
{
    uint64_t stood_ms = loop_now_ms(s->host->loop) - s->queued_since_ms;
    return stood_ms >= s->host->limits.patience_ms;
}

/* False: that would be above high water. */
static bool queue(struct session *s, struct packet *p)
{
    note_time(s);
    if (outq_push(&s->outq, p, s->pending.bytes) == OUTQ_OVER)
        return false;
    note_queued(s);
    return true;
}

void session_push(struct session *s, struct packet *p)
{
    if (s->state == SESSION_OPEN && !queue(s, p))
        session_evict(s, (struct str){0}, M_SLOW_CLOSED);
}

static void on_judge(void *arg);

static void judge_later(struct session *s)
{
    if (!loop_timer_running(&s->judge))
        loop_timer_start(s->host->loop, &s->judge, s->host->limits.patience_ms, on_judge, s);
}

/* A burst went above high water. Who reads has drained it by now. */
static void on_judge(void *arg)
{
    struct session *s = arg;
    if (!outq_over(&s->outq, s->pending.bytes))
        return;
    if (stands(s))
        session_evict(s, (struct str){0}, M_SLOW_CLOSED);
    else
        judge_later(s); /* that one, and then came another */
}

bool session_push_entry(struct session *s, struct packet *p, struct str room)
{
    if (queue(s, p))
        return true;
    if (stands(s)) {
        session_evict(s, room, M_SLOW_CLOSED);
        return true;
    }
    metrics_inc(s->host->metrics, M_BURSTS);
    judge_later(s);
    return false;
}

void session_push_replayed(struct session *s, struct packet *p)
{
    note_time(s);
    outq_push_replay(&s->outq, p);
    note_queued(s);
}

void session_push_text(struct session *s, const char *text, size_t len)
{
    assert(len <= SESSION_FRAME_MAX);
    struct packet *p = packet_text(s->host->packets, (struct str){text, len});
    session_push(s, p);
    packet_unref(p);
}

/* --- closing -------------------------------------------------------------------------------- */

static void free_session(void *arg)
{
    struct session *s = arg;
    free(s->peer);
    free(s);
}

static void leave_all(struct session *s)
{
    for (struct list *link; (link = list_pop_front(&s->rooms)) != NULL;) {
        struct session_room *place = LIST_ITEM(link, struct session_room, link);
        registry_leave(s->host->registry, &place->member);
        free(place);
    }
    s->room_count = 0;
}

static void on_leave_all(void *arg)
{
    leave_all(arg);
}

static void on_close_timeout(void *arg)
{
    struct session *s = arg;
    metrics_inc(s->host->metrics, M_FORCED);
    s->ops->abort(s->conn);
}

/* Rooms are left in a later turn: this may run from inside a room's fan-out. */
static void close_after(struct session *s, enum code_close code, struct packet *last_words)
{
    if (s->state != SESSION_OPEN)
        return;
    s->state = SESSION_CLOSING;
    struct packet *p = packet_close(s->host->packets, code, str_from(codes_close_reason(code)));
    if (last_words != NULL)
        outq_push_replay(&s->outq, last_words);
    outq_push_replay(&s->outq, p);
    packet_unref(p);
    loop_timer_stop(s->host->loop, &s->judge);
    loop_timer_start(s->host->loop, &s->timer, s->host->limits.close_ms, on_close_timeout, s);
    loop_defer(s->host->loop, &s->later, on_leave_all, s);
    s->ops->want_write(s->conn);
}

/* The queue is dropped, so that nothing but the frame being written is in the close frame's way. */
void session_close(struct session *s, enum code_close code)
{
    if (s->state == SESSION_OPEN)
        outq_clear(&s->outq);
    close_after(s, code, NULL);
}

void session_fail(struct session *s, enum code_close code)
{
    if (s->state != SESSION_OPEN)
        return;
    metrics_inc(s->host->metrics, M_BAD_FRAME_CLOSED);
    logger_info("bad input, closed", KV_STR("session", session_name(s)), KV_TEXT("peer", s->peer),
                KV_NUM("code", code));
    session_close(s, code);
}

void session_closed(struct session *s)
{
    assert(s->state != SESSION_GONE);
    struct session_host *host = s->host;
    s->state = SESSION_GONE;
    outq_clear(&s->outq);
    publish_abandon(&s->publishes);
    loop_timer_stop(host->loop, &s->timer);
    loop_timer_stop(host->loop, &s->judge);
    list_remove(&s->link);
    host->count--;
    metrics_dec(host->metrics, M_CONNECTIONS);
    leave_all(s);
    loop_cancel(&s->later);
    loop_defer(host->loop, &s->later, free_session, s);
}

bool session_closing(const struct session *s)
{
    return s->state != SESSION_OPEN;
}

void session_say_bye(struct session *s)
{
    char text[SESSION_FRAME_MAX];
    struct session_host *host = s->host;
    uint64_t wait_ms = loop_random_below(host->loop, host->drain_spread_ms + 1);
    size_t len = frame_put_bye(text, sizeof(text), STR("restart"), wait_ms);
    struct packet *p = packet_text(host->packets, (struct str){text, len});
    close_after(s, CLOSE_RESTART, p);
    packet_unref(p);
}

void session_receive(struct session *s, struct str text)
{
    session_alive(s);
    if (s->state != SESSION_OPEN)
        return;
    metrics_inc(s->host->metrics, M_FRAMES_IN);
    if (!json_utf8_valid(text)) {
        session_fail(s, CLOSE_BAD_UTF8);
        return;
    }
    session_frames_handle(s, text);
}

/* --- heartbeat ------------------------------------------------------------------------------ */

static void on_heartbeat(void *arg);

static void start_heartbeat(struct session *s)
{
    uint64_t ms = s->host->limits.heartbeat_ms;
    uint64_t jitter = ms / 10 + 1;
    loop_timer_start(s->host->loop, &s->timer, ms - loop_random_below(s->host->loop, jitter),
                     on_heartbeat, s);
}

/* A ping that still waits in the queue behind what the client is taking says nothing of it. */
static bool ping_is_late(struct session *s)
{
    bool late = s->ping_waits && s->moved;
    s->moved = false;
    return late;
}

static void on_heartbeat(void *arg)
{
    struct session *s = arg;
    start_heartbeat(s); /* first: a push may close, and the timer is the close's then */
    if (ping_is_late(s))
        return;
    if (s->pings_missed >= PINGS_MISSED_MAX) {
        metrics_inc(s->host->metrics, M_PING_TIMEOUTS);
        loop_timer_stop(s->host->loop, &s->timer);
        s->ops->abort(s->conn);
        return;
    }
    s->pings_missed++;
    if (s->ping_waits)
        return;
    s->ping_waits = true;
    struct packet *p = packet_ping(s->host->packets);
    session_push(s, p);
    packet_unref(p);
}

void session_alive(struct session *s)
{
    s->pings_missed = 0;
}

/* --- the connection's side ------------------------------------------------------------------ */

static void send_welcome(struct session *s)
{
    char text[SESSION_FRAME_MAX];
    const struct session_limits *limits = &s->host->limits;
    const struct frame_welcome welcome = {.session = session_name(s),
                                          .heartbeat_ms = (uint32_t)limits->heartbeat_ms,
                                          .max_frame_bytes = limits->max_frame_bytes,
                                          .high_water_bytes = limits->high_water};
    session_push_text(s, text, frame_put_welcome(text, sizeof(text), &welcome));
}

struct session *session_open(struct session_host *host, const struct session_hello *hello,
                             const struct session_conn_ops *ops, void *conn)
{
    struct session *s = xalloc_zero(sizeof(*s));
    s->host = host;
    s->ops = ops;
    s->conn = conn;
    s->state = SESSION_OPEN;
    s->pending.max = host->limits.pending_bytes;
    s->peer = xalloc_str(hello->peer);
    list_init(&s->rooms);
    list_push_back(&host->sessions, &s->link);
    host->count++;
    outq_init(&s->outq, host->limits.high_water);
    session_frames_init(s);
    limiter_init(&s->joins, host->limits.joins_a_second, 2 * host->limits.max_rooms,
                 loop_now_ms(host->loop));
    (void)snprintf(s->name, sizeof(s->name), "%016" PRIx64, loop_random(host->loop));
    metrics_inc(host->metrics, M_CONNECTIONS);
    metrics_inc(host->metrics, M_CONNECTIONS_TOTAL);

    start_heartbeat(s);
    send_welcome(s);
    if (host->draining)
        session_say_bye(s);
    else
        session_frames_hello(s, hello);
    return s;
}

size_t session_next_len(const struct session *s)
{
    const struct packet *p = outq_front(&s->outq);
    return p == NULL ? 0 : packet_len(p);
}

struct packet *session_take(struct session *s)
{
    struct packet *p = outq_pop(&s->outq);
    if (packet_is_ping(p))
        s->ping_waits = false;
    else
        s->moved = true;
    metrics_inc(s->host->metrics, M_FRAMES_OUT);
    metrics_add(s->host->metrics, M_BYTES_OUT, packet_len(p));
    return p;
}

void session_wrote(struct session *s, size_t held)
{
    s->held = held;
    if (s->state != SESSION_OPEN || !session_below_low_water(s))
        return;
    list_for_each_safe (link, after, &s->rooms)
        registry_resume(s->host->registry, &LIST_ITEM(link, struct session_room, link)->member);
}
