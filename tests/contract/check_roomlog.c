/* Every backend is held to roomlog.h by the same sentences. */
#include "roomlog/roomlog.h"

#include "tests/contract/backend.h"
#include "tests/contract/witness.h"
#include "tests/lib/suite.h"

#include <stdio.h>

enum {
    MAX_ENTRIES = 1200,
    MAX_IN_FLIGHT = 600,
    DEDUPE_MS = 60000,
    SHORT_DEDUPE_MS = 200,
    PAGE_BYTES = 1 << 20
};

static const struct backend *backend;
static void *self;
static struct roomlog *the_log;

#define ROOM STR("lobby")
#define OTHER STR("kitchen")

static void open_with(const struct backend_limits *limits)
{
    self = backend->create(limits, &the_log);
    ck_assert(roomlog_ready(the_log));
}

static void open_log(void)
{
    open_with(&(struct backend_limits){MAX_ENTRIES, DEDUPE_MS, MAX_IN_FLIGHT, 0, 0});
}

static void close_log(void)
{
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

struct heard {
    const struct witness_follower *follower;
    size_t want;
};

static bool heard_enough(void *arg)
{
    const struct heard *h = arg;
    return h->follower->count >= h->want;
}

static void wait_heard(const struct witness_follower *w, size_t want)
{
    ck_assert_msg(backend->run(self, heard_enough, &(struct heard){w, want}), "not heard");
}

static struct roomlog_publish text(const char *data)
{
    return (struct roomlog_publish){.type = STR("message"), .data = str_from(data)};
}

static struct roomlog_publish with_ref(struct str from, struct str ref)
{
    return (struct roomlog_publish){
        .type = STR("message"), .data = STR("1"), .from = from, .ref = ref};
}

static struct witness_append append(struct str room, struct roomlog_publish what)
{
    struct witness_append w = {.then = NULL};
    ck_assert_int_eq(witness_append(the_log, &w, room, &what), RD_OK);
    wait_for(&w.answers, 1);
    return w;
}

static struct stream_id appended(struct str room, const char *data)
{
    struct witness_append w = append(room, text(data));
    ck_assert_int_eq(w.err, RD_OK);
    ck_assert(!w.duplicate);
    return w.id;
}

static void add(struct str room, uint64_t ms, struct roomlog_publish what)
{
    backend->add(self, room, (struct stream_id){ms, 0}, &what);
}

/* 1-0 to n-0. */
static void add_many(struct str room, uint64_t n)
{
    for (uint64_t i = 1; i <= n; i++)
        add(room, i, text("1"));
}

static void read_with(struct witness_read *w, struct str room, struct roomlog_read read)
{
    w->read = read;
    if (w->read.max_entries == 0)
        w->read.max_entries = 500;
    if (w->read.max_bytes == 0)
        w->read.max_bytes = PAGE_BYTES;
    ck_assert_int_eq(witness_read(the_log, w, room), RD_OK);
    wait_for(&w->answers, 1);
    ck_assert_int_eq(w->err, RD_OK);
}

static void read_after(struct witness_read *w, struct str room, struct stream_id after)
{
    read_with(w, room, (struct roomlog_read){.from = ROOMLOG_AFTER, .after = after});
}

static void read_all(struct witness_read *w, struct str room)
{
    read_with(w, room, (struct roomlog_read){.from = ROOMLOG_ALL, .want_info = true});
}

static uint64_t length_of(struct str room)
{
    struct witness_read w = {.then = NULL};
    read_with(&w, room, (struct roomlog_read){.from = ROOMLOG_HEAD, .want_info = true});
    witness_read_fini(&w);
    return w.info.length;
}

static void follow(struct witness_follower *w, struct str room)
{
    witness_follow(the_log, w, room);
    wait_for(&w->started, 1);
}

static void unfollow(struct witness_follower *w)
{
    roomlog_unfollow(the_log, &w->follower);
    witness_follower_fini(w);
}

static void assert_id(struct stream_id id, uint64_t ms)
{
    ck_assert_uint_eq(id.ms, ms);
    ck_assert_uint_eq(id.seq, 0);
}

/* --- append --------------------------------------------------------------------------------- */

START_TEST(an_append_is_answered_later_and_once)
{
    struct witness_append w = {.then = NULL};
    struct roomlog_publish what = text("1");
    ck_assert_int_eq(witness_append(the_log, &w, ROOM, &what), RD_OK);
    ck_assert_uint_eq(w.answers, 0);
    wait_for(&w.answers, 1);
    ck_assert_int_eq(w.err, RD_OK);
    ck_assert(!stream_id_is_zero(w.id));
    ck_assert(!w.duplicate);
    /* What is asked later is answered later: a second answer would have come by then. */
    (void)appended(ROOM, "2");
    ck_assert_uint_eq(w.answers, 1);
}
END_TEST

START_TEST(ids_of_a_room_grow_in_the_order_of_the_appends)
{
    enum { COUNT = 300 };
    static struct witness_append w[COUNT];
    struct roomlog_publish what = text("1");
    for (size_t i = 0; i < COUNT; i++)
        ck_assert_int_eq(witness_append(the_log, &w[i], ROOM, &what), RD_OK);
    for (size_t i = 0; i < COUNT; i++) {
        wait_for(&w[i].answers, 1);
        ck_assert_int_eq(w[i].err, RD_OK);
        if (i != 0)
            ck_assert_int_lt(stream_id_cmp(w[i - 1].id, w[i].id), 0);
    }
    ck_assert_uint_eq(length_of(ROOM), COUNT);
}
END_TEST

START_TEST(an_acknowledged_entry_is_read_under_its_id_with_all_its_texts)
{
    struct roomlog_publish what = {
        .type = STR("chat"),
        .data = STR("{\"a\":[1,2.50,\"\\u0000\"]}"),
        .from = STR("ann"),
        .ref = STR("r1"),
        .key = STR("k1"),
    };
    struct witness_append w = append(ROOM, what);
    ck_assert_int_eq(w.err, RD_OK);

    struct witness_read r = {.then = NULL};
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.count, 1);
    ck_assert(stream_id_eq(r.entries[0].id, w.id));
    ck_assert(witness_text_is(&r.entries[0].type, what.type));
    ck_assert(witness_text_is(&r.entries[0].data, what.data));
    ck_assert(witness_text_is(&r.entries[0].from, what.from));
    ck_assert(witness_text_is(&r.entries[0].ref, what.ref));
    ck_assert(witness_text_is(&r.entries[0].key, what.key));
    witness_read_fini(&r);
}
END_TEST

START_TEST(absent_texts_stay_absent)
{
    struct str absent = {NULL, 0};
    (void)appended(ROOM, "1");
    struct witness_read r = {.then = NULL};
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.count, 1);
    ck_assert(witness_text_is(&r.entries[0].from, absent));
    ck_assert(witness_text_is(&r.entries[0].ref, absent));
    ck_assert(witness_text_is(&r.entries[0].key, absent));
    witness_read_fini(&r);
}
END_TEST

START_TEST(any_bytes_come_back_as_they_were)
{
    struct roomlog_publish what = {
        .type = STR("\0\r\n"),
        .data = STR("\xff\xfe$5\r\nhallo\r\n\0"),
        .from = STR("\xc3("),
        .ref = STR("\0"),
        .key = STR("\"'\\ \x80"),
    };
    add(ROOM, 1, what);
    struct witness_append w = append(ROOM, what);
    ck_assert_int_eq(w.err, RD_OK);

    struct witness_read r = {.then = NULL};
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.count, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(witness_text_is(&r.entries[i].type, what.type));
        ck_assert(witness_text_is(&r.entries[i].data, what.data));
        ck_assert(witness_text_is(&r.entries[i].from, what.from));
        ck_assert(witness_text_is(&r.entries[i].ref, what.ref));
        ck_assert(witness_text_is(&r.entries[i].key, what.key));
    }
    witness_read_fini(&r);
}
END_TEST

