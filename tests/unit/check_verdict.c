#include "roomlog/verdict.h"

#include "tests/lib/suite.h"

/* 3-5 to 9-9 are retained of 20 entries, 7-7 is the highest that was deleted singly. */
static const struct verdict_info CUT = {.exists = true,
                                        .length = 6,
                                        .added = 20,
                                        .first = {3, 5},
                                        .last = {9, 9},
                                        .max_deleted = {7, 7}};
/* The same, and nothing was deleted singly. */
static const struct verdict_info ONLY_TRIMMED = {
    .exists = true, .length = 6, .added = 20, .first = {3, 5}, .last = {9, 9}};
static const struct verdict_info WHOLE = {
    .exists = true, .length = 6, .added = 6, .first = {3, 5}, .last = {9, 9}};
/* All entries are gone, the key is there. */
static const struct verdict_info EMPTIED = {.exists = true, .added = 20, .last = {9, 9}};
static const struct verdict_info ALL_DELETED = {
    .exists = true, .added = 20, .last = {9, 9}, .max_deleted = {9, 9}};
static const struct verdict_info MISSING = {.exists = false};

static const struct {
    struct stream_id cursor;
    struct stream_id first_read; /* 0-0: the read was empty */
    const struct verdict_info *info;
    enum verdict want;
} ROWS[] = {
    /* Row 0: the cursor's own entry heads the read, whatever else is recorded. */
    {{3, 5}, {3, 5}, &CUT, VERDICT_OK},
    {{5, 0}, {5, 0}, &CUT, VERDICT_OK},
    {{9, 9}, {9, 9}, &CUT, VERDICT_OK},
    {{9, 9}, {9, 9}, &MISSING, VERDICT_OK},
    /* Row 1: no such key. */
    {{0, 0}, {0, 0}, &MISSING, VERDICT_OK},
    {{0, 1}, {0, 0}, &MISSING, VERDICT_RESET},
    {{5, 0}, {0, 0}, &MISSING, VERDICT_RESET},
    {{UINT64_MAX, UINT64_MAX}, {0, 0}, &MISSING, VERDICT_RESET},
    /* Row 2: from the beginning. */
    {{0, 0}, {3, 5}, &WHOLE, VERDICT_OK},
    {{0, 0}, {3, 5}, &CUT, VERDICT_TRIMMED},
    {{0, 0}, {3, 5}, &ONLY_TRIMMED, VERDICT_TRIMMED},
    {{0, 0}, {0, 0}, &EMPTIED, VERDICT_TRIMMED},
    /* Row 3: the last id ever generated, its entry gone. */
    {{9, 9}, {0, 0}, &EMPTIED, VERDICT_OK},
    {{9, 9}, {0, 0}, &ALL_DELETED, VERDICT_OK},
    {{9, 9}, {0, 0}, &CUT, VERDICT_OK},
    /* Row 4: beyond it, by as little as there is. */
    {{9, 10}, {0, 0}, &CUT, VERDICT_AHEAD},
    {{10, 0}, {0, 0}, &CUT, VERDICT_AHEAD},
    {{9, 10}, {0, 0}, &EMPTIED, VERDICT_AHEAD},
    {{UINT64_MAX, UINT64_MAX}, {0, 0}, &WHOLE, VERDICT_AHEAD},
    /* Row 5: nothing is retained, or it begins later. */
    {{9, 8}, {0, 0}, &EMPTIED, VERDICT_TRIMMED},
    {{9, 8}, {0, 0}, &ALL_DELETED, VERDICT_TRIMMED},
    {{3, 4}, {3, 5}, &CUT, VERDICT_TRIMMED},
    {{2, 99}, {3, 5}, &CUT, VERDICT_TRIMMED},
    {{0, 1}, {3, 5}, &WHOLE, VERDICT_TRIMMED},
    /* Row 6: the highest that was deleted. */
    {{7, 7}, {8, 0}, &CUT, VERDICT_OK},
    /* Row 7: below it, undecidable. */
    {{7, 6}, {8, 0}, &CUT, VERDICT_HOLE},
    {{3, 6}, {4, 0}, &CUT, VERDICT_HOLE},
    /* Row 8: above it, so it was never here. */
    {{7, 8}, {8, 0}, &CUT, VERDICT_DIVERGED},
    {{9, 8}, {9, 9}, &CUT, VERDICT_DIVERGED},
    {{3, 6}, {4, 0}, &ONLY_TRIMMED, VERDICT_DIVERGED},
    {{3, 6}, {4, 0}, &WHOLE, VERDICT_DIVERGED},
    /* Compared as two numbers, never as text: 10-0 is above 9-9, 9-10 above 9-9. */
    {{10, 0}, {0, 0}, &WHOLE, VERDICT_AHEAD},
    {{3, 40}, {4, 0}, &ONLY_TRIMMED, VERDICT_DIVERGED},
};

