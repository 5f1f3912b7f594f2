/* Clients that publish without waiting for their acks, into rooms of a real Redis Cluster whose
 * slots move and whose nodes die. The log's order of what each client has acknowledged in a room is
 * the order in which it sent that, and nothing is in there twice.
 */
#include "roomlog/roomlog_redis.h"

#include "base/xalloc.h"
#include "tests/lib/cluster_servers.h"
#include "tests/lib/poll_loop.h"
#include "tests/lib/suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LIMIT_MS = 20000,
    TIMEOUT_S = 60,
    ROOMS = 4,
    CLIENTS = 3, /* of each room: without refs; with a ref each; now this, now that */
    SENT_MAX = 12000,
    WINDOW = 64, /* of one client under way */
    BURST = 4,   /* turns in which each sends one more */
    TURN_MS = 4,
    TEXT_MAX = 48
};

struct sent {
    struct roomlog_append append;
    unsigned answers;
    enum rd_err err;
    struct stream_id id;
    bool duplicate;
};

struct client {
    size_t room, kind;
    size_t count, under_way, acked;
    size_t refused, unknown;
    struct sent *sent;
};

static struct cluster_servers cluster;
static struct poll_loop loop;
static struct metrics metrics;
static struct roomlog *the_log;
static struct roomlog_redis_config config;
static struct client clients[ROOMS * CLIENTS];
static struct loop_timer timer;
static struct loop_task more;
static unsigned burst;

/* --- clients -------------------------------------------------------------------------------- */

static void room_of(size_t i, char name[TEXT_MAX])
{
    (void)snprintf(name, TEXT_MAX, "w%zu", i);
}

static void key_of(size_t i, char key[TEXT_MAX])
{
    (void)snprintf(key, TEXT_MAX, "room:w%zu", i);
}

static unsigned slot_of(size_t i)
{
    char key[TEXT_MAX];
    key_of(i, key);
    return redis_slot_of(str_from(key));
}

static struct client *client_of(const struct sent *sent)
{
    for (size_t i = 0; i < ROOMS * CLIENTS; i++)
        if (sent >= clients[i].sent && sent < clients[i].sent + SENT_MAX)
            return &clients[i];
    ck_abort_msg("an answer to nobody");
}

static void on_appended(struct roomlog_append *append, enum rd_err err, struct stream_id id,
                        bool duplicate)
{
    struct sent *sent = RD_CONTAINER(append, struct sent, append);
    struct client *client = client_of(sent);
    ck_assert_uint_eq(sent->answers++, 0);
    sent->err = err;
    sent->id = id;
    sent->duplicate = duplicate;
    client->under_way--;
    client->acked += err == RD_OK;
    client->unknown += err == RD_EUNKNOWN;
    client->refused += err != RD_OK && err != RD_EUNKNOWN;
}

static struct client *with_refs(size_t room)
{
    return &clients[room * CLIENTS + 1];
}

/* False: it is refused at once. */
static bool publish(struct client *client)
{
    char room[TEXT_MAX], data[TEXT_MAX], ref[TEXT_MAX], from[TEXT_MAX];
    ck_assert_uint_lt(client->count, SENT_MAX);
    struct sent *sent = &client->sent[client->count];
    room_of(client->room, room);
    (void)snprintf(from, sizeof(from), "c%zu", client->kind);
    (void)snprintf(data, sizeof(data), "%zu", client->count);
    (void)snprintf(ref, sizeof(ref), "r%zu", client->count);
    struct roomlog_publish what = {
        .type = STR("n"), .data = str_from(data), .from = str_from(from)};
    if (client->kind == 1 || (client->kind == 2 && client->count % 3 == 0))
        what.ref = str_from(ref);
    if (client->kind == 2 && client->count % 4 == 1)
        what.key = STR("k");
    *sent = (struct sent){.append = {.done = on_appended}};
    enum rd_err err = roomlog_append(the_log, str_from(room), &what, &sent->append);
    client->refused += err != RD_OK;
    client->count += err == RD_OK;
    client->under_way += err == RD_OK;
    return err == RD_OK;
}