START_TEST(a_large_entry_comes_back_whole)
{
    enum { LEN = 60000 };
    static char large[LEN];
    memset(large, 'x', LEN);
    struct roomlog_publish what = {.type = STR("t"), .data = {large, LEN}};
    ck_assert_int_eq(append(ROOM, what).err, RD_OK);
    struct witness_read r = {.then = NULL};
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.count, 1);
    ck_assert_uint_eq(r.entries[0].data.len, LEN);
    witness_read_fini(&r);
}
END_TEST

START_TEST(rooms_do_not_mix)
{
    struct stream_id one = appended(ROOM, "1");
    struct stream_id two = appended(OTHER, "2");
    struct witness_read r = {.then = NULL};
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.count, 1);
    ck_assert(stream_id_eq(r.entries[0].id, one));
    read_all(&r, OTHER);
    ck_assert_uint_eq(r.count, 1);
    ck_assert(stream_id_eq(r.entries[0].id, two));
    witness_read_fini(&r);
}
END_TEST

START_TEST(a_room_keeps_its_newest_max_entries)
{
    enum { KEEP = 50, COUNT = 400 };
    close_log();
    open_with(&(struct backend_limits){KEEP, DEDUPE_MS, MAX_IN_FLIGHT, 0, 0});
    ck_assert_uint_eq(the_log->max_entries, KEEP);

    struct stream_id last = STREAM_ID_ZERO;
    for (size_t i = 0; i < COUNT; i++)
        last = appended(ROOM, "1");
    struct witness_read r = {.then = NULL};
    read_all(&r, ROOM);
    ck_assert_uint_ge(r.info.length, KEEP);
    ck_assert_uint_le(r.info.length, KEEP + backend->trim_slack);
    ck_assert_uint_eq(r.info.added, COUNT);
    ck_assert(stream_id_eq(r.entries[r.count - 1].id, last));
    ck_assert(!r.entries[0].prev_known);
    witness_read_fini(&r);
}
END_TEST

static unsigned then_count;

static void append_again(struct witness_append *w)
{
    struct roomlog_publish what = text("2");
    if (++then_count == 3)
        return;
    ck_assert_int_eq(witness_append(the_log, w, ROOM, &what), RD_OK);
}

START_TEST(a_request_may_be_used_again_from_its_own_answer)
{
    struct witness_append w = {.then = append_again};
    struct roomlog_publish what = text("1");
    then_count = 0;
    ck_assert_int_eq(witness_append(the_log, &w, ROOM, &what), RD_OK);
    wait_for(&then_count, 3);
    ck_assert_uint_eq(length_of(ROOM), 3);
}
END_TEST

START_TEST(a_cancelled_append_is_never_answered)
{
    struct witness_append w = {.then = NULL};
    struct roomlog_publish what = text("1");
    ck_assert_int_eq(witness_append(the_log, &w, ROOM, &what), RD_OK);
    roomlog_cancel_append(the_log, &w.append);
    ck_assert_ptr_null(w.append.impl);
    roomlog_cancel_append(the_log, &w.append); /* harmless */
    (void)appended(ROOM, "2");
    ck_assert_uint_eq(w.answers, 0);
}
END_TEST

static struct witness_append victim;

static void cancel_victim(struct witness_append *w)
{
    roomlog_cancel_append(the_log, &victim.append);
}

START_TEST(an_append_may_be_cancelled_from_the_answer_before_it)
{
    struct witness_append first = {.then = cancel_victim};
    struct roomlog_publish what = text("1");
    ck_assert_int_eq(witness_append(the_log, &first, ROOM, &what), RD_OK);
    ck_assert_int_eq(witness_append(the_log, &victim, ROOM, &what), RD_OK);
    wait_for(&first.answers, 1);
    (void)appended(ROOM, "2");
    ck_assert_uint_eq(victim.answers, 0);
}
END_TEST

START_TEST(appends_above_the_bound_are_refused_and_the_rest_is_untouched)
{
    enum { BOUND = 5 };
    struct witness_append w[BOUND + 1];
    struct roomlog_publish what = text("1");
    memset(w, 0, sizeof(w));
    close_log();
    open_with(&(struct backend_limits){MAX_ENTRIES, DEDUPE_MS, BOUND, 0, 0});

    for (size_t i = 0; i < BOUND; i++)
        ck_assert_int_eq(witness_append(the_log, &w[i], ROOM, &what), RD_OK);
    ck_assert_int_eq(witness_append(the_log, &w[BOUND], ROOM, &what), RD_EBUSY);
    for (size_t i = 0; i < BOUND; i++) {
        wait_for(&w[i].answers, 1);
        ck_assert_int_eq(w[i].err, RD_OK);
    }
    ck_assert_uint_eq(w[BOUND].answers, 0);
    (void)appended(ROOM, "2"); /* there is room again */
    ck_assert_uint_eq(length_of(ROOM), BOUND + 1);
}
END_TEST

/* --- refs ----------------------------------------------------------------------------------- */

START_TEST(the_same_ref_of_the_same_user_is_appended_once)
{
    struct witness_append first = append(ROOM, with_ref(STR("ann"), STR("r")));
    struct witness_append again = append(ROOM, with_ref(STR("ann"), STR("r")));
    ck_assert_int_eq(again.err, RD_OK);
    ck_assert(!first.duplicate);
    ck_assert(again.duplicate);
    ck_assert(stream_id_eq(first.id, again.id));
    ck_assert_uint_eq(length_of(ROOM), 1);
}
END_TEST

START_TEST(the_same_ref_twice_in_flight_is_appended_once)
{
    struct witness_append first = {.then = NULL}, again = {.then = NULL};
    struct roomlog_publish what = with_ref(STR("ann"), STR("r"));
    ck_assert_int_eq(witness_append(the_log, &first, ROOM, &what), RD_OK);
    ck_assert_int_eq(witness_append(the_log, &again, ROOM, &what), RD_OK);
    wait_for(&first.answers, 1);
    wait_for(&again.answers, 1);
    ck_assert(!first.duplicate);
    ck_assert(again.duplicate);
    ck_assert(stream_id_eq(first.id, again.id));
    ck_assert_uint_eq(length_of(ROOM), 1);
}
END_TEST

START_TEST(a_cancelled_publish_is_still_found_under_its_ref)
{
    struct witness_append cancelled = {.then = NULL};
    struct roomlog_publish what = with_ref(STR("ann"), STR("r"));
    ck_assert_int_eq(witness_append(the_log, &cancelled, ROOM, &what), RD_OK);
    roomlog_cancel_append(the_log, &cancelled.append);
    ck_assert_int_eq(append(ROOM, what).err, RD_OK);
    ck_assert_uint_eq(length_of(ROOM), 1);
}
END_TEST

START_TEST(another_users_same_ref_is_another_publish)
{
    ck_assert(!append(ROOM, with_ref(STR("ann"), STR("r"))).duplicate);
    ck_assert(!append(ROOM, with_ref(STR("bob"), STR("r"))).duplicate);
    ck_assert(!append(ROOM, with_ref((struct str){NULL, 0}, STR("r"))).duplicate);
    ck_assert_uint_eq(length_of(ROOM), 3);
}
END_TEST

START_TEST(user_and_ref_do_not_run_into_each_other)
{
    ck_assert(!append(ROOM, with_ref(STR("a"), STR("b:c"))).duplicate);
    ck_assert(!append(ROOM, with_ref(STR("a:b"), STR("c"))).duplicate);
    ck_assert(!append(ROOM, with_ref(STR("ab"), STR(":c"))).duplicate);
}
END_TEST

