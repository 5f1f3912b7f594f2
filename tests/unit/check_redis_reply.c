#include "roomlog/redis_reply.h"

#include "tests/lib/held_reply.h"
#include "tests/lib/suite.h"

#include <string.h>

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

/* --- errors --------------------------------------------------------------------------------- */

static const struct {
    const char *resp;
    enum rd_err err;
} ERRORS[] = {
    {"+OK\r\n", RD_OK},
    {"*0\r\n", RD_OK},
    {"-OOM command not allowed when used memory > 'maxmemory'.\r\n", RD_EFULL},
    {"-READONLY You can't write against a read only replica.\r\n", RD_EREADONLY},
    {"-WRONGTYPE Operation against a key\r\n", RD_EWRONGTYPE},
    {"-NOPERM this user has no permissions\r\n", RD_EDENIED},
    {"-NOAUTH Authentication required.\r\n", RD_EDENIED},
    {"-WRONGPASS invalid username-password pair\r\n", RD_EDENIED},
    {"-LOADING Redis is loading\r\n", RD_EUNAVAIL},
    {"-BUSY Redis is busy\r\n", RD_EUNAVAIL},
    {"-BUSYGROUP Consumer Group name already exists\r\n", RD_ELOG},
    {"-MISCONF Redis is configured\r\n", RD_EUNAVAIL},
    {"-MASTERDOWN Link with MASTER is down\r\n", RD_EUNAVAIL},
    {"-NOREPLICAS Not enough good replicas to write.\r\n", RD_EUNAVAIL},
    {"-CLUSTERDOWN The cluster is down\r\n", RD_EUNAVAIL},
    {"-TRYAGAIN Multiple keys\r\n", RD_EUNAVAIL},
    {"-ERR The stream has exhausted the last possible ID\r\n", RD_ELOG},
    {"-ERR\r\n", RD_ELOG},
    {"-\r\n", RD_ELOG},
    {"-OOM\r\n", RD_EFULL},
    {"-TOOBIG the reply is larger than 256 MiB\r\n", RD_ETOOBIG},
    {"-ERR ACL failure in script: User x has no permissions\r\n", RD_EDENIED},
    {"-ERR The user executing the script can't run this command or subcommand script: x\r\n",
     RD_EDENIED},
    {"-ERR Error running script (call to f_1): @user_script:3: -OOM command not allowed\r\n",
     RD_EFULL},
    {"-ERR Error running script (call to f_1): @user_script:3: WRONGTYPE Operation\r\n",
     RD_EWRONGTYPE},
    {"-ERR Error running script (call to f_1): @user_script:3: ZOOM\r\n", RD_ELOG},
};

START_TEST(an_error_means_one_of_ours)
{
    const struct redis_reply *reply = held_reply_of(ERRORS[_i].resp);
    ck_assert_int_eq(redis_reply_err(reply), ERRORS[_i].err);
    held_reply_let_go(reply);
}
END_TEST

START_TEST(the_text_of_an_error_is_cut_and_has_no_control_characters)
{
    char text[8];
    const struct redis_reply *reply = held_reply_of("-ERR a\tb\x1b[0m c\r\n");
    ck_assert(redis_reply_error_text(reply, text, sizeof(text)));
    ck_assert_str_eq(text, "ERR a?b");
    held_reply_let_go(reply);
    reply = held_reply_of("+OK\r\n");
    ck_assert(!redis_reply_error_text(reply, text, sizeof(text)));
    ck_assert_str_eq(text, "ERR a?b");
    held_reply_let_go(reply);
}
END_TEST

START_TEST(an_error_is_known_by_its_first_words)
{
    const struct redis_reply *reply = held_reply_of("-NOSCRIPT No matching script.\r\n");
    ck_assert(redis_reply_is(reply, "NOSCRIPT"));
    ck_assert(!redis_reply_is(reply, "NOSC"));
    ck_assert(!redis_reply_is(reply, "NOSCRIPT No matching script. None"));
    ck_assert(!redis_reply_exec_refused(reply));
    held_reply_let_go(reply);
    reply = held_reply_of("$8\r\nNOSCRIPT\r\n");
    ck_assert(!redis_reply_is(reply, "NOSCRIPT"));
    held_reply_let_go(reply);
    reply = held_reply_of("-EXECABORT Transaction discarded because of previous errors.\r\n");
    ck_assert(redis_reply_exec_refused(reply));
    held_reply_let_go(reply);
    reply = held_reply_of("-ERR EXEC without MULTI\r\n");
    ck_assert(redis_reply_exec_refused(reply));
    held_reply_let_go(reply);
}
END_TEST

