#include "roomlog/redis_conn.h"

#include "base/xalloc.h"
#include "roomlog/redis_dial.h"
#include "roomlog/redis_greet.h"
#include "roomlog/redis_wire.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
    FIRST_PAUSE_MS = 50,
    LONGEST_PAUSE_MS = 1000,
    HELD_MS = 5000, /* a connection that lived as long as this starts the pauses anew */
    GRACE_MS = 50,
    MANY_FAILURES = 16, /* enough for the longest pause */
    REASON_MAX = 192,
    READ_A_TURN = 256 * 1024 /* bytes: what else the loop has to do must not wait long */
};

enum state { WAITING, DIALING, SECURING, GREETING, UP, LOST, CLOSING, STATES };

/* moves[from] has a bit for each state that may follow. */
#define TO(state) (1u << (state))
static const unsigned moves[STATES] = {
    [WAITING] = TO(DIALING) | TO(CLOSING),
    [DIALING] = TO(SECURING) | TO(GREETING) | TO(LOST) | TO(CLOSING),
    [SECURING] = TO(GREETING) | TO(LOST) | TO(CLOSING),
    [GREETING] = TO(UP) | TO(LOST) | TO(CLOSING),
    [UP] = TO(LOST) | TO(CLOSING),
    [LOST] = TO(WAITING) | TO(CLOSING),
    [CLOSING] = 0,
};
#undef TO

struct redis_conn {
    struct loop *loop;
    struct metrics *metrics;
    struct redis_conn_config config;
    const struct redis_conn_ops *ops;
    void *arg;

    enum state state;
    struct redis_dial *dial;
    struct redis_wire wire; /* has a socket from SECURING to UP, and after them until settled */
    struct loop_watch watch;

    struct redis_greet greet;
    struct redis_command greeting;
    struct redis_command ping;

    struct list sent;         /* commands, oldest first */
    uint64_t asked, answered; /* single commands on this connection */
    bool demoted;             /* nothing more is sent; once all is answered it is lost */
    uint64_t suspect;         /* answered + 1 when the oldest was found overdue; 0: it wasn't */

    struct loop_timer pause_or_connect; /* WAITING; DIALING to GREETING */
    struct loop_timer watchdog;         /* from the first command on */
    struct loop_task flush;
    struct loop_task read_on; /* what no event will tell of */
    struct loop_task settle;

    unsigned failures; /* in a row */
    uint64_t up_since_ms;
    char said[REASON_MAX];   /* the error that came last and was nobody's answer; "": none */
    char reason[REASON_MAX]; /* of LOST */
};

static void move(struct redis_conn *conn, enum state state)
{
    assert((moves[conn->state] & (1u << state)) != 0);
    conn->state = state;
}

static void settle(void *arg);
static void on_ready(void *arg, unsigned events);

/* --- loss ----------------------------------------------------------------------------------- */

/* Stops everything that could call us for this attempt. What is left is settle's, on a later turn.
 */
static void let_go(struct redis_conn *conn)
{
    loop_watch_stop(conn->loop, &conn->watch);
    redis_dial_stop(conn->dial);
    loop_timer_stop(conn->loop, &conn->pause_or_connect);
    loop_timer_stop(conn->loop, &conn->watchdog);
    loop_cancel(&conn->flush);
    loop_cancel(&conn->read_on);
    loop_defer(conn->loop, &conn->settle, settle, conn);
}

static void lose(struct redis_conn *conn, const char *reason)
{
    if (conn->state == LOST || conn->state == CLOSING || conn->state == WAITING)
        return;
    if (conn->state == UP && loop_now_ms(conn->loop) - conn->up_since_ms >= HELD_MS)
        conn->failures = 0;
    (void)snprintf(conn->reason, sizeof(conn->reason), "%s", reason);
    bool answered = conn->state == UP || (conn->state == GREETING && conn->answered != 0);
    move(conn, LOST);
    if (!answered)
        redis_dial_no_answer(conn->dial);
    let_go(conn);
}

/* The socket has ended. Redis may have said why before it hung up. */
static void lose_wire(struct redis_conn *conn, const char *reason)
{
    lose(conn, conn->said[0] != '\0' ? conn->said : reason);
}

/* --- watchdog ------------------------------------------------------------------------------- */

static void send_now(struct redis_conn *conn, struct redis_command *command,
                     const struct redis_words *commands, size_t count);

static void on_pong(struct redis_command *command, const struct redis_reply *reply)
{
    /* It is there, whatever it says. */
}

/* Nothing is under way. Redis may end a connection that is silent for long (its `timeout`), and a
 * network may have done so without a word: better now than when somebody waits for an answer. */