START_TEST(each_row_of_the_table_gives_its_verdict)
{
    const struct stream_id *first_read =
        stream_id_is_zero(ROWS[_i].first_read) ? NULL : &ROWS[_i].first_read;
    ck_assert_int_eq(verdict_of(ROWS[_i].cursor, first_read, ROWS[_i].info), ROWS[_i].want);
}
END_TEST

START_TEST(a_log_is_complete_where_nothing_was_ever_removed)
{
    ck_assert(verdict_complete(&WHOLE));
    ck_assert(verdict_complete(&MISSING));
    ck_assert(!verdict_complete(&CUT));
    ck_assert(!verdict_complete(&EMPTIED));
}
END_TEST

/* Every small log, every cursor: an honoured cursor means that all entries that ever came after it,
 * and weren't deleted, are there. Ids are 1-0 to n-0; bit k of a mask is entry k + 1. */
START_TEST(no_cursor_is_honoured_behind_a_gap)
{
    enum { N = 6 };
    for (unsigned trimmed = 0; trimmed <= N; trimmed++) {
        for (unsigned deleted = 0; deleted < 1u << N; deleted++) {
            struct verdict_info info = {.exists = true, .added = N, .last = {N, 0}};
            unsigned left = 0;
            for (unsigned k = 0; k < N; k++) {
                if (deleted >> k & 1u) /* deleted first, then trimmed */
                    info.max_deleted = (struct stream_id){k + 1, 0};
                else if (k >= trimmed)
                    left |= 1u << k;
            }
            for (unsigned k = N; k-- > 0;) {
                if (!(left >> k & 1u))
                    continue;
                info.length++;
                info.first = (struct stream_id){k + 1, 0};
            }
            for (unsigned c = 0; c <= N; c++) {
                struct stream_id cursor = {c, 0}, read = {0, 0};
                for (unsigned k = N; k-- > 0;)
                    if ((left >> k & 1u) && k + 1 >= c)
                        read = (struct stream_id){k + 1, 0};
                enum verdict v = verdict_of(cursor, stream_id_is_zero(read) ? NULL : &read, &info);
                unsigned after = ((1u << N) - 1) & ~((1u << c) - 1);
                bool whole = (left & after) == after;
                if (v == VERDICT_OK && c != 0 && (left >> (c - 1) & 1u))
                    whole =
                        true; /* with its own entry there, only single deletions can be missing */
                ck_assert_msg(v != VERDICT_OK || whole, "trimmed %u, deleted %x, cursor %u",
                              trimmed, deleted, c);
                if (deleted == 0 && whole && c > trimmed)
                    ck_assert_int_eq(v, VERDICT_OK);
            }
        }
    }
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("verdict");
    TCase *tc = tcase_create("verdict");
    tcase_add_loop_test(tc, each_row_of_the_table_gives_its_verdict, 0,
                        sizeof(ROWS) / sizeof(ROWS[0]));
    tcase_add_test(tc, a_log_is_complete_where_nothing_was_ever_removed);
    tcase_add_test(tc, no_cursor_is_honoured_behind_a_gap);
    suite_add_tcase(suite, tc);
    return suite;
}