/* --- small answers ---------------------------------------------------------------------------- */

START_TEST(small_answers_are_what_they_are)
{
    long long number = 0;
    struct str text;
    const struct redis_reply *reply = held_reply_of(":-42\r\n");
    ck_assert(redis_reply_integer(reply, &number));
    ck_assert_int_eq(number, -42);
    ck_assert(!redis_reply_text(reply, &text));
    held_reply_let_go(reply);
    reply = held_reply_of("$3\r\nabc\r\n");
    ck_assert(redis_reply_text(reply, &text));
    ck_assert(str_eq(text, STR("abc")));
    ck_assert(!redis_reply_integer(reply, &number));
    held_reply_let_go(reply);
}
END_TEST

/* --- entries -------------------------------------------------------------------------------- */

#define ENTRY(id_len, id, fields) "*2\r\n$" #id_len "\r\n" id "\r\n" fields
#define ONE_FIELD "*2\r\n$4\r\ndata\r\n$1\r\n1\r\n"

START_TEST(a_range_is_a_chain_of_entries)
{
    struct redis_reply_entries entries = {.p = NULL};
    const struct redis_reply *reply = held_reply_of(
        "*3\r\n" ENTRY(3, "1-1",
                       "*10\r\n$4\r\ntype\r\n$1\r\nt\r\n$4\r\ndata\r\n$0\r\n\r\n$4\r\nfrom\r\n"
                       "$1\r\nf\r\n$3\r\nref\r\n$1\r\nr\r\n$3\r\nkey\r\n$1\r\nk\r\n")
            ENTRY(3, "1-2", "*4\r\n$5\r\nother\r\n$1\r\nx\r\n$4\r\ndata\r\n$1\r\n2\r\n")
                ENTRY(3, "2-0", "*4\r\n$4\r\ndata\r\n$1\r\n3\r\n$4\r\ndata\r\n$1\r\n4\r\n"));
    ck_assert(redis_reply_range(reply, REDIS_REPLY_ASCENDING, &entries));
    ck_assert_uint_eq(entries.count, 3);

    const struct roomlog_entry *e = entries.p;
    ck_assert(stream_id_eq(e[0].id, (struct stream_id){1, 1}));
    ck_assert(!e[0].prev_known);
    ck_assert(str_eq(e[0].type, STR("t")) && str_eq(e[0].from, STR("f")));
    ck_assert(str_eq(e[0].ref, STR("r")) && str_eq(e[0].key, STR("k")));
    ck_assert(str_present(e[0].data) && e[0].data.len == 0);
    ck_assert_uint_eq(roomlog_entry_bytes(&e[0]), 4);

    ck_assert(e[1].prev_known && stream_id_eq(e[1].prev, e[0].id));
    ck_assert(!str_present(e[1].type) && !str_present(e[1].key));
    ck_assert(str_eq(e[1].data, STR("2")));

    ck_assert(e[2].prev_known && stream_id_eq(e[2].prev, e[1].id));
    ck_assert(str_eq(e[2].data, STR("3"))); /* of equal fields the first counts */
    held_reply_let_go(reply);
    redis_reply_entries_fini(&entries);
}
END_TEST

START_TEST(a_range_that_goes_down_is_turned_round)
{
    struct redis_reply_entries entries = {.p = NULL};
    const struct redis_reply *reply =
        held_reply_of("*2\r\n" ENTRY(3, "2-0", ONE_FIELD) ENTRY(3, "1-0", ONE_FIELD));
    ck_assert(redis_reply_range(reply, REDIS_REPLY_DESCENDING, &entries));
    ck_assert_uint_eq(entries.count, 2);
    ck_assert_uint_eq(entries.p[0].id.ms, 1);
    ck_assert_uint_eq(entries.p[1].id.ms, 2);
    ck_assert(entries.p[1].prev_known && entries.p[1].prev.ms == 1);
    ck_assert(!redis_reply_range(reply, REDIS_REPLY_ASCENDING, &entries));
    held_reply_let_go(reply);
    redis_reply_entries_fini(&entries);
}
END_TEST

