/* Every backend's state by key is held to roomlog.h by the same sentences. */
#include "roomlog/roomlog.h"

#include "tests/contract/backend.h"
#include "tests/contract/witness.h"
#include "tests/lib/suite.h"

#include <stdio.h>

enum {
    MAX_ENTRIES = 1000,
    MAX_IN_FLIGHT = 600,
    DEDUPE_MS = 60000,
    KEYS = 20,
    BYTES = 4000,
    NAME_MAX_LEN = 32
};

static const struct backend *backend;
static void *self;
static struct roomlog *the_log;
static struct witness_state state;

#define ROOM STR("lobby")
#define OTHER STR("kitchen")

static void open_with(size_t keys, size_t max_entries)
{
    const struct backend_limits limits = {.max_entries = max_entries,
                                          .dedupe_ms = DEDUPE_MS,
                                          .max_in_flight = MAX_IN_FLIGHT,
                                          .state_keys = keys,
                                          .state_bytes = BYTES};
    self = backend->create(&limits, &the_log);
    state = (struct witness_state){.then = NULL};
}

static void open_log(void)
{
    open_with(KEYS, MAX_ENTRIES);
}

static void close_log(void)
{
    witness_state_fini(&state);
    backend->destroy(self);
}

/* --- small words ---------------------------------------------------------------------------- */

struct counted {
    const unsigned *count;
    unsigned want;
};

static bool enough(void *arg)
{
    const struct counted *c = arg;
    return *c->count >= c->want;
}

static void wait_for(const unsigned *count, unsigned want)
{
    ck_assert_msg(backend->run(self, enough, &(struct counted){count, want}), "never came");
}

static struct roomlog_publish keyed(struct str key, struct str data)
{
    return (struct roomlog_publish){.type = STR("move"), .data = data, .key = key};
}

static struct witness_append append(struct str room, struct roomlog_publish what)
{
    struct witness_append w = {.then = NULL};
    ck_assert_int_eq(witness_append(the_log, &w, room, &what), RD_OK);
    wait_for(&w.answers, 1);
    return w;
}

static struct stream_id set(struct str key, const char *data)
{
    struct witness_append w = append(ROOM, keyed(key, str_from(data)));
    ck_assert_int_eq(w.err, RD_OK);
    return w.id;
}

static struct stream_id say(struct str room)
{
    struct witness_append w =
        append(room, (struct roomlog_publish){.type = STR("message"), .data = STR("1")});
    ck_assert_int_eq(w.err, RD_OK);
    return w.id;
}

static void read_state(struct str room)
{
    ck_assert_int_eq(witness_state(the_log, &state, room), RD_OK);
    wait_for(&state.answers, 1);
    ck_assert_int_eq(state.err, RD_OK);
}

static void assert_state(struct stream_id position, size_t count)
{
    read_state(ROOM);
    ck_assert(stream_id_eq(state.position, position));
    ck_assert_uint_eq(state.count, count);
}

static void assert_item(size_t at, struct stream_id id, struct str key, const char *data)
{
    ck_assert_uint_lt(at, state.count);
    ck_assert(stream_id_eq(state.items[at].id, id));
    ck_assert(witness_text_is(&state.items[at].key, key));
    ck_assert(witness_text_is(&state.items[at].data, str_from(data)));
}

/* --- what a state is ------------------------------------------------------------------------ */

START_TEST(a_room_that_is_not_there_has_an_empty_state)
{
    assert_state(STREAM_ID_ZERO, 0);
    say(ROOM);
    assert_state(STREAM_ID_ZERO, 0);
}
END_TEST

START_TEST(a_state_is_answered_later_and_once)
{
    ck_assert_int_eq(witness_state(the_log, &state, ROOM), RD_OK);
    ck_assert_uint_eq(state.answers, 0);
    wait_for(&state.answers, 1);
    say(ROOM);
    ck_assert_uint_eq(state.answers, 1);
}
END_TEST

