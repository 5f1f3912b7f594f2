#include "room/snapshot.h"

#include "tests/lib/suite.h"

#include <stdio.h>
#include <stdlib.h>

enum { ITEMS = 8 };

static struct packet_account account;
static struct roomlog_entry items[ITEMS];
static char keys[ITEMS][8];
static struct snapshot *snapshot;

/* Items 1-1 and on, with keys k1 and on, of data. */
static struct roomlog_state_view view_of(size_t count, struct stream_id position, struct str data)
{
    ck_assert_uint_le(count, ITEMS);
    for (size_t i = 0; i < count; i++) {
        int len = snprintf(keys[i], sizeof(keys[i]), "k%zu", i + 1);
        items[i] = (struct roomlog_entry){
            .id = {1, i + 1}, .type = STR("t"), .data = data, .key = {keys[i], (size_t)len}};
    }
    return (struct roomlog_state_view){position, items, count};
}

static void create(size_t count, unsigned position, struct str data, size_t frame_bytes)
{
    const struct stream_id id = {position == 0 ? 0 : 1, position};
    struct roomlog_state_view view = view_of(count, id, data);
    snapshot = snapshot_create(&view, STR("red"), frame_bytes);
}

static void seal(void)
{
    snapshot_seal(snapshot, &account, STR("red"));
}

static struct str text_of(size_t i)
{
    const struct packet *p = snapshot->packets[i];
    size_t header = packet_len(p) < 128 ? 2 : packet_len(p) < 65536 ? 4 : 10;
    return (struct str){p->bytes + header, packet_len(p) - header};
}

static void ck_frame(size_t i, const char *want)
{
    struct str text = text_of(i);
    ck_assert_msg(str_eq(text, str_from(want)), "%.*s", (int)text.len, text.p);
}

static void take_down(void)
{
    snapshot_destroy(snapshot);
    snapshot = NULL;
    ck_assert_uint_eq(account.count, 0);
}

START_TEST(a_state_is_one_frame_where_it_fits)
{
    create(2, 5, STR("1"), 65536);
    ck_assert(snapshot->stands);
    seal();
    ck_assert_uint_eq(snapshot->count, 1);
    ck_frame(0, "{\"op\":\"snapshot\",\"room\":\"red\",\"id\":\"1-5\",\"entries\":["
                "{\"id\":\"1-1\",\"type\":\"t\",\"key\":\"k1\",\"data\":1},"
                "{\"id\":\"1-2\",\"type\":\"t\",\"key\":\"k2\",\"data\":1}]}");
}
END_TEST

START_TEST(a_state_that_all_keys_were_taken_out_of_is_an_empty_frame)
{
    create(0, 5, STR("1"), 65536);
    seal();
    ck_assert_uint_eq(snapshot->count, 1);
    ck_frame(0, "{\"op\":\"snapshot\",\"room\":\"red\",\"id\":\"1-5\",\"entries\":[]}");
}
END_TEST

START_TEST(where_there_never_was_a_state_it_stands_nowhere)
{
    create(0, 0, STR("1"), 65536);
    ck_assert(!snapshot->stands);
    seal();
    ck_frame(0, "{\"op\":\"snapshot\",\"room\":\"red\",\"id\":null,\"entries\":[]}");
}
END_TEST

START_TEST(one_that_fell_keeps_its_entries_and_loses_its_place)
{
    create(1, 5, STR("1"), 65536);
    snapshot_fall(snapshot);
    seal();
    ck_frame(0, "{\"op\":\"snapshot\",\"room\":\"red\",\"id\":null,\"entries\":["
                "{\"id\":\"1-1\",\"type\":\"t\",\"key\":\"k1\",\"data\":1}]}");
}
END_TEST

/* _i: how many items fit a frame. */
START_TEST(frames_are_as_long_as_they_may_be_and_no_longer)
{
    create(ITEMS, 5, STR("1"), 65536);
    seal();
    /* With the widest id in place of 1-5, and "more". */
    size_t all = text_of(0).len + 2 * 20 + 1 - 3 + strlen(",\"more\":true");
    size_t one = strlen("{\"id\":\"1-1\",\"type\":\"t\",\"key\":\"k1\",\"data\":1},");
    size_t limit = all - (ITEMS - (size_t)_i) * one;
    snapshot_destroy(snapshot);

    for (size_t over = 0; over < 2; over++) { /* one byte less: one item less */
        create(ITEMS, 5, STR("1"), limit - over);
        seal();
        size_t each = (size_t)_i - over;
        size_t want = each == 0 ? ITEMS : (ITEMS + each - 1) / each;
        ck_assert_uint_eq(snapshot->count, want);
        for (size_t i = 0; i < snapshot->count; i++)
            if (each != 0)
                ck_assert_uint_le(text_of(i).len, limit - over);
        snapshot_destroy(snapshot);
    }
    snapshot = NULL;
}
END_TEST

START_TEST(all_frames_but_the_last_say_that_more_follows)
{
    create(2, 5, STR("1"), 1);
    seal();
    ck_assert_uint_eq(snapshot->count, 2);
    ck_frame(0, "{\"op\":\"snapshot\",\"room\":\"red\",\"id\":\"1-5\",\"entries\":["
                "{\"id\":\"1-1\",\"type\":\"t\",\"key\":\"k1\",\"data\":1}],\"more\":true}");
    ck_frame(1, "{\"op\":\"snapshot\",\"room\":\"red\",\"id\":\"1-5\",\"entries\":["
                "{\"id\":\"1-2\",\"type\":\"t\",\"key\":\"k2\",\"data\":1}]}");
}
END_TEST

START_TEST(an_entry_that_is_longer_than_a_frame_is_alone_in_its_own)
{
    enum { LEN = 100000 };
    char *data = malloc(LEN);
    ck_assert_ptr_nonnull(data);
    memset(data, '7', LEN);
    struct roomlog_state_view view = view_of(3, (struct stream_id){1, 5}, STR("1"));
    items[1].data = (struct str){data, LEN};
    snapshot = snapshot_create(&view, STR("red"), 65536);
    seal();
    ck_assert_uint_eq(snapshot->count, 3);
    ck_assert_uint_gt(text_of(1).len, LEN);
    ck_assert_uint_lt(text_of(0).len + text_of(2).len, 400);
    free(data);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("snapshot");
    TCase *tc = tcase_create("snapshot");
    tcase_add_checked_fixture(tc, NULL, take_down);
    tcase_add_test(tc, a_state_is_one_frame_where_it_fits);
    tcase_add_test(tc, a_state_that_all_keys_were_taken_out_of_is_an_empty_frame);
    tcase_add_test(tc, where_there_never_was_a_state_it_stands_nowhere);
    tcase_add_test(tc, one_that_fell_keeps_its_entries_and_loses_its_place);
    tcase_add_loop_test(tc, frames_are_as_long_as_they_may_be_and_no_longer, 1, ITEMS);
    tcase_add_test(tc, all_frames_but_the_last_say_that_more_follows);
    tcase_add_test(tc, an_entry_that_is_longer_than_a_frame_is_alone_in_its_own);
    suite_add_tcase(suite, tc);
    return suite;
}