static const char *const NO_RANGE[] = {
    "$-1\r\n",
    "*-1\r\n",
    ":1\r\n",
    "-ERR no\r\n",
    "*1\r\n$3\r\n1-1\r\n",
    "*1\r\n*1\r\n$3\r\n1-1\r\n",
    "*1\r\n*3\r\n$3\r\n1-1\r\n*0\r\n*0\r\n",
    "*1\r\n" ENTRY(2, "1-", ONE_FIELD),
    "*1\r\n" ENTRY(1, "x", ONE_FIELD),
    "*1\r\n*2\r\n:1\r\n" ONE_FIELD,
    "*1\r\n" ENTRY(3, "1-1", "*-1\r\n"),
    "*1\r\n" ENTRY(3, "1-1", "$1\r\nx\r\n"),
    "*1\r\n" ENTRY(3, "1-1", "*1\r\n$4\r\ndata\r\n"),
    "*1\r\n" ENTRY(3, "1-1", "*2\r\n:1\r\n$1\r\n1\r\n"),
    "*1\r\n" ENTRY(3, "1-1", "*2\r\n$4\r\ndata\r\n$-1\r\n"),
    "*1\r\n" ENTRY(3, "1-1", "*2\r\n$4\r\ndata\r\n*0\r\n"),
    "*2\r\n" ENTRY(3, "1-1", ONE_FIELD) ENTRY(3, "1-1", ONE_FIELD),
    "*2\r\n" ENTRY(3, "2-0", ONE_FIELD) ENTRY(3, "1-9", ONE_FIELD),
    "*2\r\n" ENTRY(3, "1-1", ONE_FIELD) "$-1\r\n",
};

START_TEST(what_is_no_range_is_refused_whole)
{
    struct redis_reply_entries entries = {.p = NULL};
    const struct redis_reply *reply = held_reply_of(NO_RANGE[_i]);
    ck_assert(!redis_reply_range(reply, REDIS_REPLY_ASCENDING, &entries));
    ck_assert_uint_eq(entries.count, 0);
    held_reply_let_go(reply);
    redis_reply_entries_fini(&entries);
}
END_TEST

START_TEST(the_memory_of_entries_is_used_again)
{
    struct redis_reply_entries entries = {.p = NULL};
    const struct redis_reply *none = held_reply_of("*0\r\n");
    const struct redis_reply *one = held_reply_of("*1\r\n" ENTRY(3, "1-1", ONE_FIELD));
    ck_assert(redis_reply_range(none, REDIS_REPLY_ASCENDING, &entries));
    ck_assert_uint_eq(entries.count, 0);
    ck_assert(redis_reply_range(one, REDIS_REPLY_ASCENDING, &entries));
    const void *before = entries.p;
    ck_assert(redis_reply_range(one, REDIS_REPLY_ASCENDING, &entries));
    ck_assert_ptr_eq(entries.p, before);
    ck_assert_uint_eq(entries.count, 1);
    held_reply_let_go(none);
    held_reply_let_go(one);
    redis_reply_entries_fini(&entries);
}
END_TEST

/* --- XINFO ---------------------------------------------------------------------------------- */

#define LENGTH(n) "$6\r\nlength\r\n:" #n "\r\n"
#define LAST "$17\r\nlast-generated-id\r\n$3\r\n9-1\r\n"
#define DELETED "$20\r\nmax-deleted-entry-id\r\n$3\r\n4-0\r\n"
#define ADDED "$13\r\nentries-added\r\n:12\r\n"
#define FIRST "$11\r\nfirst-entry\r\n" ENTRY(3, "2-3", ONE_FIELD)
#define FIRST_NONE "$11\r\nfirst-entry\r\n$-1\r\n"
#define LAST_ENTRY "$10\r\nlast-entry\r\n" ENTRY(3, "8-0", "*2\r\n$4\r\ndata\r\n$6\r\nlonger\r\n")
#define OTHER "$6\r\ngroups\r\n:0\r\n"