/* One turn after the other, so that some are sent while others are being answered. */
static void on_more(void *arg)
{
    for (size_t i = 0; i < ROOMS * CLIENTS; i++)
        if (clients[i].under_way < WINDOW)
            (void)publish(&clients[i]);
    if (--burst != 0)
        loop_defer(&loop.loop, &more, on_more, arg);
}

static void on_turn(void *arg)
{
    loop_timer_start(&loop.loop, &timer, TURN_MS, on_turn, arg);
    burst = BURST;
    loop_defer(&loop.loop, &more, on_more, arg);
}

static bool all_answered(void *arg)
{
    (void)arg;
    for (size_t i = 0; i < ROOMS * CLIENTS; i++)
        if (clients[i].under_way != 0)
            return false;
    return true;
}

static void stop(void)
{
    loop_timer_stop(&loop.loop, &timer);
    loop_cancel(&more);
    ck_assert_msg(poll_loop_run(&loop, LIMIT_MS, all_answered, NULL), "some are never answered");
}

static size_t sum_refused(void)
{
    size_t sum = 0;
    for (size_t i = 0; i < ROOMS * CLIENTS; i++)
        sum += clients[i].refused;
    return sum;
}

/* --- fixture -------------------------------------------------------------------------------- */

static void begin(size_t replicas)
{
    (void)signal(SIGPIPE, SIG_IGN);
    cluster_servers_start(&cluster, 3, replicas, true);
    poll_loop_init(&loop);
    metrics = (struct metrics){.v = {0}};
    for (size_t i = 0; i < ROOMS * CLIENTS; i++)
        clients[i] = (struct client){.room = i / CLIENTS,
                                     .kind = i % CLIENTS,
                                     .sent = xalloc_array(NULL, SENT_MAX, sizeof(struct sent))};
    config = (struct roomlog_redis_config){
        .url = cluster.url,
        .prefix = "room:",
        .live = ROOMLOG_REDIS_AUTO,
        .poll_ms = 60000,
        .max_entries = 100000,
        .dedupe_ms = 500,
        .state_keys = 100,
        .state_bytes = 10000,
        .connect_ms = 1000,
        .command_ms = 1000,
        .max_appends = 1000,
        .publish_wait_ms = 5000,
        .max_reads = 1000,
    };
}

static void setup(void)
{
    begin(0);
}

static void setup_with_replicas(void)
{
    begin(3);
}

static void close_log(void)
{
    if (the_log == NULL)
        return;
    roomlog_close(the_log);
    the_log = NULL;
    ck_assert(poll_loop_run_out(&loop, LIMIT_MS));
    ck_assert_uint_eq(metrics.v[M_PUBLISHES_WAITING], 0);
}

static void teardown(void)
{
    close_log();
    poll_loop_fini(&loop);
    cluster_servers_end(&cluster);
    for (size_t i = 0; i < ROOMS * CLIENTS; i++)
        free(clients[i].sent);
}

static bool is_ready(void *arg)
{
    (void)arg;
    return roomlog_ready(the_log);
}

static void open_log(void)
{
    the_log = roomlog_redis_create(&loop.loop, &metrics, &config);
    ck_assert_ptr_nonnull(the_log);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_ready, NULL));
}

/* --- checking ------------------------------------------------------------------------------- */

/* What was acknowledged one after the other stands in the log one after the other. */
static void check_acks(const struct client *client)
{
    struct stream_id last = STREAM_ID_ZERO;
    size_t before = 0;
    for (size_t i = 0; i < client->count; i++) {
        const struct sent *sent = &client->sent[i];
        ck_assert_uint_eq(sent->answers, 1);
        if (sent->err != RD_OK)
            continue;
        ck_assert(!sent->duplicate);
        ck_assert_msg(stream_id_cmp(sent->id, last) > 0, "room %zu, client %zu: %zu before %zu",
                      client->room, client->kind, i, before);
        last = sent->id;
        before = i;
    }
}