START_TEST(another_rooms_same_ref_is_another_publish)
{
    ck_assert(!append(ROOM, with_ref(STR("ann"), STR("r"))).duplicate);
    ck_assert(!append(OTHER, with_ref(STR("ann"), STR("r"))).duplicate);
    ck_assert_uint_eq(length_of(OTHER), 1);
}
END_TEST

START_TEST(without_a_ref_nothing_is_a_duplicate)
{
    ck_assert(!append(ROOM, with_ref(STR("ann"), (struct str){NULL, 0})).duplicate);
    ck_assert(!append(ROOM, with_ref(STR("ann"), (struct str){NULL, 0})).duplicate);
    ck_assert_uint_eq(length_of(ROOM), 2);
}
END_TEST

START_TEST(a_ref_is_forgotten_after_its_window)
{
    close_log();
    open_with(&(struct backend_limits){MAX_ENTRIES, SHORT_DEDUPE_MS, MAX_IN_FLIGHT, 0, 0});
    struct witness_append first = append(ROOM, with_ref(STR("ann"), STR("r")));
    backend->pass(self, SHORT_DEDUPE_MS + 50);
    struct witness_append later = append(ROOM, with_ref(STR("ann"), STR("r")));
    ck_assert(!later.duplicate);
    ck_assert_int_gt(stream_id_cmp(later.id, first.id), 0);
    ck_assert_uint_eq(length_of(ROOM), 2);
}
END_TEST

/* --- read ----------------------------------------------------------------------------------- */

START_TEST(a_room_that_is_not_there_reads_as_empty)
{
    static const struct roomlog_read READS[] = {
        {.from = ROOMLOG_ALL, .want_info = true},
        {.from = ROOMLOG_AFTER, .want_info = true},
        {.from = ROOMLOG_NEWEST, .newest = 5, .want_info = true},
        {.from = ROOMLOG_HEAD, .want_info = true},
    };
    struct witness_read r = {.then = NULL};
    for (size_t i = 0; i < sizeof(READS) / sizeof(READS[0]); i++) {
        read_with(&r, ROOM, READS[i]);
        ck_assert_int_eq(r.verdict, VERDICT_OK);
        ck_assert_uint_eq(r.count, 0);
        ck_assert(r.at_end);
        ck_assert(!r.info.exists);
        ck_assert(stream_id_is_zero(r.info.last));
        ck_assert(verdict_complete(&r.info));
    }
    witness_read_fini(&r);
}
END_TEST

START_TEST(a_read_is_answered_later_and_once)
{
    struct witness_read r = {.read = {.from = ROOMLOG_ALL, .max_entries = 1, .max_bytes = 1}};
    ck_assert_int_eq(witness_read(the_log, &r, ROOM), RD_OK);
    ck_assert_uint_eq(r.answers, 0);
    wait_for(&r.answers, 1);
    (void)length_of(ROOM);
    ck_assert_uint_eq(r.answers, 1);
    witness_read_fini(&r);
}
END_TEST

START_TEST(info_is_what_the_stream_records)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, 5);
    read_all(&r, ROOM);
    ck_assert(r.info.exists);
    ck_assert_uint_eq(r.info.length, 5);
    ck_assert_uint_eq(r.info.added, 5);
    assert_id(r.info.first, 1);
    assert_id(r.info.last, 5);
    assert_id(r.info.max_deleted, 0);
    ck_assert(verdict_complete(&r.info));

    backend->trim(self, ROOM, 4); /* trimming isn't deleting */
    backend->del(self, ROOM, (struct stream_id){3, 0});
    backend->del(self, ROOM, (struct stream_id){5, 0});
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.info.length, 2);
    ck_assert_uint_eq(r.info.added, 5);
    assert_id(r.info.first, 2);
    assert_id(r.info.last, 5);
    assert_id(r.info.max_deleted, 5);
    ck_assert(!verdict_complete(&r.info));

    backend->trim(self, ROOM, 0);
    read_all(&r, ROOM);
    ck_assert(r.info.exists);
    ck_assert_uint_eq(r.info.length, 0);
    assert_id(r.info.first, 0);
    assert_id(r.info.last, 5);
    ck_assert(r.at_end);
    witness_read_fini(&r);
}
END_TEST

/* Pages from the first to the last; returns how many entries there were, and checks their chain. */
static size_t walk(struct str room, size_t max_entries, size_t max_bytes, unsigned *out_pages)
{
    struct witness_read r = {.then = NULL};
    struct roomlog_read read = {
        .from = ROOMLOG_ALL, .max_entries = max_entries, .max_bytes = max_bytes};
    struct stream_id cursor = STREAM_ID_ZERO;
    size_t total = 0;

    for (*out_pages = 0;;) {
        read_with(&r, room, read);
        ++*out_pages;
        ck_assert_int_eq(r.verdict, VERDICT_OK);
        ck_assert_uint_le(r.count, max_entries);
        if (!r.at_end)
            ck_assert_uint_ne(r.count, 0);
        if (r.count != 0) {
            ck_assert(r.entries[0].prev_known);
            ck_assert(stream_id_eq(r.entries[0].prev, cursor));
            cursor = r.entries[r.count - 1].id;
        }
        total += r.count;
        if (r.at_end)
            break;
        read.from = ROOMLOG_AFTER;
        read.after = cursor;
    }
    witness_read_fini(&r);
    return total;
}

START_TEST(pages_lead_from_the_first_entry_to_the_last)
{
    unsigned pages;
    add_many(ROOM, 25);
    ck_assert_uint_eq(walk(ROOM, 10, PAGE_BYTES, &pages), 25);
    ck_assert_uint_eq(pages, 3);
    ck_assert_uint_eq(walk(ROOM, 1, PAGE_BYTES, &pages), 25);
    ck_assert_uint_eq(pages, 25);
}
END_TEST

START_TEST(a_page_that_ends_with_the_log_says_so)
{
    unsigned pages;
    add_many(ROOM, 20);
    ck_assert_uint_eq(walk(ROOM, 10, PAGE_BYTES, &pages), 20);
    ck_assert_uint_eq(pages, 2);
    ck_assert_uint_eq(walk(ROOM, 20, PAGE_BYTES, &pages), 20);
    ck_assert_uint_eq(pages, 1);
}
END_TEST

START_TEST(a_page_with_too_many_bytes_still_leads_on)
{
    unsigned pages;
    char large[300];
    memset(large, 'x', sizeof(large));
    for (uint64_t i = 1; i <= 12; i++)
        add(ROOM, i, (struct roomlog_publish){.type = STR("t"), .data = {large, sizeof(large)}});
    ck_assert_uint_eq(walk(ROOM, 10, 1000, &pages), 12);
    ck_assert_uint_eq(walk(ROOM, 10, 1, &pages), 12); /* none fits, and yet each comes */
}
END_TEST

START_TEST(after_the_last_entry_there_is_an_empty_page_at_the_end)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, 3);
    read_after(&r, ROOM, (struct stream_id){3, 0});
    ck_assert_int_eq(r.verdict, VERDICT_OK);
    ck_assert_uint_eq(r.count, 0);
    ck_assert(r.at_end);
    witness_read_fini(&r);
}
END_TEST

START_TEST(zero_is_a_cursor_where_nothing_was_ever_removed)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, 3);
    read_after(&r, ROOM, STREAM_ID_ZERO);
    ck_assert_int_eq(r.verdict, VERDICT_OK);
    ck_assert_uint_eq(r.count, 3);
    ck_assert(r.entries[0].prev_known);
    ck_assert(stream_id_is_zero(r.entries[0].prev));
    witness_read_fini(&r);
}
END_TEST

START_TEST(what_stood_before_a_trimmed_log_is_not_known)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, 5);
    backend->trim(self, ROOM, 3);
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.count, 3);
    assert_id(r.entries[0].id, 3);
    ck_assert(!r.entries[0].prev_known);
    assert_id(r.entries[1].prev, 3);
    witness_read_fini(&r);
}
END_TEST