START_TEST(info_is_what_a_stream_records)
{
    struct verdict_info info;
    size_t bytes;
    const struct redis_reply *reply =
        held_reply_of("*14\r\n" LENGTH(7) LAST DELETED ADDED OTHER FIRST LAST_ENTRY);
    ck_assert(redis_reply_info(reply, &info, &bytes));
    ck_assert(info.exists);
    ck_assert_uint_eq(info.length, 7);
    ck_assert_uint_eq(info.added, 12);
    ck_assert(stream_id_eq(info.first, (struct stream_id){2, 3}));
    ck_assert(stream_id_eq(info.last, (struct stream_id){9, 1}));
    ck_assert(stream_id_eq(info.max_deleted, (struct stream_id){4, 0}));
    ck_assert_uint_ge(bytes, 10); /* the larger of both */
    ck_assert_uint_lt(bytes, 200);
    held_reply_let_go(reply);
}
END_TEST

START_TEST(a_missing_key_is_a_log_that_is_not_there)
{
    struct verdict_info info = {.exists = true, .length = 1};
    size_t bytes;
    const struct redis_reply *reply = held_reply_of("-ERR no such key\r\n");
    ck_assert(redis_reply_info(reply, &info, &bytes));
    ck_assert(!info.exists);
    ck_assert_uint_eq(info.length, 0);
    ck_assert_uint_eq(bytes, 0);
    held_reply_let_go(reply);
}
END_TEST

START_TEST(an_emptied_stream_has_a_last_id_and_no_first)
{
    struct verdict_info info;
    size_t bytes;
    const struct redis_reply *reply =
        held_reply_of("*10\r\n" LENGTH(0) LAST DELETED ADDED FIRST_NONE);
    ck_assert(redis_reply_info(reply, &info, &bytes));
    ck_assert(info.exists && stream_id_is_zero(info.first));
    ck_assert_uint_eq(bytes, 0);
    held_reply_let_go(reply);
}
END_TEST

START_TEST(an_old_redis_that_does_not_count_can_vouch_for_nothing)
{
    struct verdict_info info;
    size_t bytes;
    const struct redis_reply *reply = held_reply_of("*6\r\n" LENGTH(7) LAST FIRST);
    ck_assert(redis_reply_info(reply, &info, &bytes));
    ck_assert(!verdict_complete(&info));
    ck_assert_int_eq(verdict_of((struct stream_id){5, 0}, NULL, &info), VERDICT_HOLE);
    held_reply_let_go(reply);
}
END_TEST

static const char *const NO_INFO[] = {
    "$-1\r\n",
    "+OK\r\n",
    "-ERR something else\r\n",
    "-WRONGTYPE Operation against a key\r\n",
    "*0\r\n",
    "*1\r\n$6\r\nlength\r\n",
    "*4\r\n" LENGTH(7) LAST,
    "*4\r\n" LENGTH(7) FIRST,
    "*4\r\n" LAST FIRST,
    "*6\r\n" LENGTH(-1) LAST FIRST,
    "*6\r\n$6\r\nlength\r\n$1\r\n7\r\n" LAST FIRST,
    "*6\r\n" LENGTH(7) "$17\r\nlast-generated-id\r\n:9\r\n" FIRST,
    "*6\r\n" LENGTH(7) LAST "$11\r\nfirst-entry\r\n*0\r\n",
    "*6\r\n" LENGTH(7) LAST FIRST_NONE,
    "*6\r\n" LENGTH(0) LAST FIRST,
    "*8\r\n" LENGTH(7) LAST FIRST "$13\r\nentries-added\r\n$1\r\n7\r\n",
    "*8\r\n" LENGTH(7) LAST FIRST "$20\r\nmax-deleted-entry-id\r\n$1\r\n7\r\n",
    "*8\r\n" LENGTH(7) LAST FIRST ":1\r\n:1\r\n",
};

START_TEST(what_is_no_info_is_refused)
{
    struct verdict_info info = {.length = 77};
    size_t bytes;
    const struct redis_reply *reply = held_reply_of(NO_INFO[_i]);
    ck_assert(!redis_reply_info(reply, &info, &bytes));
    ck_assert_uint_eq(info.length, 77);
    held_reply_let_go(reply);
}
END_TEST

/* --- EXEC ----------------------------------------------------------------------------------- */

#define INFO "*6\r\n" LENGTH(7) LAST FIRST

