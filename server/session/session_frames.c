#include "session/session_impl.h"

#include "base/logger.h"
#include "base/xalloc.h"
#include "protocol/frame.h"

#include <assert.h>
#include <stdlib.h>

enum {
    RETRY_MS = 1000,     /* what a reject asks for, and half as much again at random */
    RETRY_LONG_MS = 5000 /* the same where somebody has to do something about it */
};

/* --- answers -------------------------------------------------------------------------------- */

static void send_error(struct session *s, enum code_error code, const char *reason)
{
    char text[SESSION_FRAME_MAX];
    metrics_inc(s->host->metrics, M_ERRORS);
    session_push_text(s, text, frame_put_error(text, sizeof(text), code, str_from(reason)));
    if (++s->errors > s->host->limits.max_errors)
        session_fail(s, CLOSE_BAD_FRAME);
}

static void send_reject(struct session *s, const struct frame_reject *reject)
{
    char text[SESSION_FRAME_MAX];
    metrics_inc(s->host->metrics, M_REJECTS);
    session_push_text(s, text, frame_put_reject(text, sizeof(text), reject));
}

static int64_t retry_ms(struct session *s, int64_t at_least)
{
    return at_least + (int64_t)loop_random_below(s->host->loop, (uint64_t)at_least / 2);
}

/* How an error of the log looks to a client. */
static void reject_error(struct session *s, enum frame_op op, struct str room, struct str ref,
                         enum rd_err err)
{
    struct frame_reject reject = {.op = op,
                                  .ref = ref,
                                  .room = room,
                                  .code = CODE_LOG_ERROR,
                                  .reason = str_from(rd_err_text(err)),
                                  .retry_after_ms = -1};
    switch (err) {
    case RD_EBUSY:
        reject.code = CODE_TOO_MANY;
        reject.retry_after_ms = retry_ms(s, RETRY_MS);
        break;
    case RD_EUNAVAIL:
    case RD_ETIMEDOUT:
    case RD_EREADONLY:
    case RD_ELOADING:
    case RD_EBLOCKED:
    case RD_EUNSAVED:
    case RD_EREPLICAS:
        reject.code = CODE_UNAVAILABLE;
        reject.retry_after_ms = retry_ms(s, RETRY_MS);
        break;
    case RD_EFULL:
    case RD_ESTATEFULL:
        reject.code = CODE_LOG_FULL;
        reject.retry_after_ms = retry_ms(s, RETRY_LONG_MS);
        break;
    case RD_EDENIED:
        /* Somebody changed our rights, and may change them back: nobody has to reload a page. */
        reject.code = CODE_UNAVAILABLE;
        reject.retry_after_ms = retry_ms(s, RETRY_LONG_MS);
        break;
    case RD_ETOOBIG:
        reject.code = CODE_TOO_BIG;
        break;
    default:
        break;
    }
    send_reject(s, &reject);
}

static void reject_plainly(struct session *s, enum frame_op op, struct str room,
                           enum code_error code, struct str reason)
{
    send_reject(s,
                &(struct frame_reject){
                    .op = op, .room = room, .code = code, .reason = reason, .retry_after_ms = -1});
}

/* --- what a room tells us ------------------------------------------------------------------- */

static struct session *of_member(struct room_member *member)
{
    return RD_CONTAINER(member, struct session_room, member)->session;
}

static void on_joined(struct room_member *member, const struct stream_id *from,
                      const struct verdict_info *info)
{
    struct session *s = of_member(member);
    char text[SESSION_FRAME_MAX];
    const struct frame_joined joined = {.from = from,
                                        .head = info->last,
                                        .oldest = info->length == 0 ? NULL : &info->first,
                                        .complete = verdict_complete(info),
                                        .max_entries = s->host->log->max_entries};
    session_push_text(s, text,
                      frame_put_joined(text, sizeof(text), room_name(member->room), &joined));
}

static enum frame_resync resync_of(enum verdict why)
{
    switch (why) {
    case VERDICT_TRIMMED:
        return FRAME_RESYNC_TRIMMED;
    case VERDICT_AHEAD:
        return FRAME_RESYNC_AHEAD;
    case VERDICT_DIVERGED:
        return FRAME_RESYNC_DIVERGED;
    case VERDICT_HOLE:
        return FRAME_RESYNC_HOLE;
    case VERDICT_RESET:
    case VERDICT_OK:
        break;
    }
    return FRAME_RESYNC_RESET;
}

static void on_resync(struct room_member *member, enum verdict why)
{
    struct session *s = of_member(member);
    enum frame_resync reason = resync_of(why);
    char text[SESSION_FRAME_MAX];
    logger_info("resync", KV_STR("session", session_name(s)),
                KV_STR("room", room_name(member->room)),
                KV_TEXT("reason", frame_resync_name(reason)));
    session_push_text(s, text,
                      frame_put_resync(text, sizeof(text), room_name(member->room), reason, NULL));
}