START_TEST(of_each_key_the_newest_entry_counts)
{
    struct stream_id a = set(STR("a"), "1");
    struct stream_id b = set(STR("b"), "2");
    assert_state(b, 2);
    assert_item(0, a, STR("a"), "1");
    assert_item(1, b, STR("b"), "2");

    a = set(STR("a"), "{\"x\":3}");
    assert_state(a, 2);
    assert_item(0, b, STR("b"), "2");
    assert_item(1, a, STR("a"), "{\"x\":3}");
}
END_TEST

START_TEST(null_takes_a_key_out_and_moves_the_position)
{
    struct stream_id a = set(STR("a"), "1");
    set(STR("b"), "2");
    struct stream_id gone = set(STR("b"), "null");
    assert_state(gone, 1);
    assert_item(0, a, STR("a"), "1");
    gone = set(STR("never was"), "null");
    assert_state(gone, 1);
    gone = set(STR("a"), "null");
    assert_state(gone, 0);
    struct stream_id again = set(STR("a"), "4");
    assert_state(again, 1);
    assert_item(0, again, STR("a"), "4");
}
END_TEST

START_TEST(what_has_no_key_is_not_in_it_and_does_not_move_it)
{
    struct stream_id a = set(STR("a"), "1");
    say(ROOM);
    assert_state(a, 1);
}
END_TEST

START_TEST(what_others_add_is_not_in_it_and_comes_after_it)
{
    struct roomlog_publish what = keyed(STR("b"), STR("2"));
    struct stream_id a = set(STR("a"), "1");
    struct stream_id foreign = {a.ms + 1000000, 0};
    backend->add(self, ROOM, foreign, &what);
    assert_state(a, 1);
    ck_assert_int_gt(stream_id_cmp(foreign, state.position), 0);
}
END_TEST

START_TEST(rooms_do_not_mix)
{
    struct stream_id a = set(STR("a"), "1");
    struct witness_append w = append(OTHER, keyed(STR("a"), STR("2")));
    assert_state(a, 1);
    assert_item(0, a, STR("a"), "1");
    read_state(OTHER);
    ck_assert_uint_eq(state.count, 1);
    assert_item(0, w.id, STR("a"), "2");
}
END_TEST

START_TEST(all_texts_come_back_but_the_ref)
{
    struct roomlog_publish what = {
        .type = STR("a \"quoted\" \\ type \xc3\xa9"),
        .data = STR("{\"a\":[1,2.50,\"\\u0000\"]}"),
        .from = STR("ann \xf0\x9f\x98\x80 \""),
        .ref = STR("r1"),
        .key = STR("k\0id\"}{ \xff"),
    };
    ck_assert_int_eq(append(ROOM, what).err, RD_OK);
    read_state(ROOM);
    ck_assert_uint_eq(state.count, 1);
    ck_assert(witness_text_is(&state.items[0].type, what.type));
    ck_assert(witness_text_is(&state.items[0].data, what.data));
    ck_assert(witness_text_is(&state.items[0].from, what.from));
    ck_assert(witness_text_is(&state.items[0].key, what.key));
}
END_TEST

START_TEST(absent_texts_stay_absent)
{
    struct str absent = {NULL, 0};
    ck_assert_int_eq(append(ROOM, (struct roomlog_publish){.data = STR("1"), .key = STR("k")}).err,
                     RD_OK);
    read_state(ROOM);
    ck_assert_uint_eq(state.count, 1);
    ck_assert(witness_text_is(&state.items[0].type, absent));
    ck_assert(witness_text_is(&state.items[0].from, absent));
}
END_TEST

START_TEST(a_key_that_begins_with_a_nul_is_not_in_it)
{
    struct stream_id a = set(STR("a"), "1");
    set(STR("\0id"), "2");
    set(STR("\0bytes"), "3");
    assert_state(a, 1);
}
END_TEST