static void rest(struct redis_conn *conn)
{
    redis_wire_rest(&conn->wire);
    if (conn->state != UP || conn->ops->push != NULL)
        return; /* Redis ends no subscribers */
    const struct str ping = STR("PING");
    conn->ping.done = on_pong;
    send_now(conn, &conn->ping, &(struct redis_words){&ping, 1}, 1);
}

static void on_watchdog(void *arg)
{
    struct redis_conn *conn = arg;
    if (list_empty(&conn->sent)) {
        rest(conn);
        return;
    }
    struct redis_command *oldest = LIST_ITEM(conn->sent.next, struct redis_command, link);
    uint64_t now = loop_now_ms(conn->loop);
    uint64_t wait = GRACE_MS;

    if (now < oldest->due_ms) {
        conn->suspect = 0;
        wait = oldest->due_ms - now;
    } else if (conn->suspect != conn->answered + 1) {
        /* If it was us who slept, the answer lies in the socket: the grace lets it be read. */
        conn->suspect = conn->answered + 1;
    } else {
        metrics_inc(conn->metrics, M_LOG_TIMEOUTS);
        lose(conn, "a command was not answered in time");
        return;
    }
    loop_timer_start(conn->loop, &conn->watchdog, wait, on_watchdog, conn);
}

/* --- out ------------------------------------------------------------------------------------ */

static void watch(struct redis_conn *conn)
{
    unsigned events = redis_wire_events(&conn->wire);
    if (conn->watch.events != events)
        loop_watch_start(conn->loop, &conn->watch, conn->wire.fd, events, on_ready, conn);
}

static void read_some(struct redis_conn *conn);

static void flush(void *arg)
{
    struct redis_conn *conn = arg;
    if (redis_wire_write(&conn->wire) != REDIS_WIRE_LOST) {
        watch(conn);
        return;
    }
    /* What it said is still to be read. */
    char reason[REDIS_WIRE_REASON_MAX];
    (void)snprintf(reason, sizeof(reason), "%s", conn->wire.reason);
    read_some(conn);
    lose_wire(conn, reason);
}

static bool fits(const struct redis_words *commands, size_t count)
{
    size_t left = REDIS_CONN_BYTES_MAX;
    for (size_t i = 0; i < count; i++) {
        assert(commands[i].count != 0);
        for (size_t k = 0; k < commands[i].count; k++) {
            if (commands[i].p[k].len > left)
                return false;
            left -= commands[i].p[k].len;
        }
    }
    return true;
}

/* As redis_conn_send, in GREETING too, and it must fit. */
static void send_now(struct redis_conn *conn, struct redis_command *command,
                     const struct redis_words *commands, size_t count)
{
    for (size_t i = 0; i < count; i++)
        redis_wire_put(&conn->wire, commands[i].p, commands[i].count);
    conn->asked += count;
    command->sent = conn->asked;
    command->due_ms = loop_now_ms(conn->loop) + conn->config.command_ms;
    list_push_back(&conn->sent, &command->link);
    if (!loop_timer_running(&conn->watchdog))
        loop_timer_start(conn->loop, &conn->watchdog, conn->config.command_ms, on_watchdog, conn);
    /* Together with whatever else this turn sends; while the socket is full, on_ready does it. */
    if (!redis_wire_full(&conn->wire))
        loop_defer(conn->loop, &conn->flush, flush, conn);
}

bool redis_conn_send(struct redis_conn *conn, struct redis_command *command,
                     const struct redis_words *commands, size_t count)
{
    assert(count != 0 && command->done != NULL);
    if (!redis_conn_is_up(conn) || !fits(commands, count))
        return false;
    send_now(conn, command, commands, count);
    return true;
}

/* --- in ------------------------------------------------------------------------------------- */

/* Does it answer nothing? On a subscriber's connection messages may come between a question and its
 * answer. */
static bool is_push(const struct redis_conn *conn, const struct redis_reply *reply)
{
    return conn->ops->push != NULL && conn->state == UP &&
           (list_empty(&conn->sent) || redis_reply_push(reply));
}

