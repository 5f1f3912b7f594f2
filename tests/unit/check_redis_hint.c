#include "roomlog/redis_hint.h"

#include "tests/lib/suite.h"

#include <string.h>

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))
#define TAIL "4:chat,1:1,-,-,-,"

START_TEST(a_hint_is_an_entry_with_its_predecessor)
{
    struct roomlog_entry e;
    ck_assert(redis_hint_parse(STR("12-3 11-0 4:chat,5:[1,2],3:ann,0:,-,"), &e));
    ck_assert(stream_id_eq(e.id, (struct stream_id){12, 3}));
    ck_assert(stream_id_eq(e.prev, (struct stream_id){11, 0}));
    ck_assert(e.prev_known);
    ck_assert(str_eq(e.type, STR("chat")));
    ck_assert(str_eq(e.data, STR("[1,2]")));
    ck_assert(str_eq(e.from, STR("ann")));
    ck_assert(str_present(e.ref) && e.ref.len == 0);
    ck_assert(!str_present(e.key));
}
END_TEST

START_TEST(texts_hold_any_bytes)
{
    struct roomlog_entry e;
    ck_assert(redis_hint_parse(STR("1-0 0-0 1:\0,3:-,:,2:\r\n,1:,,3:\xff\xfe,,"), &e));
    ck_assert(stream_id_is_zero(e.prev));
    ck_assert(str_eq(e.type, STR("\0")));
    ck_assert(str_eq(e.data, STR("-,:")));
    ck_assert(str_eq(e.from, STR("\r\n")));
    ck_assert(str_eq(e.ref, STR(",")));
    ck_assert(str_eq(e.key, STR("\xff\xfe,")));
}
END_TEST

/* By their literals: some hold a NUL. */
static const struct str BAD[] = {
    {"", 0},
#define BAD_ONE(text)                                                                              \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
    BAD_ONE(" "),
    BAD_ONE("12-3"),
    BAD_ONE("12-3 "),
    BAD_ONE("12-3 11-0"),
    BAD_ONE("12-3 11-0 "),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,"),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,-"),
    BAD_ONE("12-3 11-0 " TAIL " "),
    BAD_ONE("12-3 11-0 " TAIL "-,"),
    BAD_ONE("12-3  11-0 " TAIL),
    BAD_ONE("12-3 11-0  " TAIL),
    BAD_ONE(" 12-3 11-0 " TAIL),
    /* ids that aren't canonical, or not in order */
    BAD_ONE("12 11-0 " TAIL),
    BAD_ONE("012-3 11-0 " TAIL),
    BAD_ONE("12-3 11 " TAIL),
    BAD_ONE("12-3 - " TAIL),
    BAD_ONE("12-3 12-3 " TAIL),
    BAD_ONE("12-3 12-4 " TAIL),
    BAD_ONE("0-0 0-0 " TAIL),
    BAD_ONE("18446744073709551616-0 1-0 " TAIL),
    /* lengths that aren't, or don't fit */
    BAD_ONE("12-3 11-0 5:chat,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 3:chat,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 4:chat;1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 4chat,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 :,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 04:chat,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 00:,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 +4:chat,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 -4:chat,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 4 :chat,1:1,-,-,-,"),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,999999999:"),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,4294967296:,"),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,18446744073709551615:,"),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,18446744073709551616:,"),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,-1:,"),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,1:"),
    BAD_ONE("12-3 11-0 4:chat,1:1,-,-,0:"),
    BAD_ONE("12-3 11-0\0" TAIL),
#undef BAD_ONE
};

/* In a block of exactly its size, so that one byte too far is caught. */
START_TEST(what_is_not_exactly_so_is_no_hint)
{
    struct roomlog_entry e = {.id = {7, 8}, .prev = {5, 6}};
    char *copy = malloc(BAD[_i].len);
    if (BAD[_i].len != 0)
        memcpy(copy, BAD[_i].p, BAD[_i].len);
    ck_assert_msg(!redis_hint_parse((struct str){copy, BAD[_i].len}, &e), "%s", BAD[_i].p);
    ck_assert(stream_id_eq(e.id, (struct stream_id){7, 8}));
    ck_assert(stream_id_eq(e.prev, (struct stream_id){5, 6}));
    ck_assert(!str_present(e.type));
    free(copy);
}
END_TEST

START_TEST(a_hint_that_is_cut_anywhere_is_none)
{
    const struct str whole = STR("12-3 11-0 4:chat,5:[1,2],3:ann,0:,-,");
    struct roomlog_entry e;
    for (size_t len = 0; len < whole.len; len++) {
        char *copy = malloc(len);
        if (len != 0)
            memcpy(copy, whole.p, len);
        ck_assert_msg(!redis_hint_parse((struct str){copy, len}, &e), "%zu bytes", len);
        free(copy);
    }
    ck_assert(redis_hint_parse(whole, &e));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_hint");
    TCase *tc = tcase_create("parse");
    tcase_add_test(tc, a_hint_is_an_entry_with_its_predecessor);
    tcase_add_test(tc, texts_hold_any_bytes);
    tcase_add_loop_test(tc, what_is_not_exactly_so_is_no_hint, 0, COUNT_OF(BAD));
    tcase_add_test(tc, a_hint_that_is_cut_anywhere_is_none);
    suite_add_tcase(suite, tc);
    return suite;
}