START_TEST(a_duplicate_does_not_touch_it)
{
    struct roomlog_publish what = keyed(STR("a"), STR("1"));
    what.ref = STR("r");
    struct witness_append first = append(ROOM, what);
    struct stream_id second = set(STR("a"), "2");
    struct witness_append again = append(ROOM, what);
    ck_assert(!first.duplicate && again.duplicate);
    assert_state(second, 1);
    assert_item(0, second, STR("a"), "2");
}
END_TEST

START_TEST(it_outlives_the_entries_that_made_it)
{
    struct stream_id a = set(STR("a"), "1");
    say(ROOM);
    backend->trim(self, ROOM, 1);
    assert_state(a, 1);
    backend->trim(self, ROOM, 0);
    assert_state(a, 1);
    struct stream_id b = set(STR("b"), "2");
    assert_state(b, 2);
    backend->del(self, ROOM, b);
    assert_state(b, 2);
    struct stream_id c = set(STR("c"), "3");
    assert_state(c, 3);
}
END_TEST

START_TEST(what_is_in_flight_is_applied_in_order)
{
    enum { COUNT = 100 };
    static struct witness_append w[COUNT];
    static char data[COUNT][NAME_MAX_LEN];
    for (size_t i = 0; i < COUNT; i++) {
        (void)snprintf(data[i], sizeof(data[i]), "%zu", i);
        struct roomlog_publish what = keyed(i % 2 == 0 ? STR("a") : STR("b"), str_from(data[i]));
        if (i % 3 == 0)
            what.ref = str_from(data[i]);
        ck_assert_int_eq(witness_append(the_log, &w[i], ROOM, &what), RD_OK);
    }
    wait_for(&w[COUNT - 1].answers, 1);
    assert_state(w[COUNT - 1].id, 2);
    assert_item(0, w[COUNT - 2].id, STR("a"), data[COUNT - 2]);
    assert_item(1, w[COUNT - 1].id, STR("b"), data[COUNT - 1]);
}
END_TEST

/* --- a log that began anew ------------------------------------------------------------------ */

START_TEST(where_the_log_is_gone_it_is_empty)
{
    set(STR("a"), "1");
    backend->reset(self, ROOM);
    assert_state(STREAM_ID_ZERO, 0);
    struct stream_id b = set(STR("b"), "2");
    assert_state(b, 1);
    assert_item(0, b, STR("b"), "2");
}
END_TEST

START_TEST(where_the_log_began_anew_without_a_key_it_is_empty)
{
    set(STR("a"), "1");
    backend->reset(self, ROOM);
    backend->pass(self, 2); /* or Redis might give the very same id again */
    say(ROOM);
    assert_state(STREAM_ID_ZERO, 0);
    struct stream_id b = set(STR("b"), "2");
    assert_state(b, 1);
}
END_TEST

START_TEST(where_the_log_lost_its_position_it_is_empty)
{
    say(ROOM);
    set(STR("a"), "1");
    backend->lose_tail(self, ROOM, 1);
    assert_state(STREAM_ID_ZERO, 0);
    struct stream_id b = set(STR("b"), "2");
    assert_state(b, 1);
}
END_TEST

/* --- bounds --------------------------------------------------------------------------------- */

static struct str key_of(size_t i)
{
    static char name[NAME_MAX_LEN];
    (void)snprintf(name, sizeof(name), "key%zu", i);
    return str_from(name);
}

static uint64_t length_of(struct str room)
{
    struct witness_read w = {.read = {.from = ROOMLOG_HEAD, .max_entries = 1, .max_bytes = 1}};
    ck_assert_int_eq(witness_read(the_log, &w, room), RD_OK);
    wait_for(&w.answers, 1);
    witness_read_fini(&w);
    return w.info.length;
}