static void on_snapshot(struct room_member *member, struct packet *p)
{
    struct session *s = of_member(member);
    if (s->state == SESSION_OPEN)
        session_push_replayed(s, p);
}

static bool on_entry(struct room_member *member, struct packet *p, bool replayed)
{
    struct session *s = of_member(member);
    if (s->state != SESSION_OPEN)
        return true;
    if (replayed)
        session_push_replayed(s, p);
    else if (!session_push_entry(s, p, room_name(member->room)))
        return false;
    metrics_inc(s->host->metrics, M_DELIVERIES);
    return true;
}

static void on_live(struct room_member *member, struct stream_id cursor, uint64_t replayed)
{
    char text[SESSION_FRAME_MAX];
    session_push_text(
        of_member(member), text,
        frame_put_live(text, sizeof(text), room_name(member->room), cursor, replayed));
}

static void on_signal(struct room_member *member, struct packet *p)
{
    struct session *s = of_member(member);
    if (s->state != SESSION_OPEN)
        return;
    /* Signals are shed first, for nobody is promised one; and well below low water, or they would
     * keep a replay from reading on for ever. */
    if (s->outq.bytes + s->held > s->host->limits.low_water / 2) {
        metrics_inc(s->host->metrics, M_SIGNALS_SHED);
        return;
    }
    session_push(s, p);
}

static bool on_may_read(struct room_member *member)
{
    const struct session *s = of_member(member);
    return s->state == SESSION_OPEN && session_below_low_water(s);
}

static void on_failed(struct room_member *member, struct str room, enum rd_err err);

static const struct room_member_ops MEMBER_OPS = {
    .joined = on_joined,
    .resync = on_resync,
    .snapshot = on_snapshot,
    .entry = on_entry,
    .live = on_live,
    .failed = on_failed,
    .signal = on_signal,
    .may_read = on_may_read,
};

/* --- rooms ---------------------------------------------------------------------------------- */

static void forget(struct session_room *place)
{
    list_remove(&place->link);
    place->session->room_count--;
    free(place);
}

static struct session_room *find_place(struct session *s, struct str name)
{
    const struct room *room = registry_find(s->host->registry, name);
    if (room == NULL)
        return NULL;
    list_for_each_safe (link, after, &s->rooms) {
        struct session_room *place = LIST_ITEM(link, struct session_room, link);
        if (place->member.room == room)
            return place;
    }
    return NULL;
}

/* Each join is a read of the log: too many, and the socket is closed. */
static bool may_join(struct session *s)
{
    if (limiter_take(&s->joins, loop_now_ms(s->host->loop)))
        return true;
    metrics_inc(s->host->metrics, M_JOINS_LIMITED);
    session_close(s, CLOSE_TOO_MANY);
    return false;
}

static void join(struct session *s, struct str name, const struct frame_join *join)
{
    static const enum roomlog_from FROM[] = {[FRAME_START_ALL] = ROOMLOG_ALL,
                                             [FRAME_START_CURSOR] = ROOMLOG_AFTER,
                                             [FRAME_START_LAST] = ROOMLOG_NEWEST,
                                             [FRAME_START_NEW] = ROOMLOG_HEAD};
    const struct room_start start = {.from = FROM[join->start],
                                     .after = join->cursor,
                                     .newest = join->last,
                                     .state = join->state};
    struct session_room *place = find_place(s, name);
    if (place != NULL) {
        if (!may_join(s))
            return;
        registry_rejoin(s->host->registry, &place->member, &start);
        return;
    }
    if (s->room_count >= s->host->limits.max_rooms) {
        reject_plainly(s, FRAME_JOIN, name, CODE_TOO_MANY, STR("too many rooms on this socket"));
        return;
    }
    if (!may_join(s))
        return;
    place = xalloc_zero(sizeof(*place));
    place->session = s;
    place->member.ops = &MEMBER_OPS;
    place->member.budget = &s->pending;
    enum rd_err err = registry_join(s->host->registry, name, &place->member, &start);
    if (err != RD_OK) {
        free(place);
        if (err == RD_ETOOBIG)
            reject_plainly(s, FRAME_JOIN, name, CODE_TOO_MANY, STR("too many rooms are open"));
        else
            reject_error(s, FRAME_JOIN, name, (struct str){0}, err);
        return;
    }
    list_push_back(&s->rooms, &place->link);
    s->room_count++;
}

static void leave(struct session *s, struct str name)
{
    struct session_room *place = find_place(s, name);
    if (place == NULL) {
        reject_plainly(s, FRAME_LEAVE, name, CODE_NOT_JOINED, STR("not in this room"));
        return;
    }
    registry_leave(s->host->registry, &place->member);
    forget(place);
    char text[SESSION_FRAME_MAX];
    session_push_text(s, text, frame_put_left(text, sizeof(text), name));
}