static const struct {
    const char *resp;
    enum rd_err err;
    size_t count;
    bool exists;
} EXECS[] = {
    {"*2\r\n" INFO "*1\r\n" ENTRY(3, "2-3", ONE_FIELD), RD_OK, 1, true},
    {"*2\r\n-ERR no such key\r\n*0\r\n", RD_OK, 0, false},
    {"*2\r\n-WRONGTYPE x\r\n-WRONGTYPE x\r\n", RD_EWRONGTYPE, 0, false},
    {"*2\r\n" INFO "-WRONGTYPE x\r\n", RD_EWRONGTYPE, 0, false},
    {"*2\r\n-NOPERM x\r\n*0\r\n", RD_EDENIED, 0, false},
    {"*2\r\n" INFO "*1\r\n$1\r\nx\r\n", RD_ELOG, 0, false},
    {"*2\r\n*0\r\n*0\r\n", RD_ELOG, 0, false},
    {"-LOADING x\r\n", RD_EUNAVAIL, 0, false},
    {"-EXECABORT x\r\n", RD_ELOG, 0, false},
    {"*-1\r\n", RD_ELOG, 0, false},
    {"*0\r\n", RD_ELOG, 0, false},
    {"*3\r\n" INFO "*0\r\n*0\r\n", RD_ELOG, 0, false},
    {"+QUEUED\r\n", RD_ELOG, 0, false},
};

START_TEST(an_exec_answers_with_both_or_says_why_not)
{
    struct redis_reply_entries entries = {.p = NULL};
    struct verdict_info info = {.exists = false};
    size_t bytes;
    enum rd_err err = RD_EBUSY;
    const struct redis_reply *reply = held_reply_of(EXECS[_i].resp);
    bool ok = redis_reply_exec(reply, REDIS_REPLY_ASCENDING, &info, &bytes, &entries, &err);
    ck_assert_int_eq(ok, EXECS[_i].err == RD_OK);
    ck_assert_int_eq(err, EXECS[_i].err);
    if (ok) {
        ck_assert_uint_eq(entries.count, EXECS[_i].count);
        ck_assert_int_eq(info.exists, EXECS[_i].exists);
    }
    held_reply_let_go(reply);
    redis_reply_entries_fini(&entries);
}
END_TEST

/* --- bells ---------------------------------------------------------------------------------- */

#define MESSAGE "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n"

START_TEST(a_bell_names_the_keys_that_changed)
{
    size_t count;
    const struct redis_reply *reply =
        held_reply_of(MESSAGE "*2\r\n$6\r\nroom:a\r\n$6\r\nroom:b\r\n");
    ck_assert_int_eq(redis_reply_bell(reply, &count), REDIS_REPLY_KEYS);
    ck_assert_uint_eq(count, 2);
    ck_assert(str_eq(redis_reply_bell_key(reply, 0), STR("room:a")));
    ck_assert(str_eq(redis_reply_bell_key(reply, 1), STR("room:b")));
    held_reply_let_go(reply);
}
END_TEST

static const struct {
    const char *resp;
    enum redis_reply_bell kind;
} BELLS[] = {
    {MESSAGE "*-1\r\n", REDIS_REPLY_ALL},
    {MESSAGE "$-1\r\n", REDIS_REPLY_ALL},
    {MESSAGE "*0\r\n", REDIS_REPLY_KEYS},
    {MESSAGE "*1\r\n:1\r\n", REDIS_REPLY_NO_BELL},
    {MESSAGE "$1\r\nx\r\n", REDIS_REPLY_NO_BELL},
    {"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", REDIS_REPLY_NO_BELL},
    {"*2\r\n$7\r\nmessage\r\n$1\r\nx\r\n", REDIS_REPLY_NO_BELL},
    {"*3\r\n:1\r\n:1\r\n*-1\r\n", REDIS_REPLY_NO_BELL},
    {"+PONG\r\n", REDIS_REPLY_NO_BELL},
    {"-ERR x\r\n", REDIS_REPLY_NO_BELL},
};

START_TEST(a_bell_for_everything_is_told_from_no_bell)
{
    size_t count = 9;
    const struct redis_reply *reply = held_reply_of(BELLS[_i].resp);
    ck_assert_int_eq(redis_reply_bell(reply, &count), BELLS[_i].kind);
    ck_assert_uint_eq(count, 0);
    held_reply_let_go(reply);
}
END_TEST

/* --- parts and pushes ----------------------------------------------------------------------- */