static void answer(struct redis_conn *conn, const struct redis_reply *reply)
{
    if (is_push(conn, reply)) {
        conn->ops->push(conn->arg, reply);
        return;
    }
    if (list_empty(&conn->sent)) {
        char text[REASON_MAX];
        lose(conn, redis_reply_error_text(reply, text, sizeof(text))
                       ? text
                       : "an answer came that nobody had asked for");
        return;
    }
    struct redis_command *oldest = LIST_ITEM(conn->sent.next, struct redis_command, link);
    conn->said[0] = '\0';
    if (++conn->answered != oldest->sent) {
        /* One of several sent in one go, and not the last. */
        (void)redis_reply_error_text(reply, conn->said, sizeof(conn->said));
        return;
    }
    list_remove(&oldest->link);
    /* No master says that. Whoever asked learns why, so do those who asked since, and then the next
     * attempt looks for another. */
    if (redis_reply_is(reply, "READONLY") && redis_dial_wants_master(conn->dial))
        conn->demoted = true;
    oldest->done(oldest, reply);
    if (conn->demoted && list_empty(&conn->sent)) {
        redis_dial_no_master(conn->dial);
        lose(conn, "it is no master any more");
    }
}

static bool has_wire(const struct redis_conn *conn)
{
    return conn->state == GREETING || conn->state == UP;
}

/* What has been read so far. Stops where a callback has ended the connection. */
static void answer_all(struct redis_conn *conn)
{
    uint64_t passed_over = conn->wire.passed_over;
    while (has_wire(conn)) {
        const struct redis_reply *reply;
        if (redis_wire_next(&conn->wire, &reply) == REDIS_WIRE_LOST)
            lose(conn, conn->wire.reason);
        else if (reply == NULL)
            break;
        else
            answer(conn, reply);
    }
    metrics_add(conn->metrics, M_LOG_OVERSIZE, conn->wire.passed_over - passed_over);
}

static void read_on(void *arg);

static void read_some(struct redis_conn *conn)
{
    size_t budget = READ_A_TURN;
    while (has_wire(conn) && budget != 0) {
        enum redis_wire_end end = redis_wire_read(&conn->wire, &budget);
        if (end == REDIS_WIRE_LOST) {
            lose_wire(conn, conn->wire.reason);
            return;
        }
        answer_all(conn);
        if (end == REDIS_WIRE_DONE)
            return;
    }
    if (has_wire(conn) && redis_wire_holds(&conn->wire))
        loop_defer(conn->loop, &conn->read_on, read_on, conn);
}

static void read_on(void *arg)
{
    struct redis_conn *conn = arg;
    read_some(conn);
    if (has_wire(conn))
        watch(conn);
}

/* --- greeting ------------------------------------------------------------------------------- */

static void greet_next(struct redis_conn *conn);

static void on_greeted(struct redis_command *command, const struct redis_reply *reply)
{
    struct redis_conn *conn = RD_CONTAINER(command, struct redis_conn, greeting);
    char reason[REDIS_GREET_REASON_MAX];
    if (reply == NULL)
        return;
    enum redis_greet_verdict verdict = redis_greet_judge(&conn->greet, reply, reason);
    if (verdict == REDIS_GREET_FINE) {
        greet_next(conn);
        return;
    }
    if (verdict == REDIS_GREET_ELSEWHERE)
        redis_dial_no_master(conn->dial);
    if (verdict == REDIS_GREET_REFUSED)
        conn->failures = MANY_FAILURES; /* no hurry */
    lose(conn, reason);
}

static void greet_next(struct redis_conn *conn)
{
    size_t count;
    const struct redis_words *commands =
        redis_greet_next(&conn->greet, conn->config.url, conn->config.name,
                         redis_dial_wants_master(conn->dial), &count);
    if (count != 0) {
        conn->greeting.done = on_greeted;
        send_now(conn, &conn->greeting, commands, count);
        return;
    }
    loop_timer_stop(conn->loop, &conn->pause_or_connect);
    if (conn->up_since_ms != 0)
        metrics_inc(conn->metrics, M_LOG_RECONNECTS);
    conn->up_since_ms = loop_now_ms(conn->loop);
    move(conn, UP);
    conn->ops->up(conn->arg);
}

/* --- connecting ----------------------------------------------------------------------------- */

/* Half-open connections are noticed by the watchdog too; this helps where nothing is being asked.
 */