START_TEST(one_key_too_many_is_refused_and_changes_nothing)
{
    struct stream_id last = STREAM_ID_ZERO;
    for (size_t i = 0; i < KEYS; i++)
        last = set(key_of(i), "1");
    struct roomlog_publish what = keyed(STR("more"), STR("1"));
    what.ref = STR("r");
    ck_assert_int_eq(append(ROOM, what).err, RD_ESTATEFULL);
    assert_state(last, KEYS);
    ck_assert_uint_eq(length_of(ROOM), KEYS);

    last = set(key_of(0), "2"); /* those that are there may change */
    say(ROOM);                  /* and what has no key isn't concerned */
    last = set(key_of(1), "null");
    /* There is room again, and the ref was not spent. */
    struct witness_append w = append(ROOM, what);
    ck_assert_int_eq(w.err, RD_OK);
    ck_assert(!w.duplicate);
    assert_state(w.id, KEYS);
}
END_TEST

START_TEST(bytes_above_the_bound_are_refused_and_change_nothing)
{
    static char large[BYTES];
    memset(large, '1', sizeof(large));
    struct str half = {large, BYTES / 2};
    struct witness_append first = append(ROOM, keyed(STR("a"), half));
    ck_assert_int_eq(first.err, RD_OK);
    ck_assert_int_eq(append(ROOM, keyed(STR("b"), half)).err, RD_ESTATEFULL);
    ck_assert_int_eq(append(ROOM, keyed(STR("b"), (struct str){large, BYTES})).err, RD_ESTATEFULL);
    assert_state(first.id, 1);
    ck_assert_uint_eq(length_of(ROOM), 1);
    /* What takes its place doesn't count twice; what is gone doesn't count. */
    ck_assert_int_eq(append(ROOM, keyed(STR("a"), half)).err, RD_OK);
    set(STR("a"), "2");
    ck_assert_int_eq(append(ROOM, keyed(STR("b"), half)).err, RD_OK);
    set(STR("b"), "null");
    for (size_t i = 0; i < 5; i++)
        ck_assert_int_eq(append(ROOM, keyed(STR("b"), half)).err, RD_OK);
    ck_assert_uint_eq(length_of(ROOM), 10);
}
END_TEST

/* To the byte: both kinds of log count alike. The longest id that could come counts until it is
 * known. */
START_TEST(the_bound_counts_keys_ids_and_json)
{
    static char large[BYTES];
    static const char frame[] = " {\"type\":\"move\",\"data\":}";
    size_t fits = BYTES - (STREAM_ID_TEXT_MAX + sizeof(frame) - 1) - strlen("k");
    memset(large, '1', sizeof(large));
    ck_assert_int_eq(append(ROOM, keyed(STR("k"), (struct str){large, fits + 1})).err,
                     RD_ESTATEFULL);
    ck_assert_int_eq(append(ROOM, keyed(STR("k"), (struct str){large, fits})).err, RD_OK);
    ck_assert_int_eq(append(ROOM, keyed(STR("k"), (struct str){large, fits})).err, RD_OK);
}
END_TEST

START_TEST(where_no_state_is_kept_a_key_is_just_a_text)
{
    close_log();
    open_with(0, MAX_ENTRIES);
    ck_assert_uint_eq(the_log->state_keys, 0);
    for (size_t i = 0; i < KEYS + 1; i++)
        set(key_of(i), "1");
    assert_state(STREAM_ID_ZERO, 0);
}
END_TEST

/* --- requests ------------------------------------------------------------------------------- */

static void ask_again(struct witness_state *w)
{
    struct witness_state *next = &state;
    if (w->answers == 1 && next->answers == 0 && w != next)
        ck_assert_int_eq(witness_state(the_log, next, ROOM), RD_OK);
}

START_TEST(a_state_may_be_asked_for_from_an_answer)
{
    struct witness_state first = {.then = ask_again};
    struct stream_id a = set(STR("a"), "1");
    ck_assert_int_eq(witness_state(the_log, &first, ROOM), RD_OK);
    wait_for(&state.answers, 1);
    ck_assert(stream_id_eq(state.position, a));
    witness_state_fini(&first);
}
END_TEST

