#include "base/buf.h"

#include "tests/lib/suite.h"

enum { MAX = 1000 };

static struct buf buf;

static void make(void)
{
    buf_init(&buf, MAX);
}

static void unmake(void)
{
    buf_fini(&buf);
}

static void fill(size_t len)
{
    char bytes[MAX + 1];
    memset(bytes, 'x', sizeof(bytes));
    ck_assert_int_eq(buf_append(&buf, bytes, len), RD_OK);
}

START_TEST(a_new_buffer_has_allocated_nothing)
{
    ck_assert_ptr_null(buf.p);
    ck_assert_uint_eq(buf_str(&buf).len, 0);
}
END_TEST

START_TEST(appended_bytes_stand_one_behind_the_other)
{
    ck_assert_int_eq(buf_append(&buf, "ab", 2), RD_OK);
    ck_assert_int_eq(buf_append(&buf, NULL, 0), RD_OK);
    ck_assert_int_eq(buf_append(&buf, "\0c", 2), RD_OK);
    ck_assert(str_eq(buf_str(&buf), STR("ab\0c")));
    fill(600); /* it moves, and keeps what it held */
    ck_assert_mem_eq(buf.p, "ab\0cxxx", 7);
    ck_assert_uint_eq(buf.len, 604);
}
END_TEST

START_TEST(max_is_still_fine_and_one_more_is_not_taken_at_all)
{
    fill(MAX - 1);
    ck_assert_int_eq(buf_append(&buf, "ab", 2), RD_ETOOBIG);
    ck_assert_uint_eq(buf.len, MAX - 1);
    ck_assert_int_eq(buf_append(&buf, "a", 1), RD_OK);
    ck_assert_int_eq(buf_append(&buf, "b", 1), RD_ETOOBIG);
    ck_assert_int_eq(buf_append(&buf, NULL, 0), RD_OK);
    ck_assert_uint_eq(buf.len, MAX);
    ck_assert_uint_le(buf.capacity, MAX);
}
END_TEST

START_TEST(a_length_that_would_wrap_is_refused)
{
    fill(10);
    ck_assert_int_eq(buf_append(&buf, "a", SIZE_MAX), RD_ETOOBIG);
    ck_assert_int_eq(buf_append(&buf, "a", SIZE_MAX - 9), RD_ETOOBIG);
    ck_assert_ptr_null(buf_reserve(&buf, SIZE_MAX));
    ck_assert_uint_eq(buf.len, 10);
}
END_TEST

START_TEST(reserved_room_can_be_written_and_does_not_count)
{
    fill(10);
    char *room = buf_reserve(&buf, MAX - 10);
    ck_assert_ptr_nonnull(room);
    memset(room, 'y', MAX - 10); /* the sanitizer watches */
    ck_assert_uint_eq(buf.len, 10);
    ck_assert_ptr_eq(room, buf.p + 10);
    ck_assert_ptr_null(buf_reserve(&buf, MAX - 9));
    ck_assert_ptr_nonnull(buf_reserve(&buf, 0));
}
END_TEST

START_TEST(clear_empties_and_gives_back_what_is_above_keep)
{
    fill(900);
    buf_clear(&buf, MAX);
    ck_assert_uint_eq(buf.len, 0);
    ck_assert_ptr_nonnull(buf.p);
    fill(900);
    buf_clear(&buf, 100);
    ck_assert_ptr_null(buf.p);
    ck_assert_uint_eq(buf.capacity, 0);
    fill(5); /* and it can be used again */
    ck_assert_uint_eq(buf.len, 5);
}
END_TEST

START_TEST(a_small_ceiling_is_never_passed_by_the_first_allocation)
{
    struct buf small;
    buf_init(&small, 3);
    ck_assert_int_eq(buf_append(&small, "abc", 3), RD_OK);
    ck_assert_uint_eq(small.capacity, 3);
    ck_assert_int_eq(buf_append(&small, "d", 1), RD_ETOOBIG);
    buf_fini(&small);
    buf_fini(&small); /* harmless */
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("buf");
    TCase *tc = tcase_create("buf");
    tcase_add_checked_fixture(tc, make, unmake);
    tcase_add_test(tc, a_new_buffer_has_allocated_nothing);
    tcase_add_test(tc, appended_bytes_stand_one_behind_the_other);
    tcase_add_test(tc, max_is_still_fine_and_one_more_is_not_taken_at_all);
    tcase_add_test(tc, a_length_that_would_wrap_is_refused);
    tcase_add_test(tc, reserved_room_can_be_written_and_does_not_count);
    tcase_add_test(tc, clear_empties_and_gives_back_what_is_above_keep);
    tcase_add_test(tc, a_small_ceiling_is_never_passed_by_the_first_allocation);
    suite_add_tcase(suite, tc);
    return suite;
}