/* Its log has of each client each number once and in order. Returns how many. */
static size_t check_room(size_t room)
{
    char key[TEXT_MAX];
    key_of(room, key);
    const char *words[] = {"XRANGE", key, "-", "+"};
    redisReply *range = redis_server_ask(cluster_servers_of(&cluster, key), 4, words, NULL);
    ck_assert_int_eq(range->type, REDIS_REPLY_ARRAY);
    long last[CLIENTS] = {-1, -1, -1};
    for (size_t i = 0; i < range->elements; i++) {
        const redisReply *fields = range->element[i]->element[1];
        ck_assert_str_eq(fields->element[2]->str, "data");
        ck_assert_str_eq(fields->element[4]->str, "from");
        long number = strtol(fields->element[3]->str, NULL, 10);
        long *of = &last[fields->element[5]->str[1] - '0'];
        ck_assert_msg(number > *of, "room %zu, client %s: %ld behind %ld", room,
                      fields->element[5]->str, number, *of);
        *of = number;
    }
    size_t count = range->elements;
    freeReplyObject(range);
    return count;
}

/* lossy: of the rooms of this node (a failover) some may be gone. */
static void check_all(int lossy)
{
    for (size_t room = 0; room < ROOMS; room++) {
        size_t acked = 0, unknown = 0;
        for (size_t i = room * CLIENTS; i < (room + 1) * CLIENTS; i++) {
            check_acks(&clients[i]);
            ck_assert_uint_gt(clients[i].acked, 0);
            acked += clients[i].acked;
            unknown += clients[i].unknown;
        }
        size_t held = check_room(room);
        ck_assert_uint_le(held, acked + unknown);
        if (cluster.owner[slot_of(room)] != lossy)
            ck_assert_uint_ge(held, acked);
    }
}

/* --- slots that move ------------------------------------------------------------------------ */

/* Some of the slot's keys, but the room's. False: there were none. */
static bool move_others(size_t room, size_t to)
{
    char number[16], key[TEXT_MAX];
    (void)snprintf(number, sizeof(number), "%u", slot_of(room));
    key_of(room, key);
    struct redis_server *from = cluster_servers_of(&cluster, key);
    const char *words[] = {"CLUSTER", "GETKEYSINSLOT", number, "40"};
    redisReply *keys = redis_server_ask(from, 4, words, NULL);
    bool moved = false;
    for (size_t i = 0; i < keys->elements; i++) {
        if (strcmp(keys->element[i]->str, key) == 0)
            continue;
        cluster_servers_move_key(&cluster, keys->element[i]->str, to);
        moved = true;
    }
    freeReplyObject(keys);
    poll_loop_pass(&loop, 1);
    return moved;
}

static void move_room(size_t room, size_t to)
{
    char key[TEXT_MAX];
    key_of(room, key);
    cluster_servers_move_key(&cluster, key, to);
}

/* The room's key before its refs, or after them; in between publishes of either kind go on. */
static void move_slot(size_t room, size_t to, bool room_first)
{
    unsigned slot = slot_of(room);
    cluster_servers_move_begin(&cluster, slot, to);
    poll_loop_pass(&loop, 30);
    if (room_first)
        move_room(room, to);
    poll_loop_pass(&loop, 30);
    for (int i = 0; i < 100 && move_others(room, to); i++)
        ;
    if (!room_first)
        move_room(room, to);
    cluster_servers_move_keys(&cluster, slot, to);
    poll_loop_pass(&loop, 30);
    cluster_servers_move_end(&cluster, slot, to);
    poll_loop_pass(&loop, 30);
}