START_TEST(a_deleted_entry_is_no_link_of_the_chain)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, 4);
    backend->del(self, ROOM, (struct stream_id){3, 0});
    read_after(&r, ROOM, (struct stream_id){2, 0});
    ck_assert_int_eq(r.verdict, VERDICT_OK);
    ck_assert_uint_eq(r.count, 1);
    assert_id(r.entries[0].id, 4);
    assert_id(r.entries[0].prev, 2);
    witness_read_fini(&r);
}
END_TEST

START_TEST(the_newest_come_in_one_page_oldest_first)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, 9);
    read_with(&r, ROOM,
              (struct roomlog_read){.from = ROOMLOG_NEWEST, .newest = 4, .max_entries = 2});
    ck_assert_int_eq(r.verdict, VERDICT_OK);
    ck_assert_uint_eq(r.count, 4);
    ck_assert(r.at_end);
    assert_id(r.entries[0].id, 6);
    ck_assert(r.entries[0].prev_known);
    assert_id(r.entries[0].prev, 5);
    assert_id(r.entries[3].id, 9);
    witness_read_fini(&r);
}
END_TEST

/* Of twelve entries of 301 bytes: asked for, bound; then how many come. */
static const struct {
    uint32_t newest;
    size_t max_bytes, count;
} NEWEST_BYTES[] = {
    {12, 12 * 301, 12}, {12, 12 * 301 - 1, 11}, {500, 1000, 3},      {2, 1000, 2}, {500, 301, 1},
    {500, 1, 1},        {500, 602, 2},          {500, SIZE_MAX, 12},
};

START_TEST(the_newest_are_as_many_as_fit_into_the_page)
{
    struct witness_read r = {.then = NULL};
    char large[300];
    memset(large, 'x', sizeof(large));
    for (uint64_t i = 1; i <= 12; i++)
        add(ROOM, i, (struct roomlog_publish){.type = STR("t"), .data = {large, sizeof(large)}});
    read_with(&r, ROOM,
              (struct roomlog_read){.from = ROOMLOG_NEWEST,
                                    .newest = NEWEST_BYTES[_i].newest,
                                    .max_bytes = NEWEST_BYTES[_i].max_bytes});
    ck_assert_uint_eq(r.count, NEWEST_BYTES[_i].count);
    ck_assert(r.at_end);
    assert_id(r.entries[0].id, 13 - r.count);
    ck_assert(r.entries[0].prev_known);
    if (r.count == 12)
        ck_assert(stream_id_is_zero(r.entries[0].prev));
    else
        assert_id(r.entries[0].prev, 12 - r.count);
    assert_id(r.entries[r.count - 1].id, 12);
    witness_read_fini(&r);
}
END_TEST

/* However large a backend held them to be before: by the room's first entry, or by nothing. */
START_TEST(small_entries_come_up_to_the_bounds_of_the_newest)
{
    enum { LARGE = 60000, SMALL = 400 };
    struct witness_read r = {.then = NULL};
    struct witness_follower w = {.then = NULL};
    static char large[LARGE];
    memset(large, 'x', sizeof(large));
    add(ROOM, 1, (struct roomlog_publish){.data = {large, sizeof(large)}});
    for (uint64_t i = 2; i <= SMALL + 1; i++)
        add(ROOM, i, text("1"));
    if (_i == 1)
        follow(&w, ROOM);
    read_with(&r, ROOM,
              (struct roomlog_read){.from = ROOMLOG_NEWEST, .newest = 500, .max_bytes = 20000});
    ck_assert_uint_eq(r.count, SMALL);
    assert_id(r.entries[0].prev, 1);
    read_with(&r, ROOM,
              (struct roomlog_read){.from = ROOMLOG_NEWEST, .newest = 300, .max_bytes = 20000});
    ck_assert_uint_eq(r.count, 300);
    assert_id(r.entries[0].prev, SMALL + 1 - 300);
    witness_read_fini(&r);
    if (_i == 1)
        unfollow(&w);
}
END_TEST

/* Entries, kept of them, asked for; then how many come, and is the first's prev known? */
static const struct {
    uint64_t entries, keep;
    uint32_t newest;
    size_t count;
    bool prev_known;
} NEWEST[] = {
    {5, 5, 1, 1, true},   {5, 5, 4, 4, true},  {5, 5, 5, 5, true},  {5, 5, 6, 5, true},
    {5, 5, 500, 5, true}, {5, 3, 2, 2, true},  {5, 3, 3, 3, false}, {5, 3, 4, 3, false},
    {5, 1, 1, 1, false},  {5, 0, 3, 0, false},
};

START_TEST(the_entry_before_the_newest_is_known_while_it_is_there)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, NEWEST[_i].entries);
    backend->trim(self, ROOM, NEWEST[_i].keep);
    read_with(&r, ROOM,
              (struct roomlog_read){
                  .from = ROOMLOG_NEWEST, .newest = NEWEST[_i].newest, .want_info = true});
    ck_assert_uint_eq(r.count, NEWEST[_i].count);
    ck_assert(r.at_end);
    ck_assert_uint_eq(r.info.length, NEWEST[_i].keep);
    assert_id(r.info.last, NEWEST[_i].entries);
    if (r.count != 0) {
        ck_assert(r.entries[0].prev_known == NEWEST[_i].prev_known);
        assert_id(r.entries[r.count - 1].id, 5);
        if (r.entries[0].prev_known)
            assert_id(r.entries[0].prev, 5 - r.count);
    }
    witness_read_fini(&r);
}
END_TEST

START_TEST(the_head_is_the_last_id_ever_generated)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, 5);
    backend->del(self, ROOM, (struct stream_id){5, 0});
    read_with(&r, ROOM, (struct roomlog_read){.from = ROOMLOG_HEAD, .want_info = true});
    ck_assert_uint_eq(r.count, 0);
    assert_id(r.info.last, 5);
    assert_id(r.info.first, 1);
    witness_read_fini(&r);
}
END_TEST

START_TEST(a_log_cut_between_two_pages_is_noticed)
{
    struct witness_read r = {.then = NULL};
    add_many(ROOM, 10);
    read_with(&r, ROOM, (struct roomlog_read){.from = ROOMLOG_ALL, .max_entries = 4});
    assert_id(r.entries[3].id, 4);

    backend->trim(self, ROOM, 7); /* 4-0 is the oldest now: the proof holds */
    read_with(&r, ROOM,
              (struct roomlog_read){.from = ROOMLOG_AFTER, .after = {4, 0}, .max_entries = 2});
    ck_assert_int_eq(r.verdict, VERDICT_OK);
    ck_assert_uint_eq(r.count, 2);
    assert_id(r.entries[0].prev, 4);

    backend->trim(self, ROOM, 3); /* 6-0 is gone, and 7-0 with it */
    read_after(&r, ROOM, (struct stream_id){6, 0});
    ck_assert_int_eq(r.verdict, VERDICT_TRIMMED);
    ck_assert(r.info.exists);
    assert_id(r.info.first, 8);
    assert_id(r.info.last, 10);
    witness_read_fini(&r);
}
END_TEST

/* What happens to a log of 1-0 to 5-0, and what becomes of a cursor into it. */
enum { NOTHING = UINT32_MAX };