static void set_options(struct redis_conn *conn, struct redisContext *context)
{
    (void)fcntl(context->fd, F_SETFD, FD_CLOEXEC);
    if (redis_dial_place(conn->dial)->port == 0)
        return;
    int on = 1;
    unsigned timeout = (unsigned)conn->config.command_ms;
    (void)setsockopt(context->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(context->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof(timeout));
    (void)redisEnableKeepAlive(context);
}

static void begin_greeting(struct redis_conn *conn)
{
    move(conn, GREETING);
    watch(conn);
    greet_next(conn);
}

/* Goes on with the handshake. */
static void secure(struct redis_conn *conn)
{
    enum redis_wire_end end = redis_wire_handshake(&conn->wire);
    if (end == REDIS_WIRE_LOST)
        lose(conn, conn->wire.reason);
    else if (end == REDIS_WIRE_MORE)
        watch(conn);
    else
        begin_greeting(conn);
}

static void on_dialed(void *arg, struct redisContext *context, const char *reason)
{
    struct redis_conn *conn = arg;
    if (context == NULL) {
        lose(conn, reason);
        return;
    }
    set_options(conn, context);
    redis_wire_init(&conn->wire, redisFreeKeepFd(context));
    conn->asked = 0;
    conn->answered = 0;
    conn->suspect = 0;
    conn->demoted = false;
    conn->said[0] = '\0';
    conn->greet = (struct redis_greet){.said = 0};
    if (conn->config.url->trust == NULL) {
        begin_greeting(conn);
        return;
    }
    move(conn, SECURING);
    redis_wire_secure(&conn->wire, conn->config.url->trust, redis_dial_place(conn->dial)->host);
    secure(conn);
}

static void on_leave(void *arg, const char *reason)
{
    lose(arg, reason);
}

static void on_late(void *arg)
{
    struct redis_conn *conn = arg;
    metrics_inc(conn->metrics, M_LOG_TIMEOUTS);
    lose(conn, conn->state == SECURING
                   ? "the TLS handshake was not finished in time: is TLS spoken there?"
                   : "the connection was not made in time");
}

static void begin(void *arg)
{
    struct redis_conn *conn = arg;
    move(conn, DIALING);
    loop_timer_start(conn->loop, &conn->pause_or_connect, conn->config.connect_ms, on_late, conn);
    redis_dial_start(conn->dial);
}

static void on_ready(void *arg, unsigned events)
{
    struct redis_conn *conn = arg;
    if (conn->state == SECURING) {
        secure(conn);
        return;
    }
    if (redis_wire_may_read(&conn->wire, events))
        read_some(conn);
    if (has_wire(conn) && redis_wire_may_write(&conn->wire, events))
        flush(conn);
    if (has_wire(conn))
        watch(conn);
}

/* --- life ----------------------------------------------------------------------------------- */

static uint64_t next_pause(struct redis_conn *conn)
{
    uint64_t pause = FIRST_PAUSE_MS;
    for (unsigned i = 0; i < conn->failures && pause < LONGEST_PAUSE_MS; i++)
        pause *= 2;
    if (pause > LONGEST_PAUSE_MS)
        pause = LONGEST_PAUSE_MS;
    conn->failures++;
    return pause / 2 + loop_random_below(conn->loop, pause / 2 + 1);
}

static void settle(void *arg)
{
    struct redis_conn *conn = arg;
    redis_wire_fini(&conn->wire);

    struct list lost;
    list_init(&lost);
    list_move_all(&lost, &conn->sent);
    for (struct list *link; (link = list_pop_front(&lost)) != NULL;) {
        struct redis_command *command = LIST_ITEM(link, struct redis_command, link);
        command->done(command, NULL);
    }
    /* Callbacks may have closed us meanwhile. */
    if (conn->state == LOST) {
        move(conn, WAITING);
        loop_timer_start(conn->loop, &conn->pause_or_connect, next_pause(conn), begin, conn);
        conn->ops->down(conn->arg, conn->reason);
        return;
    }
    const struct redis_conn_ops *ops = conn->ops;
    void *ops_arg = conn->arg;
    loop_cancel(&conn->settle);
    redis_dial_destroy(conn->dial);
    free(conn);
    ops->closed(ops_arg);
}

struct redis_conn *redis_conn_open(struct loop *loop, struct metrics *metrics,
                                   const struct redis_conn_config *config,
                                   const struct redis_conn_ops *ops, void *arg)
{
    struct redis_conn *conn = xalloc_zero(sizeof(*conn));
    conn->loop = loop;
    conn->metrics = metrics;
    conn->config = *config;
    conn->ops = ops;
    conn->arg = arg;
    conn->state = WAITING;
    redis_wire_init(&conn->wire, -1);
    conn->dial = redis_dial_create(loop, config->finder, on_dialed, on_leave, conn);
    list_init(&conn->sent);
    loop_timer_start(loop, &conn->pause_or_connect, 0, begin, conn);
    return conn;
}

void redis_conn_close(struct redis_conn *conn)
{
    move(conn, CLOSING);
    let_go(conn);
}

bool redis_conn_is_up(const struct redis_conn *conn)
{
    return conn->state == UP && !conn->demoted;
}

void redis_conn_drop(struct redis_conn *conn, const char *reason)
{
    if (conn->state == UP)
        lose(conn, reason);
}