START_TEST(an_array_is_walked_part_by_part)
{
    const struct redis_reply *reply =
        held_reply_of("*4\r\n:1\r\n*2\r\n:2\r\n*1\r\n:3\r\n*0\r\n+x\r\n");
    struct redis_reply_parts parts;
    struct redis_reply_parts inner;
    struct redis_reply part;
    struct str text;
    long long number;
    ck_assert(redis_reply_array(reply, &parts));
    ck_assert_uint_eq(parts.left, 4);
    ck_assert(redis_reply_part(&parts, &part) && redis_reply_integer(&part, &number));
    ck_assert(!redis_reply_array(&part, &inner));
    ck_assert(redis_reply_part(&parts, &part) && redis_reply_array(&part, &inner));
    ck_assert_uint_eq(inner.left, 2);
    ck_assert(redis_reply_part(&parts, &part) && redis_reply_array(&part, &inner));
    ck_assert(!redis_reply_part(&inner, &part));
    ck_assert(redis_reply_part(&parts, &part) && redis_reply_text(&part, &text));
    ck_assert(str_eq(text, STR("x")));
    ck_assert(!redis_reply_part(&parts, &part));
    held_reply_let_go(reply);
}
END_TEST

START_TEST(nil_is_of_either_kind)
{
    const struct redis_reply *text = held_reply_of("$-1\r\n");
    const struct redis_reply *array = held_reply_of("*-1\r\n");
    struct redis_reply_parts parts;
    ck_assert(redis_reply_nil(text) && redis_reply_nil(array));
    ck_assert(!redis_reply_array(array, &parts));
    held_reply_let_go(text);
    held_reply_let_go(array);
}
END_TEST

static const struct {
    const char *resp;
    bool push;
} PUSHES[] = {
    {MESSAGE "*-1\r\n", true},
    {MESSAGE "*1\r\n$6\r\nroom:a\r\n", true},
    {"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", true},
    {"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\nc\r\n$1\r\nx\r\n", true},
    {"*3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", true},
    {"*3\r\n$12\r\nsunsubscribe\r\n$1\r\nc\r\n:0\r\n", true},
    {"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", false},
    {"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:1\r\n", false},
    {"*2\r\n$4\r\npong\r\n$0\r\n\r\n", false},
    {"*0\r\n", false},
    {"*-1\r\n", false},
    {"*1\r\n*0\r\n", false},
    {"$7\r\nmessage\r\n", false},
    {"-ERR message\r\n", false},
};

START_TEST(messages_are_told_from_answers)
{
    const struct redis_reply *reply = held_reply_of(PUSHES[_i].resp);
    ck_assert_int_eq(redis_reply_push(reply), PUSHES[_i].push);
    held_reply_let_go(reply);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_reply");
    TCase *tc = tcase_create("replies");
    tcase_add_loop_test(tc, an_error_means_one_of_ours, 0, COUNT_OF(ERRORS));
    tcase_add_test(tc, the_text_of_an_error_is_cut_and_has_no_control_characters);
    tcase_add_test(tc, an_error_is_known_by_its_first_words);
    tcase_add_test(tc, small_answers_are_what_they_are);
    tcase_add_test(tc, a_range_is_a_chain_of_entries);
    tcase_add_test(tc, a_range_that_goes_down_is_turned_round);
    tcase_add_loop_test(tc, what_is_no_range_is_refused_whole, 0, COUNT_OF(NO_RANGE));
    tcase_add_test(tc, the_memory_of_entries_is_used_again);
    tcase_add_test(tc, info_is_what_a_stream_records);
    tcase_add_test(tc, a_missing_key_is_a_log_that_is_not_there);
    tcase_add_test(tc, an_emptied_stream_has_a_last_id_and_no_first);
    tcase_add_test(tc, an_old_redis_that_does_not_count_can_vouch_for_nothing);
    tcase_add_loop_test(tc, what_is_no_info_is_refused, 0, COUNT_OF(NO_INFO));
    tcase_add_loop_test(tc, an_exec_answers_with_both_or_says_why_not, 0, COUNT_OF(EXECS));
    tcase_add_test(tc, a_bell_names_the_keys_that_changed);
    tcase_add_loop_test(tc, a_bell_for_everything_is_told_from_no_bell, 0, COUNT_OF(BELLS));
    tcase_add_test(tc, an_array_is_walked_part_by_part);
    tcase_add_test(tc, nil_is_of_either_kind);
    tcase_add_loop_test(tc, messages_are_told_from_answers, 0, COUNT_OF(PUSHES));
    suite_add_tcase(suite, tc);
    return suite;
}