START_TEST(a_cancelled_state_is_never_answered)
{
    set(STR("a"), "1");
    ck_assert_int_eq(witness_state(the_log, &state, ROOM), RD_OK);
    roomlog_cancel_state(the_log, &state.state);
    ck_assert_ptr_null(state.state.impl);
    roomlog_cancel_state(the_log, &state.state); /* harmless */
    say(ROOM);
    ck_assert_uint_eq(state.answers, 0);
}
END_TEST

START_TEST(states_above_the_bound_are_refused)
{
    static struct witness_state w[MAX_IN_FLIGHT + 1];
    memset(w, 0, sizeof(w));
    for (size_t i = 0; i < MAX_IN_FLIGHT; i++)
        ck_assert_int_eq(witness_state(the_log, &w[i], ROOM), RD_OK);
    ck_assert_int_eq(witness_state(the_log, &w[MAX_IN_FLIGHT], ROOM), RD_EBUSY);
    for (size_t i = 0; i < MAX_IN_FLIGHT; i++) {
        wait_for(&w[i].answers, 1);
        ck_assert_int_eq(w[i].err, RD_OK);
        witness_state_fini(&w[i]);
    }
    read_state(ROOM);
}
END_TEST

/* --- the suite ------------------------------------------------------------------------------ */

static void on_mem(void)
{
    backend = &backend_mem;
    open_log();
}

static void on_faulty(void)
{
    backend = &backend_faulty;
    open_log();
}

static void on_redis(void)
{
    backend = &backend_redis;
    open_log();
}

static void add_backend(Suite *suite, const struct backend *b, SFun open)
{
    TCase *tc = tcase_create(b->name);
    if (b->start != NULL)
        tcase_add_unchecked_fixture(tc, b->start, b->stop);
    tcase_add_checked_fixture(tc, open, close_log);
    tcase_add_test(tc, a_room_that_is_not_there_has_an_empty_state);
    tcase_add_test(tc, a_state_is_answered_later_and_once);
    tcase_add_test(tc, of_each_key_the_newest_entry_counts);
    tcase_add_test(tc, null_takes_a_key_out_and_moves_the_position);
    tcase_add_test(tc, what_has_no_key_is_not_in_it_and_does_not_move_it);
    tcase_add_test(tc, what_others_add_is_not_in_it_and_comes_after_it);
    tcase_add_test(tc, rooms_do_not_mix);
    tcase_add_test(tc, all_texts_come_back_but_the_ref);
    tcase_add_test(tc, absent_texts_stay_absent);
    tcase_add_test(tc, a_key_that_begins_with_a_nul_is_not_in_it);
    tcase_add_test(tc, a_duplicate_does_not_touch_it);
    tcase_add_test(tc, it_outlives_the_entries_that_made_it);
    tcase_add_test(tc, what_is_in_flight_is_applied_in_order);
    tcase_add_test(tc, where_the_log_is_gone_it_is_empty);
    tcase_add_test(tc, where_the_log_began_anew_without_a_key_it_is_empty);
    tcase_add_test(tc, where_the_log_lost_its_position_it_is_empty);
    tcase_add_test(tc, one_key_too_many_is_refused_and_changes_nothing);
    tcase_add_test(tc, bytes_above_the_bound_are_refused_and_change_nothing);
    tcase_add_test(tc, the_bound_counts_keys_ids_and_json);
    tcase_add_test(tc, where_no_state_is_kept_a_key_is_just_a_text);
    tcase_add_test(tc, a_state_may_be_asked_for_from_an_answer);
    tcase_add_test(tc, a_cancelled_state_is_never_answered);
    tcase_add_test(tc, states_above_the_bound_are_refused);
    suite_add_tcase(suite, tc);
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("roomlog_state");
    add_backend(suite, &backend_mem, on_mem);
    add_backend(suite, &backend_faulty, on_faulty);
    add_backend(suite, &backend_redis, on_redis);
    return suite;
}