START_TEST(a_client_that_waits_for_nothing_keeps_its_order_while_slots_move)
{
    open_log();
    on_turn(NULL);
    poll_loop_pass(&loop, 100);
    for (size_t i = 0; i < 16; i++) {
        size_t room = i % ROOMS;
        move_slot(room, (cluster.owner[slot_of(room)] + 1U + i % 2) % 3, i / ROOMS % 2 == 0);
    }
    stop();
    ck_assert_uint_gt(metrics.v[M_PUBLISHES_TRIED_AGAIN], 16);
    ck_assert_uint_gt(metrics.v[M_LOG_REDIRECTS], 100);
    ck_assert_uint_eq(sum_refused(), 0);
    ck_assert_uint_eq(metrics.v[M_PUBLISHES_EXPIRED], 0);
    check_all(-1);
}
END_TEST

static unsigned reads;

static void on_read(struct roomlog_read *read, enum rd_err err, const struct roomlog_page *page)
{
    (void)read;
    (void)err;
    (void)page;
    reads++;
}

static bool is_read(void *arg)
{
    (void)arg;
    return reads != 0;
}

/* A node that stalls is still to answer what it was sent, when somebody who asks elsewhere finds
 * that the slot has gone. */
/* Valkey's CLIENT PAUSE holds SETSLOT back with the writes: there nothing can be stalled while its
 * slot moves. */
static bool is_valkey(void)
{
    const char *words[] = {"INFO", "server"};
    redisReply *reply = redis_server_ask(&cluster.node[0], 2, words, NULL);
    bool valkey = strstr(reply->str, "valkey_version:") != NULL;
    freeReplyObject(reply);
    return valkey;
}

START_TEST(what_is_sent_the_short_way_overtakes_nothing)
{
    if (is_valkey())
        return;
    struct roomlog_read read = {
        .from = ROOMLOG_ALL, .max_entries = 1, .max_bytes = 1000, .done = on_read};
    char room[TEXT_MAX];
    room_of(0, room);
    open_log();
    size_t from = cluster.owner[slot_of(0)];
    redis_server_do(&cluster.node[from], "CLIENT PAUSE 3000 WRITE");
    for (size_t i = 0; i < 10; i++)
        for (size_t kind = 0; kind < CLIENTS; kind++)
            ck_assert(publish(&clients[kind]));
    poll_loop_pass(&loop, 20);
    cluster_servers_move_begin(&cluster, slot_of(0), (from + 1U) % 3);
    cluster_servers_move_end(&cluster, slot_of(0), (from + 1U) % 3);
    reads = 0;
    ck_assert_int_eq(roomlog_read(the_log, str_from(room), &read), RD_OK);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_read, NULL));
    for (size_t i = 0; i < 10; i++)
        for (size_t kind = 0; kind < CLIENTS; kind++)
            ck_assert(publish(&clients[kind]));
    ck_assert(publish(with_refs(1)));
    poll_loop_pass(&loop, 50);
    ck_assert_uint_eq(with_refs(1)->under_way, cluster.owner[slot_of(1)] == from);
    ck_assert_uint_eq(clients[0].acked, 0);
    redis_server_do(&cluster.node[from], "CLIENT UNPAUSE");
    stop();
    for (size_t kind = 0; kind < CLIENTS; kind++) {
        ck_assert_uint_eq(clients[kind].acked, 20);
        check_acks(&clients[kind]);
    }
    ck_assert_uint_eq(check_room(0), 20 * CLIENTS);
}
END_TEST

static pid_t reshard(const char *from, const char *to)
{
    char seed[32];
    (void)snprintf(seed, sizeof(seed), "127.0.0.1:%u", cluster.port[0]);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid != 0)
        return pid;
    (void)freopen("/dev/null", "w", stdout);
    (void)execlp("redis-cli", "redis-cli", "--cluster", "reshard", seed, "--cluster-from", from,
                 "--cluster-to", to, "--cluster-slots", "5461", "--cluster-yes", (char *)NULL);
    _exit(127);
}