static const struct {
    struct stream_id cursor;
    enum verdict verdict;
    size_t count;    /* of entries that come */
    uint32_t trim;   /* NOTHING, or keep */
    uint64_t del[2]; /* 0: nothing */
    size_t lose;
    bool reset;
    uint64_t then_add; /* 0: nothing */
} ROWS[] = {
    /* 0: its own entry is there */
    {{3, 0}, VERDICT_OK, 2, NOTHING, {0, 0}, 0, false, 0},
    {{3, 0}, VERDICT_OK, 2, 3, {0, 0}, 0, false, 0},
    {{1, 0}, VERDICT_OK, 3, NOTHING, {3, 0}, 0, false, 0},
    {{3, 0}, VERDICT_OK, 0, NOTHING, {0, 0}, 2, false, 0},
    /* 1: no such key */
    {{3, 0}, VERDICT_RESET, 0, NOTHING, {0, 0}, 0, true, 0},
    {{0, 0}, VERDICT_OK, 0, NOTHING, {0, 0}, 0, true, 0},
    /* 2: from the beginning */
    {{0, 0}, VERDICT_OK, 5, NOTHING, {0, 0}, 0, false, 0},
    {{0, 0}, VERDICT_TRIMMED, 0, 4, {0, 0}, 0, false, 0},
    {{0, 0}, VERDICT_TRIMMED, 0, 0, {0, 0}, 0, false, 0},
    {{0, 0}, VERDICT_TRIMMED, 0, NOTHING, {3, 0}, 0, false, 0},
    {{0, 0}, VERDICT_OK, 1, NOTHING, {0, 0}, 0, true, 9},
    /* 3: caught up, and its entry is gone */
    {{5, 0}, VERDICT_OK, 0, NOTHING, {0, 0}, 0, false, 0},
    {{5, 0}, VERDICT_OK, 0, 0, {0, 0}, 0, false, 0},
    {{5, 0}, VERDICT_OK, 0, NOTHING, {5, 0}, 0, false, 0},
    /* 4: beyond the log */
    {{5, 1}, VERDICT_AHEAD, 0, NOTHING, {0, 0}, 0, false, 0},
    {{9, 0}, VERDICT_AHEAD, 0, 0, {0, 0}, 0, false, 0},
    {{5, 0}, VERDICT_AHEAD, 0, NOTHING, {0, 0}, 2, false, 0},
    {{5, 0}, VERDICT_AHEAD, 0, NOTHING, {0, 0}, 0, true, 4},
    /* 5: before what is left */
    {{2, 0}, VERDICT_TRIMMED, 0, 2, {0, 0}, 0, false, 0},
    {{3, 0}, VERDICT_TRIMMED, 0, 2, {0, 0}, 0, false, 0},
    {{4, 0}, VERDICT_TRIMMED, 0, 0, {0, 0}, 0, false, 0},
    {{5, 0}, VERDICT_TRIMMED, 0, NOTHING, {0, 0}, 0, true, 9},
    {{0, 5}, VERDICT_TRIMMED, 0, NOTHING, {0, 0}, 0, false, 0},
    /* 6: its entry is the highest that was deleted */
    {{3, 0}, VERDICT_OK, 2, NOTHING, {3, 0}, 0, false, 0},
    {{3, 0}, VERDICT_OK, 2, NOTHING, {2, 3}, 0, false, 0},
    /* 7: below the highest deleted */
    {{2, 0}, VERDICT_HOLE, 0, NOTHING, {2, 4}, 0, false, 0},
    {{2, 5}, VERDICT_HOLE, 0, NOTHING, {4, 0}, 0, false, 0},
    /* 8: never was in this log */
    {{5, 0}, VERDICT_DIVERGED, 0, NOTHING, {0, 0}, 2, false, 9},
    {{4, 0}, VERDICT_DIVERGED, 0, NOTHING, {0, 0}, 2, false, 9},
    {{3, 5}, VERDICT_DIVERGED, 0, NOTHING, {2, 0}, 0, false, 0},
};

START_TEST(a_cursor_is_honoured_only_where_the_log_can_show_that_it_holds_the_rest)
{
    add_many(ROOM, 5);
    if (ROWS[_i].trim != NOTHING)
        backend->trim(self, ROOM, ROWS[_i].trim);
    for (size_t i = 0; i < 2; i++)
        if (ROWS[_i].del[i] != 0)
            backend->del(self, ROOM, (struct stream_id){ROWS[_i].del[i], 0});
    if (ROWS[_i].lose != 0)
        backend->lose_tail(self, ROOM, ROWS[_i].lose);
    if (ROWS[_i].reset)
        backend->reset(self, ROOM);
    if (ROWS[_i].then_add != 0)
        add(ROOM, ROWS[_i].then_add, text("1"));

    struct witness_read r = {.then = NULL};
    read_after(&r, ROOM, ROWS[_i].cursor);
    ck_assert_int_eq(r.verdict, ROWS[_i].verdict);
    ck_assert_uint_eq(r.count, ROWS[_i].count);
    if (r.count != 0)
        ck_assert(stream_id_eq(r.entries[0].prev, ROWS[_i].cursor));
    if (r.verdict == VERDICT_OK)
        ck_assert(r.at_end);
    else
        ck_assert(r.info.exists == (r.verdict != VERDICT_RESET));
    witness_read_fini(&r);
}
END_TEST

START_TEST(an_entry_of_another_program_may_lack_everything)
{
    struct str absent = {NULL, 0};
    struct witness_read r = {.then = NULL};
    add(ROOM, 1, (struct roomlog_publish){.key = STR("k")});
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.count, 1);
    ck_assert(witness_text_is(&r.entries[0].type, absent));
    ck_assert(witness_text_is(&r.entries[0].data, absent));
    ck_assert(witness_text_is(&r.entries[0].key, STR("k")));
    witness_read_fini(&r);
}
END_TEST

START_TEST(an_append_goes_on_above_another_programs_ids)
{
    backend->add(self, ROOM, (struct stream_id){UINT64_C(99999999999999), 7},
                 &(struct roomlog_publish){.data = STR("1")});
    struct stream_id id = appended(ROOM, "2");
    ck_assert_uint_eq(id.ms, UINT64_C(99999999999999));
    ck_assert_uint_eq(id.seq, 8);
}
END_TEST

START_TEST(a_log_without_ids_left_answers_with_an_error_and_stays_as_it_was)
{
    backend->add(self, ROOM, STREAM_ID_MAX, &(struct roomlog_publish){.data = STR("1")});
    ck_assert_int_eq(append(ROOM, text("2")).err, RD_ENOIDS);
    ck_assert_uint_eq(length_of(ROOM), 1);
}
END_TEST

START_TEST(a_cancelled_read_is_never_answered)
{
    struct witness_read r = {.read = {.from = ROOMLOG_ALL, .max_entries = 5, .max_bytes = 500}};
    add_many(ROOM, 3);
    ck_assert_int_eq(witness_read(the_log, &r, ROOM), RD_OK);
    roomlog_cancel_read(the_log, &r.read);
    ck_assert_ptr_null(r.read.impl);
    roomlog_cancel_read(the_log, &r.read); /* harmless */
    ck_assert_uint_eq(length_of(ROOM), 3);
    ck_assert_uint_eq(r.answers, 0);
    witness_read_fini(&r);
}
END_TEST

/* Between the two commands of one read (the page, and why it can't be honoured) there may be a
 * moment too. */
START_TEST(a_read_of_a_lost_cursor_may_be_cancelled)
{
    struct witness_read r = {
        .read = {.from = ROOMLOG_AFTER, .after = {9, 0}, .max_entries = 5, .max_bytes = 500}};
    add_many(ROOM, 3);
    ck_assert_int_eq(witness_read(the_log, &r, ROOM), RD_OK);
    ck_assert_uint_eq(length_of(ROOM), 3);
    roomlog_cancel_read(the_log, &r.read);
    unsigned answers = r.answers;
    ck_assert_uint_eq(length_of(ROOM), 3);
    ck_assert_uint_eq(r.answers, answers);
    witness_read_fini(&r);
}
END_TEST

static struct witness_read other_read;