static void on_failed(struct room_member *member, struct str room, enum rd_err err)
{
    struct session_room *place = RD_CONTAINER(member, struct session_room, member);
    struct session *s = place->session;
    forget(place);
    reject_error(s, FRAME_JOIN, room, (struct str){0}, err);
}

/* --- publish and signal --------------------------------------------------------------------- */

static void on_published(void *arg, struct str room, struct str ref, enum rd_err err,
                         struct stream_id id, bool duplicate)
{
    struct session *s = arg;
    if (err == RD_EUNKNOWN)
        return; /* neither acked nor rejected: the client asks again under the same ref */
    if (err != RD_OK) {
        reject_error(s, FRAME_PUBLISH, room, ref, err);
        return;
    }
    metrics_inc(s->host->metrics, duplicate ? M_PUBLISH_DUPLICATES : M_PUBLISHED);
    char text[SESSION_FRAME_MAX];
    session_push_text(s, text, frame_put_ack(text, sizeof(text), room, ref, id, duplicate));
}

static void publish(struct session *s, struct str room, const struct frame_publish *frame)
{
    const struct roomlog_publish what = {
        .type = frame->type, .data = frame->data, .ref = frame->ref, .key = frame->key};
    enum rd_err err = publish_start(&s->publishes, room, &what);
    if (err != RD_OK)
        reject_error(s, FRAME_PUBLISH, room, frame->ref, err);
}

static void signal_room(struct session *s, struct str name, const struct frame_publish *frame)
{
    struct session_room *place = find_place(s, name);
    if (place == NULL) {
        reject_plainly(s, FRAME_SIGNAL, name, CODE_NOT_JOINED, STR("not in this room"));
        return;
    }
    size_t len = frame_put_signal(NULL, 0, name, (struct str){0}, frame);
    char *text = xalloc(len);
    (void)frame_put_signal(text, len, name, (struct str){0}, frame);
    struct packet *p = packet_text(s->host->packets, (struct str){text, len});
    free(text);
    metrics_inc(s->host->metrics, M_SIGNALS);
    room_signal(place->member.room, &place->member, p);
    packet_unref(p);
}

/* --- frames --------------------------------------------------------------------------------- */

static void send_pong(struct session *s, struct str t)
{
    char text[SESSION_FRAME_MAX];
    size_t len = frame_put_pong(text, sizeof(text), t);
    if (len > sizeof(text))
        send_error(s, CODE_TOO_BIG, "t is too long");
    else
        session_push_text(s, text, len);
}

static void handle(struct session *s, const struct frame *frame)
{
    switch (frame->op) {
    case FRAME_JOIN:
        join(s, frame->room, &frame->join);
        break;
    case FRAME_LEAVE:
        leave(s, frame->room);
        break;
    case FRAME_PUBLISH:
        publish(s, frame->room, &frame->publish);
        break;
    case FRAME_SIGNAL:
        signal_room(s, frame->room, &frame->publish);
        break;
    case FRAME_AUTH:
        reject_plainly(s, FRAME_AUTH, (struct str){0}, CODE_UNAUTHORIZED,
                       STR("this server has no authentication"));
        break;
    case FRAME_PING:
        send_pong(s, frame->t);
        break;
    case FRAME_NONE:
        assert(false);
    }
}

static struct str or_absent(const char *text)
{
    return text[0] == '\0' ? (struct str){0} : str_from(text);
}

static void handle_fault(struct session *s, const struct frame_fault *fault)
{
    if (fault->op == FRAME_NONE || fault->op == FRAME_PING) {
        send_error(s, fault->code, fault->reason);
        return;
    }
    send_reject(s, &(struct frame_reject){.op = fault->op,
                                          .ref = or_absent(fault->ref),
                                          .room = or_absent(fault->room),
                                          .code = fault->code,
                                          .reason = str_from(fault->reason),
                                          .retry_after_ms = -1});
}

/* --- in from the session -------------------------------------------------------------------- */

void session_frames_init(struct session *s)
{
    publish_init(&s->publishes, s->host->log, s->host->limits.max_publishes, on_published, s);
}

void session_frames_hello(struct session *s, const struct session_hello *hello)
{
    struct frame_join start;
    char reason[FRAME_REASON_MAX];
    if (!str_present(hello->room))
        return;
    if (!frame_room_name_valid(hello->room))
        reject_plainly(s, FRAME_JOIN, (struct str){0}, CODE_BAD_FIELD, STR(FRAME_ROOM_RULE));
    else if (!frame_start_parse(hello->cursor, hello->last, hello->state, &start, reason))
        reject_plainly(s, FRAME_JOIN, hello->room, CODE_BAD_FIELD, str_from(reason));
    else
        join(s, hello->room, &start);
}

void session_frames_handle(struct session *s, struct str text)
{
    struct frame frame;
    struct frame_fault fault;
    if (!frame_decode(text, &frame, &fault)) {
        handle_fault(s, &fault);
        return;
    }
    handle(s, &frame);
    frame_fini(&frame);
}