/* All slots of a master: as operators do it. */
START_TEST(and_through_a_reshard)
{
    config.publish_wait_ms = 1000;
    open_log();
    on_turn(NULL);
    poll_loop_pass(&loop, 100);
    pid_t pid = reshard(cluster.id[cluster.owner[slot_of(0)]],
                        cluster.id[(cluster.owner[slot_of(0)] + 1U) % 3]);
    int status = -1;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        poll_loop_pass(&loop, 20);
        for (size_t i = 0; i < ROOMS * CLIENTS; i++)
            if (clients[i].count + WINDOW + 20 * BURST >= SENT_MAX)
                loop_timer_stop(&loop.loop, &timer);
    }
    ck_assert_int_eq(status, 0);
    stop();
    size_t from = cluster.owner[slot_of(0)];
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        if (cluster.owner[slot] == from)
            cluster.owner[slot] = (unsigned char)((from + 1U) % 3);
    ck_assert_uint_eq(sum_refused(), 0);
    check_all(-1);
}
END_TEST

/* --- what can't go on ----------------------------------------------------------------------- */

static bool answered(void *arg)
{
    return ((const struct client *)arg)->under_way == 0;
}

/* A slot that never arrives. */
static void hold_up(size_t room)
{
    size_t to = (cluster.owner[slot_of(room)] + 1U) % 3;
    ck_assert(publish(with_refs(room)));
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, with_refs(room)));
    cluster_servers_move_begin(&cluster, slot_of(room), to);
}

START_TEST(a_room_that_is_held_up_for_too_long_is_refused_and_others_go_on)
{
    config.publish_wait_ms = 300;
    open_log();
    hold_up(0);
    struct client *client = with_refs(0);
    for (size_t i = 0; i < 20; i++) {
        ck_assert(publish(client));
        ck_assert(publish(with_refs(1)));
        ck_assert(publish(&clients[0])); /* it waits behind one with a ref */
    }
    uint64_t began = loop.now_ms;
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, with_refs(1)));
    ck_assert_uint_lt(loop.now_ms - began, 250);
    ck_assert_uint_eq(with_refs(1)->acked, 20);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, client));
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, &clients[0]));
    ck_assert_uint_ge(loop.now_ms - began, 300);
    ck_assert_uint_lt(loop.now_ms - began, 2000);
    ck_assert_uint_eq(client->refused, 20);
    ck_assert_int_eq(client->sent[20].err, RD_EUNAVAIL);
    ck_assert_uint_ge(metrics.v[M_PUBLISHES_EXPIRED], 20);
    ck_assert_uint_eq(check_room(0), 1 + clients[0].acked);
    cluster_servers_move_keys(&cluster, slot_of(0), (cluster.owner[slot_of(0)] + 1U) % 3);
    cluster_servers_move_end(&cluster, slot_of(0), (cluster.owner[slot_of(0)] + 1U) % 3);
    ck_assert(publish(client));
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, client));
    ck_assert_uint_eq(client->acked, 2);
}
END_TEST

START_TEST(where_none_may_wait_it_is_refused_at_once)
{
    config.publish_wait_ms = 0;
    open_log();
    hold_up(0);
    ck_assert(publish(with_refs(0)));
    uint64_t began = loop.now_ms;
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, with_refs(0)));
    ck_assert_uint_lt(loop.now_ms - began, 250);
    ck_assert_int_eq(with_refs(0)->sent[1].err, RD_EUNAVAIL);
}
END_TEST

START_TEST(no_more_are_held_up_than_may_be_under_way)
{
    config.max_appends = 50;
    open_log();
    hold_up(0);
    for (size_t i = 0; i < 50; i++) {
        ck_assert(publish(with_refs(0)));
        poll_loop_pass(&loop, 1);
    }
    ck_assert(!publish(with_refs(0)));
    ck_assert_uint_eq(metrics.v[M_LOG_BUSY], 1);
    ck_assert_uint_ge(metrics.v[M_PUBLISHES_WAITING], 49);
    cluster_servers_move_keys(&cluster, slot_of(0), (cluster.owner[slot_of(0)] + 1U) % 3);
    ck_assert(!publish(with_refs(0))); /* behind ASKING too */
    cluster_servers_move_end(&cluster, slot_of(0), (cluster.owner[slot_of(0)] + 1U) % 3);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, answered, with_refs(0)));
    ck_assert_uint_eq(with_refs(0)->acked, 51);
    check_acks(with_refs(0));
    ck_assert_uint_eq(check_room(0), 51);
}
END_TEST