static void cancel_other_read(struct witness_read *w)
{
    roomlog_cancel_read(the_log, &other_read.read);
}

START_TEST(a_read_may_be_cancelled_from_the_answer_before_it)
{
    struct roomlog_read read = {.from = ROOMLOG_ALL, .max_entries = 5, .max_bytes = 500};
    struct witness_read first = {.read = read, .then = cancel_other_read};
    other_read = (struct witness_read){.read = read};
    add_many(ROOM, 3);
    ck_assert_int_eq(witness_read(the_log, &first, ROOM), RD_OK);
    ck_assert_int_eq(witness_read(the_log, &other_read, ROOM), RD_OK);
    wait_for(&first.answers, 1);
    (void)length_of(ROOM);
    ck_assert_uint_eq(other_read.answers, 0);
    witness_read_fini(&first);
    witness_read_fini(&other_read);
}
END_TEST

static void reset_room(struct witness_read *w)
{
    backend->reset(self, ROOM);
}

START_TEST(a_log_may_vanish_while_its_page_is_read)
{
    struct witness_read r = {.then = reset_room};
    add_many(ROOM, 3);
    read_all(&r, ROOM);
    ck_assert_uint_eq(r.count, 3);
    ck_assert_uint_eq(length_of(ROOM), 0);
    witness_read_fini(&r);
}
END_TEST

START_TEST(reads_above_the_bound_are_refused_and_the_rest_is_untouched)
{
    enum { BOUND = 4 };
    struct witness_read r[BOUND + 1];
    memset(r, 0, sizeof(r));
    close_log();
    open_with(&(struct backend_limits){MAX_ENTRIES, DEDUPE_MS, BOUND, 0, 0});
    add_many(ROOM, 3);

    for (size_t i = 0; i <= BOUND; i++) {
        r[i].read = (struct roomlog_read){
            .from = ROOMLOG_AFTER, .after = {1, 0}, .max_entries = 5, .max_bytes = PAGE_BYTES};
        ck_assert_int_eq(witness_read(the_log, &r[i], ROOM), i < BOUND ? RD_OK : RD_EBUSY);
    }
    for (size_t i = 0; i < BOUND; i++) {
        wait_for(&r[i].answers, 1);
        ck_assert_uint_eq(r[i].count, 2);
        witness_read_fini(&r[i]);
    }
    ck_assert_uint_eq(r[BOUND].answers, 0);
    ck_assert_uint_eq(length_of(ROOM), 3); /* there is room again */
    witness_read_fini(&r[BOUND]);
}
END_TEST

/* --- follow --------------------------------------------------------------------------------- */

START_TEST(a_feed_starts_at_the_head)
{
    struct witness_follower w = {.then = NULL};
    follow(&w, ROOM); /* a room that isn't there */
    ck_assert(stream_id_is_zero(w.place));
    unfollow(&w);

    add_many(ROOM, 3);
    follow(&w, ROOM);
    assert_id(w.place, 3);
    unfollow(&w);

    backend->trim(self, ROOM, 0); /* the head isn't the newest entry */
    follow(&w, ROOM);
    assert_id(w.place, 3);
    ck_assert_uint_eq(w.count, 0);
    unfollow(&w);
}
END_TEST

START_TEST(a_follower_hears_every_entry_in_order_whoever_appends)
{
    struct witness_follower w = {.then = NULL};
    add_many(ROOM, 2);
    follow(&w, ROOM);
    add(ROOM, 3, text("3")); /* the witness checks the chain */
    add(ROOM, 4, text("4"));
    struct stream_id five = appended(ROOM, "5");
    wait_heard(&w, 3);
    struct stream_id six = appended(ROOM, "6");
    wait_heard(&w, 4);

    assert_id(w.entries[0].id, 3);
    assert_id(w.entries[0].prev, 2);
    assert_id(w.entries[1].id, 4);
    ck_assert(stream_id_eq(w.entries[2].id, five));
    ck_assert(witness_text_is(&w.entries[2].data, STR("5")));
    ck_assert(stream_id_eq(w.entries[3].id, six));
    ck_assert_uint_eq(w.broken, 0);
    unfollow(&w);
}
END_TEST

START_TEST(a_follower_hears_the_first_entry_of_a_new_room)
{
    struct witness_follower w = {.then = NULL};
    follow(&w, ROOM);
    add(ROOM, 1, (struct roomlog_publish){.key = STR("k")});
    wait_heard(&w, 1);
    ck_assert(stream_id_is_zero(w.entries[0].prev));
    ck_assert(w.entries[0].prev_known);
    ck_assert(!w.entries[0].data.present);
    unfollow(&w);
}
END_TEST

START_TEST(a_burst_arrives_whole)
{
    enum { BURST = 1000 };
    struct witness_follower w = {.then = NULL};
    follow(&w, ROOM);
    add_many(ROOM, BURST);
    wait_heard(&w, BURST);
    ck_assert_uint_eq(w.count, BURST);
    ck_assert_uint_eq(w.broken, 0);
    for (size_t i = 0; i < BURST; i++)
        assert_id(w.entries[i].id, i + 1);
    unfollow(&w);
}
END_TEST

START_TEST(what_is_appended_while_a_feed_starts_is_heard_or_below_its_head)
{
    enum { COUNT = 20 };
    struct witness_follower w = {.then = NULL};
    struct witness_append a[COUNT];
    struct roomlog_publish what = text("1");
    memset(a, 0, sizeof(a));
    for (size_t i = 0; i < COUNT; i++) {
        if (i == COUNT / 2)
            witness_follow(the_log, &w, ROOM);
        ck_assert_int_eq(witness_append(the_log, &a[i], ROOM, &what), RD_OK);
    }
    for (size_t i = 0; i < COUNT; i++)
        wait_for(&a[i].answers, 1);
    wait_for(&w.started, 1);
    size_t below = 0;
    struct stream_id head = w.count == 0 ? w.place : w.entries[0].prev;
    while (below < COUNT && stream_id_cmp(a[below].id, head) <= 0)
        below++;
    wait_heard(&w, COUNT - below);
    ck_assert_uint_eq(w.count, COUNT - below);
    unfollow(&w);
}
END_TEST

START_TEST(followers_of_many_rooms_hear_their_own)
{
    enum { ROOMS = 200 };
    static struct witness_follower w[ROOMS];
    char name[ROOMS][16];
    struct str rooms[ROOMS];
    for (size_t i = 0; i < ROOMS; i++) {
        rooms[i].p = name[i];
        rooms[i].len = (size_t)snprintf(name[i], sizeof(name[i]), "room-%zu", i);
        witness_follow(the_log, &w[i], rooms[i]);
    }
    for (size_t i = 0; i < ROOMS; i++)
        wait_for(&w[i].started, 1);
    for (uint64_t n = 1; n <= 3; n++)
        for (size_t i = 0; i < ROOMS; i++)
            add(rooms[i], n, (struct roomlog_publish){.data = rooms[i]});
    for (size_t i = 0; i < ROOMS; i++) {
        wait_heard(&w[i], 3);
        ck_assert_uint_eq(w[i].count, 3);
        ck_assert(witness_text_is(&w[i].entries[2].data, rooms[i]));
        unfollow(&w[i]);
    }
}
END_TEST

/* Whatever was on its way when this is called has arrived when it returns: it takes the same way.
 */
static void let_everything_arrive(void)
{
    struct witness_follower w = {.then = NULL};
    follow(&w, OTHER);
    (void)appended(ROOM, "fence");
    (void)appended(OTHER, "fence");
    wait_heard(&w, 1);
    unfollow(&w);
}