/* After so many ms: some are out, some wait. */
START_TEST(what_is_held_up_may_be_cancelled_and_the_rest_closed)
{
    open_log();
    hold_up(0);
    struct client *client = with_refs(0);
    for (size_t i = 0; i < 20; i++) {
        ck_assert(publish(client));
        if (i % 7 == 0)
            poll_loop_pass(&loop, 1);
    }
    poll_loop_pass(&loop, (uint64_t)_i * 5);
    for (size_t i = 1; i < 21; i++)
        roomlog_cancel_append(the_log, &client->sent[i].append);
    if (_i % 2 == 1)
        poll_loop_pass(&loop, 30);
    close_log();
    for (size_t i = 1; i < 21; i++)
        ck_assert_uint_eq(client->sent[i].answers, 0);
}
END_TEST

/* --- nodes that die ------------------------------------------------------------------------- */

static bool promoted(void *arg)
{
    return cluster_servers_promoted(&cluster, *(const size_t *)arg);
}

/* Of master 0. */
static void take_over(void)
{
    for (unsigned slot = 0; slot < REDIS_SLOTS; slot++)
        if (cluster.owner[slot] == 0)
            cluster.owner[slot] = 3;
}

START_TEST(and_through_a_failover_that_was_asked_for)
{
    size_t heir = 3;
    open_log();
    on_turn(NULL);
    poll_loop_pass(&loop, 100);
    for (int i = 0; i < 10 && !promoted(&heir); i++) {
        redis_server_do(&cluster.node[heir], "CLUSTER FAILOVER");
        (void)poll_loop_run(&loop, 2000, promoted, &heir);
    }
    take_over();
    poll_loop_pass(&loop, 200);
    stop();
    ck_assert_uint_eq(sum_refused(), 0);
    check_all(-1);
}
END_TEST

/* What waits at the master that was killed goes to the one that takes over. */
START_TEST(and_through_the_death_of_a_master)
{
    size_t heir = 3;
    config.publish_wait_ms = 15000;
    open_log();
    on_turn(NULL);
    poll_loop_pass(&loop, 100);
    cluster_servers_kill(&cluster, 0);
    ck_assert(poll_loop_run(&loop, LIMIT_MS, promoted, &heir));
    take_over();
    ck_assert(poll_loop_run(&loop, LIMIT_MS, is_ready, NULL));
    poll_loop_pass(&loop, 200);
    stop();
    ck_assert_uint_eq(sum_refused(), 0);
    check_all(3);
}
END_TEST

static TCase *add_case(Suite *suite, const char *name, SFun start)
{
    TCase *tc = tcase_create(name);
    tcase_add_checked_fixture(tc, start, teardown);
    tcase_set_timeout(tc, TIMEOUT_S);
    suite_add_tcase(suite, tc);
    return tc;
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_ways");
    TCase *tc = add_case(suite, "slots", setup);
    tcase_add_test(tc, a_client_that_waits_for_nothing_keeps_its_order_while_slots_move);
    tcase_add_test(tc, and_through_a_reshard);
    tcase_add_test(tc, what_is_sent_the_short_way_overtakes_nothing);
    tcase_add_test(tc, a_room_that_is_held_up_for_too_long_is_refused_and_others_go_on);
    tcase_add_test(tc, where_none_may_wait_it_is_refused_at_once);
    tcase_add_test(tc, no_more_are_held_up_than_may_be_under_way);
    tcase_add_loop_test(tc, what_is_held_up_may_be_cancelled_and_the_rest_closed, 0, 6);

    tc = add_case(suite, "failovers", setup_with_replicas);
    tcase_add_test(tc, and_through_a_failover_that_was_asked_for);
    tcase_add_test(tc, and_through_the_death_of_a_master);
    return suite;
}