START_TEST(after_unfollow_nothing_is_heard)
{
    struct witness_follower w = {.then = NULL};
    follow(&w, ROOM);
    (void)appended(ROOM, "1");
    roomlog_unfollow(the_log, &w.follower);
    ck_assert_ptr_null(w.follower.impl);
    size_t count = w.count;
    roomlog_unfollow(the_log, &w.follower); /* harmless */
    let_everything_arrive();
    ck_assert_uint_eq(w.count, count);
    witness_follower_fini(&w);
}
END_TEST

START_TEST(a_feed_may_be_unfollowed_before_it_starts)
{
    struct witness_follower w = {.then = NULL};
    witness_follow(the_log, &w, ROOM);
    roomlog_unfollow(the_log, &w.follower);
    let_everything_arrive();
    ck_assert_uint_eq(w.started, 0);
    witness_follower_fini(&w);
}
END_TEST

START_TEST(a_room_can_be_followed_again)
{
    struct witness_follower w = {.then = NULL};
    for (uint64_t round = 1; round <= 3; round++) {
        follow(&w, ROOM);
        struct stream_id id = appended(ROOM, "1");
        wait_heard(&w, 1);
        ck_assert(stream_id_eq(w.entries[0].id, id));
        roomlog_unfollow(the_log, &w.follower);
        (void)appended(ROOM, "nobody hears this");
    }
    witness_follower_fini(&w);
    /* And at once, with the start of the first feed still to come. */
    witness_follow(the_log, &w, ROOM);
    roomlog_unfollow(the_log, &w.follower);
    follow(&w, ROOM);
    (void)appended(ROOM, "2");
    wait_heard(&w, 1);
    ck_assert_uint_eq(w.count, 1);
    unfollow(&w);
}
END_TEST

static void leave(struct witness_follower *w)
{
    roomlog_unfollow(the_log, &w->follower);
}

static void leave_when_heard(struct witness_follower *w)
{
    if (w->count != 0 || w->broken != 0)
        roomlog_unfollow(the_log, &w->follower);
}

START_TEST(a_follower_may_leave_from_inside_its_start)
{
    struct witness_follower w = {.then = leave};
    witness_follow(the_log, &w, ROOM);
    wait_for(&w.started, 1);
    let_everything_arrive();
    ck_assert_uint_eq(w.count, 0);
    witness_follower_fini(&w);
}
END_TEST

START_TEST(a_follower_may_leave_from_inside_its_entries)
{
    struct witness_follower w = {.then = leave_when_heard};
    follow(&w, ROOM);
    add_many(ROOM, 600); /* more than any one batch */
    wait_for(&w.batches, 1);
    size_t count = w.count;
    let_everything_arrive();
    ck_assert_uint_eq(w.count, count);
    ck_assert_uint_eq(w.batches, 1);
    witness_follower_fini(&w);
}
END_TEST

START_TEST(a_follower_may_leave_from_inside_its_break)
{
    struct witness_follower w = {.then = leave_when_heard};
    add_many(ROOM, 3);
    follow(&w, ROOM);
    backend->reset(self, ROOM);
    wait_for(&w.broken, 1);
    let_everything_arrive();
    ck_assert_uint_eq(w.count, 0);
    witness_follower_fini(&w);
}
END_TEST

static struct witness_append echo;

static void append_echo(struct witness_follower *w)
{
    struct roomlog_publish what = text("echo");
    if (w->count == 1)
        ck_assert_int_eq(witness_append(the_log, &echo, ROOM, &what), RD_OK);
}

START_TEST(a_follower_may_append_from_inside_its_entries)
{
    struct witness_follower w = {.then = append_echo};
    follow(&w, ROOM);
    (void)appended(ROOM, "1");
    wait_heard(&w, 2);
    wait_for(&echo.answers, 1);
    ck_assert(witness_text_is(&w.entries[1].data, STR("echo")));
    unfollow(&w);
}
END_TEST

/* What happens, all at once, to a log of 1-0 to 5-0 whose follower stands at 5-0. */
static const struct {
    enum verdict why; /* OK: nothing is broken */
    uint64_t head;    /* after the break */
    size_t heard;     /* before any break */
    bool reset;
    size_t lose;
    uint64_t add_first, add_last; /* 0: nothing */
    uint32_t trim;                /* NOTHING, or keep */
    uint64_t del[2];
} FEED_ROWS[] = {
    {VERDICT_OK, 0, 4, false, 0, 6, 9, NOTHING, {0, 0}},
    {VERDICT_OK, 0, 4, false, 0, 6, 9, 5, {0, 0}}, /* its own place is the oldest that is left */
    {VERDICT_TRIMMED, 9, 0, false, 0, 6, 9, 4, {0, 0}},
    {VERDICT_TRIMMED, 9, 0, false, 0, 6, 9, 1, {0, 0}},
    {VERDICT_RESET, 0, 0, true, 0, 0, 0, NOTHING, {0, 0}},
    {VERDICT_AHEAD, 2, 0, true, 0, 1, 2, NOTHING, {0, 0}}, /* began anew, with smaller ids */
    {VERDICT_TRIMMED, 9, 0, true, 0, 8, 9, NOTHING, {0, 0}},
    {VERDICT_AHEAD, 3, 0, false, 2, 0, 0, NOTHING, {0, 0}},
    {VERDICT_DIVERGED, 7, 0, false, 2, 6, 7, NOTHING, {0, 0}},
    {VERDICT_OK, 0, 3, false, 0, 6, 9, NOTHING, {7, 0}},
    {VERDICT_OK, 0, 4, false, 0, 6, 9, NOTHING, {5, 0}},
    {VERDICT_HOLE, 9, 0, false, 0, 6, 9, NOTHING, {5, 7}},
};

START_TEST(a_feed_that_loses_its_place_says_why_and_goes_on_from_the_head)
{
    struct witness_follower w = {.then = NULL};
    add_many(ROOM, 5);
    follow(&w, ROOM);

    if (FEED_ROWS[_i].reset)
        backend->reset(self, ROOM);
    if (FEED_ROWS[_i].lose != 0)
        backend->lose_tail(self, ROOM, FEED_ROWS[_i].lose);
    for (uint64_t id = FEED_ROWS[_i].add_first; id != 0 && id <= FEED_ROWS[_i].add_last; id++)
        add(ROOM, id, text("1"));
    if (FEED_ROWS[_i].trim != NOTHING)
        backend->trim(self, ROOM, FEED_ROWS[_i].trim);
    for (size_t i = 0; i < 2; i++)
        if (FEED_ROWS[_i].del[i] != 0)
            backend->del(self, ROOM, (struct stream_id){FEED_ROWS[_i].del[i], 0});

    if (FEED_ROWS[_i].why == VERDICT_OK) {
        wait_heard(&w, FEED_ROWS[_i].heard);
    } else {
        wait_for(&w.broken, 1);
        ck_assert_int_eq(w.why, FEED_ROWS[_i].why);
        assert_id(w.place, FEED_ROWS[_i].head);
    }
    ck_assert_uint_eq(w.count, FEED_ROWS[_i].heard);

    add(ROOM, 20, text("2")); /* the witness holds it against the place */
    wait_heard(&w, FEED_ROWS[_i].heard + 1);
    ck_assert_uint_eq(w.broken, FEED_ROWS[_i].why == VERDICT_OK ? 0 : 1);
    assert_id(w.place, 20);
    unfollow(&w);
}
END_TEST

START_TEST(a_feed_whose_place_was_cut_away_breaks_rather_than_guess)
{
    struct witness_follower w = {.then = NULL};
    add_many(ROOM, 5);
    follow(&w, ROOM);
    backend->trim(self, ROOM, 0);
    /* Nothing shows any more that 5-0 was the last before this one. */
    add(ROOM, 6, text("1"));
    wait_for(&w.broken, 1);
    ck_assert_int_eq(w.why, VERDICT_TRIMMED);
    assert_id(w.place, 6);
    ck_assert_uint_eq(w.count, 0);
    unfollow(&w);
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

static void on_redis_cluster(void)
{
    backend = &backend_redis_cluster;
    open_log();
}

static void on_redis_cluster_keyspace(void)
{
    backend = &backend_redis_cluster_keyspace;
    open_log();
}

static void on_redis_cluster_pubsub(void)
{
    backend = &backend_redis_cluster_pubsub;
    open_log();
}

static void on_redis_keyspace(void)
{
    backend = &backend_redis_keyspace;
    open_log();
}

static void on_redis_poll(void)
{
    backend = &backend_redis_poll;
    open_log();
}

static void on_redis_xread(void)
{
    backend = &backend_redis_xread;
    open_log();
}

static void on_redis_pubsub(void)
{
    backend = &backend_redis_pubsub;
    open_log();
}

static void add_tests(TCase *tc)
{
    tcase_add_test(tc, an_append_is_answered_later_and_once);
    tcase_add_test(tc, ids_of_a_room_grow_in_the_order_of_the_appends);
    tcase_add_test(tc, an_acknowledged_entry_is_read_under_its_id_with_all_its_texts);
    tcase_add_test(tc, absent_texts_stay_absent);
    tcase_add_test(tc, any_bytes_come_back_as_they_were);
    tcase_add_test(tc, a_large_entry_comes_back_whole);
    tcase_add_test(tc, rooms_do_not_mix);
    tcase_add_test(tc, a_room_keeps_its_newest_max_entries);
    tcase_add_test(tc, a_request_may_be_used_again_from_its_own_answer);
    tcase_add_test(tc, a_cancelled_append_is_never_answered);
    tcase_add_test(tc, an_append_may_be_cancelled_from_the_answer_before_it);
    tcase_add_test(tc, appends_above_the_bound_are_refused_and_the_rest_is_untouched);
    tcase_add_test(tc, the_same_ref_of_the_same_user_is_appended_once);
    tcase_add_test(tc, the_same_ref_twice_in_flight_is_appended_once);
    tcase_add_test(tc, a_cancelled_publish_is_still_found_under_its_ref);
    tcase_add_test(tc, another_users_same_ref_is_another_publish);
    tcase_add_test(tc, user_and_ref_do_not_run_into_each_other);
    tcase_add_test(tc, another_rooms_same_ref_is_another_publish);
    tcase_add_test(tc, without_a_ref_nothing_is_a_duplicate);
    tcase_add_test(tc, a_ref_is_forgotten_after_its_window);

    tcase_add_test(tc, a_room_that_is_not_there_reads_as_empty);
    tcase_add_test(tc, a_read_is_answered_later_and_once);
    tcase_add_test(tc, info_is_what_the_stream_records);
    tcase_add_test(tc, pages_lead_from_the_first_entry_to_the_last);
    tcase_add_test(tc, a_page_that_ends_with_the_log_says_so);
    tcase_add_test(tc, a_page_with_too_many_bytes_still_leads_on);
    tcase_add_test(tc, after_the_last_entry_there_is_an_empty_page_at_the_end);
    tcase_add_test(tc, zero_is_a_cursor_where_nothing_was_ever_removed);
    tcase_add_test(tc, what_stood_before_a_trimmed_log_is_not_known);
    tcase_add_test(tc, a_deleted_entry_is_no_link_of_the_chain);
    tcase_add_test(tc, the_newest_come_in_one_page_oldest_first);
    tcase_add_loop_test(tc, the_newest_are_as_many_as_fit_into_the_page, 0,
                        sizeof(NEWEST_BYTES) / sizeof(NEWEST_BYTES[0]));
    tcase_add_loop_test(tc, small_entries_come_up_to_the_bounds_of_the_newest, 0, 2);
    tcase_add_loop_test(tc, the_entry_before_the_newest_is_known_while_it_is_there, 0,
                        sizeof(NEWEST) / sizeof(NEWEST[0]));
    tcase_add_test(tc, the_head_is_the_last_id_ever_generated);
    tcase_add_test(tc, a_log_cut_between_two_pages_is_noticed);
    tcase_add_loop_test(tc, a_cursor_is_honoured_only_where_the_log_can_show_that_it_holds_the_rest,
                        0, sizeof(ROWS) / sizeof(ROWS[0]));
    tcase_add_test(tc, an_entry_of_another_program_may_lack_everything);
    tcase_add_test(tc, an_append_goes_on_above_another_programs_ids);
    tcase_add_test(tc, a_log_without_ids_left_answers_with_an_error_and_stays_as_it_was);
    tcase_add_test(tc, a_cancelled_read_is_never_answered);
    tcase_add_test(tc, a_read_of_a_lost_cursor_may_be_cancelled);
    tcase_add_test(tc, a_read_may_be_cancelled_from_the_answer_before_it);
    tcase_add_test(tc, a_log_may_vanish_while_its_page_is_read);
    tcase_add_test(tc, reads_above_the_bound_are_refused_and_the_rest_is_untouched);
}

static void add_feed_tests(TCase *tc)
{
    tcase_add_test(tc, a_feed_starts_at_the_head);
    tcase_add_test(tc, a_follower_hears_every_entry_in_order_whoever_appends);
    tcase_add_test(tc, a_follower_hears_the_first_entry_of_a_new_room);
    tcase_add_test(tc, a_burst_arrives_whole);
    tcase_add_test(tc, what_is_appended_while_a_feed_starts_is_heard_or_below_its_head);
    tcase_add_test(tc, followers_of_many_rooms_hear_their_own);
    tcase_add_test(tc, after_unfollow_nothing_is_heard);
    tcase_add_test(tc, a_feed_may_be_unfollowed_before_it_starts);
    tcase_add_test(tc, a_room_can_be_followed_again);
    tcase_add_test(tc, a_follower_may_leave_from_inside_its_start);
    tcase_add_test(tc, a_follower_may_leave_from_inside_its_entries);
    tcase_add_test(tc, a_follower_may_leave_from_inside_its_break);
    tcase_add_test(tc, a_follower_may_append_from_inside_its_entries);
    tcase_add_loop_test(tc, a_feed_that_loses_its_place_says_why_and_goes_on_from_the_head, 0,
                        sizeof(FEED_ROWS) / sizeof(FEED_ROWS[0]));
    tcase_add_test(tc, a_feed_whose_place_was_cut_away_breaks_rather_than_guess);
}

enum tests { ALL, FEED };

static void add_backend(Suite *suite, const struct backend *b, SFun open, enum tests tests)
{
    TCase *tc = tcase_create(b->name);
    if (b->start != NULL)
        tcase_add_unchecked_fixture(tc, b->start, b->stop);
    tcase_add_checked_fixture(tc, open, close_log);
    tcase_set_timeout(tc, 15);
    if (tests == ALL)
        add_tests(tc);
    add_feed_tests(tc);
    suite_add_tcase(suite, tc);
}

static Suite *suite_make(void)
{
    Suite *suite = suite_create("roomlog");
    add_backend(suite, &backend_mem, on_mem, ALL);
    add_backend(suite, &backend_faulty, on_faulty, ALL);
    add_backend(suite, &backend_redis, on_redis, ALL);
    add_backend(suite, &backend_redis_cluster, on_redis_cluster, ALL);
    add_backend(suite, &backend_redis_cluster_keyspace, on_redis_cluster_keyspace, FEED);
    add_backend(suite, &backend_redis_cluster_pubsub, on_redis_cluster_pubsub, FEED);
    add_backend(suite, &backend_redis_keyspace, on_redis_keyspace, FEED);
    add_backend(suite, &backend_redis_poll, on_redis_poll, FEED);
    add_backend(suite, &backend_redis_xread, on_redis_xread, FEED);
    add_backend(suite, &backend_redis_pubsub, on_redis_pubsub, ALL);
    return suite;
}
