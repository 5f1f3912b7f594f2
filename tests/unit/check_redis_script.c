/* What is sent for an append, and what its answers mean. That the script does what it should is
 * shown on a real Redis, by contract/ and fault/check_redis_appends.c. */
#include "roomlog/redis_script.h"

#include "roomlog/redis_durable.h"
#include "roomlog/redis_policy.h"
#include "tests/lib/held_reply.h"
#include "tests/lib/suite.h"

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))
#define ROOM STR("room:lobby")

/* --- answers -------------------------------------------------------------------------------- */

static const struct {
    const char *resp;
    enum rd_err err;
    bool duplicate;
    struct stream_id id;
} ANSWERS[] = {
    {"$3\r\n7-1\r\n", RD_OK, false, {7, 1}},
    {"+7-1\r\n", RD_OK, false, {7, 1}},
    {"*2\r\n$3\r\n7-1\r\n:0\r\n", RD_OK, false, {7, 1}},
    {"*2\r\n$3\r\n7-1\r\n:1\r\n", RD_OK, true, {7, 1}},
    {"*3\r\n$3\r\n7-1\r\n:0\r\n$2\r\nno\r\n", RD_OK, false, {7, 1}},
    {"$41\r\n18446744073709551615-18446744073709551615\r\n",
     RD_OK,
     false,
     {UINT64_MAX, UINT64_MAX}},
    {"-STATEFULL the state of this room is full\r\n", RD_ESTATEFULL, false, {0, 0}},
    {"-OOM command not allowed\r\n", RD_EFULL, false, {0, 0}},
    {"-LOADING Redis is loading the dataset in memory\r\n", RD_ELOADING, false, {0, 0}},
    {"-BUSY Redis is busy running a script\r\n", RD_EBLOCKED, false, {0, 0}},
    {"-MISCONF Redis is configured to save RDB snapshots\r\n", RD_EUNSAVED, false, {0, 0}},
    {"-NOREPLICAS Not enough good replicas to write.\r\n", RD_EREPLICAS, false, {0, 0}},
    {"-CLUSTERDOWN The cluster is down\r\n", RD_EUNAVAIL, false, {0, 0}},
    {"-READONLY You can't write against a read only replica.\r\n", RD_EREADONLY, false, {0, 0}},
    {"-WRONGTYPE Operation against a key\r\n", RD_EWRONGTYPE, false, {0, 0}},
    {"-NOPERM this user has no permissions\r\n", RD_EDENIED, false, {0, 0}},
    {"-ERR The stream has exhausted the last possible ID, unable to add more items\r\n",
     RD_ENOIDS,
     false,
     {0, 0}},
    {"-7-1\r\n", RD_ELOG, false, {0, 0}},
    {"$-1\r\n", RD_EUNKNOWN, false, {0, 0}},
    {":1\r\n", RD_EUNKNOWN, false, {0, 0}},
    {"$2\r\n7-\r\n", RD_EUNKNOWN, false, {0, 0}},
    {"$4\r\n07-1\r\n", RD_EUNKNOWN, false, {0, 0}},
    {"*0\r\n", RD_EUNKNOWN, false, {0, 0}},
    {"*1\r\n$3\r\n7-1\r\n", RD_EUNKNOWN, false, {0, 0}},
    {"*2\r\n$3\r\n7-1\r\n$1\r\n1\r\n", RD_EUNKNOWN, false, {0, 0}},
    {"*2\r\n$-1\r\n:1\r\n", RD_EUNKNOWN, false, {0, 0}},
    {"*3\r\n$3\r\n7-1\r\n:1\r\n:1\r\n", RD_EUNKNOWN, false, {0, 0}},
    {"*4\r\n$3\r\n7-1\r\n:1\r\n$1\r\na\r\n$1\r\na\r\n", RD_EUNKNOWN, false, {0, 0}},
};

START_TEST(an_append_answers_with_an_id_or_an_error)
{
    struct redis_script_answer answer;
    const struct redis_reply *reply = held_reply_of(ANSWERS[_i].resp);
    ck_assert_int_eq(redis_script_answer(reply, &answer), ANSWERS[_i].err);
    if (ANSWERS[_i].err == RD_OK) {
        ck_assert(answer.duplicate == ANSWERS[_i].duplicate);
        ck_assert(stream_id_eq(answer.id, ANSWERS[_i].id));
    }
    held_reply_let_go(reply);
}
END_TEST

/* --- what is sent --------------------------------------------------------------------------- */

enum { WORDS_MAX = 1024 };

static const struct roomlog_publish ALL = {
    .type = {"t", 1}, .data = {"[1]", 3}, .from = {"a:b", 3}, .ref = {"r", 1}, .key = {"k", 1}};
static const struct roomlog_publish PLAIN = {.type = {"t", 1}, .data = {"[1]", 3}};
static const struct roomlog_publish GONE = {.type = {"t", 1}, .data = {"null", 4}, .key = {"k", 1}};

/* "a|b|c;d" */
static const char *sent(const struct redis_script_config *config, struct redis_script_how how,
                        const struct roomlog_publish *what)
{
    static char text[WORDS_MAX];
    struct redis_script_ask ask;
    size_t at = 0;
    how.wall_ms = 10000;
    redis_script_ask(&ask, config, &how, ROOM, what);
    for (size_t i = 0; i < ask.count; i++)
        for (size_t k = 0; k < ask.commands[i].count; k++) {
            struct str word = ask.commands[i].p[k];
            ck_assert_uint_lt(at + word.len + 2, sizeof(text));
            if (word.len != 0)
                memcpy(text + at, word.p, word.len);
            at += word.len;
            text[at++] = k + 1 < ask.commands[i].count ? '|' : ';';
        }
    text[at - 1] = '\0';
    redis_script_ask_fini(&ask);
    return text;
}

START_TEST(a_plain_entry_is_an_xadd)
{
    struct redis_script_config config = {.max_entries = 100};
    const struct redis_script_how how = {.asking = false};
    ck_assert_str_eq(sent(&config, how, &ALL),
                     "XADD|room:lobby|MAXLEN|~|100|*|type|t|data|[1]|from|a:b|ref|r|key|k");
    config.max_age_ms = 4000;
    ck_assert_str_eq(sent(&config, how, &PLAIN), "XTRIM|room:lobby|MINID|~|6000-0;"
                                                 "XADD|room:lobby|MAXLEN|~|100|*|type|t|data|[1]");
    config.max_entries = 0;
    ck_assert_str_eq(sent(&config, how, &PLAIN),
                     "XADD|room:lobby|MINID|~|6000-0|*|type|t|data|[1]");
    config.max_age_ms = 20000; /* nothing can be as old */
    ck_assert_str_eq(sent(&config, how, &PLAIN), "XADD|room:lobby|*|type|t|data|[1]");
}
END_TEST

START_TEST(behind_asking_comes_one_command)
{
    const struct redis_script_config config = {.max_entries = 100, .max_age_ms = 4000};
    const struct redis_script_how how = {.asking = true};
    ck_assert_str_eq(sent(&config, how, &PLAIN),
                     "ASKING;XADD|room:lobby|MAXLEN|~|100|*|type|t|data|[1]");
}
END_TEST

/* Only where it has no key of its own that nobody has. */
START_TEST(a_wary_one_names_a_key_that_never_is)
{
    const struct redis_script_config config = {.dedupe_ms = 5000};
    const struct redis_script_how how = {.sha = STR("SHA"), .wary = true};
    ck_assert_str_eq(sent(&config, how, &PLAIN),
                     "EVALSHA|SHA|3|room:lobby|{room:lobby}:ref:none|room:lobby|"
                     "||||||||*|type|t|data|[1]");
    ck_assert_str_eq(sent(&config, how, &ALL),
                     "EVALSHA|SHA|3|room:lobby|{room:lobby}:ref:3:a:b:r|room:lobby|"
                     "5000||||||||*|type|t|data|[1]|from|a:b|ref|r|key|k");
}
END_TEST

START_TEST(the_script_is_told_of_what_is_asked_and_of_no_more)
{
    struct redis_script_config config = {.dedupe_ms = 5000, .state = {10, 2000}, .announce = true};
    const struct redis_script_how how = {.sha = STR("SHA")};
    ck_assert_str_eq(
        sent(&config, how, &ALL),
        "EVALSHA|SHA|3|room:lobby|{room:lobby}:ref:3:a:b:r|{room:lobby}:state|"
        "5000||1:t,3:[1],3:a:b,1:r,1:k,|10|2000|k|{\"type\":\"t\",\"from\":\"a:b\",\"data\":|13|"
        "*|type|t|data|[1]|from|a:b|ref|r|key|k");
    config.announce = false;
    config.touch = true;
    config.max_entries = 7;
    ck_assert_str_eq(sent(&config, how, &GONE),
                     "EVALSHA|SHA|3|room:lobby|room:lobby|{room:lobby}:state||1||10|2000|k||16|"
                     "MAXLEN|~|7|*|type|t|data|null|key|k");
    config.touch = false;
    ck_assert_str_eq(sent(&config, how, &PLAIN),
                     "EVALSHA|SHA|3|room:lobby|room:lobby|room:lobby||||||||"
                     "|MAXLEN|~|7|*|type|t|data|[1]");
}
END_TEST

START_TEST(the_script_is_asked_for_where_it_has_something_to_do)
{
    struct redis_script_config config = {.dedupe_ms = 0};
    ck_assert(!redis_script_needed(&config) && !redis_script_asked(&config, &ALL));
    config.dedupe_ms = 1;
    ck_assert(redis_script_needed(&config) && redis_script_asked(&config, &ALL));
    ck_assert(!redis_script_asked(&config, &GONE));
    config.state.max_keys = 1;
    ck_assert(redis_script_asked(&config, &GONE) && !redis_script_asked(&config, &PLAIN));
    config.announce = true;
    ck_assert(redis_script_asked(&config, &PLAIN));
}
END_TEST

START_TEST(what_an_append_takes_is_never_underestimated)
{
    const struct redis_script_config config = {
        .dedupe_ms = 5000, .state = {10, 2000}, .announce = true};
    static char quotes[600];
    memset(quotes, '\x01', sizeof(quotes));
    struct str text = {quotes, sizeof(quotes)};
    const struct roomlog_publish what = {text, text, text, text, text};
    struct redis_script_ask ask;
    redis_script_ask(&ask, &config, &(struct redis_script_how){.sha = STR("SHA")}, text, &what);
    size_t bytes = 0;
    for (size_t i = 0; i < ask.word_count; i++)
        bytes += ask.words[i].len;
    redis_script_ask_fini(&ask);
    ck_assert_uint_le(bytes, redis_script_bytes_max(text, &what));
    const struct roomlog_publish huge = {.data = {quotes, SIZE_MAX / 2}};
    ck_assert_uint_eq(redis_script_bytes_max(ROOM, &huge), SIZE_MAX);
    const struct roomlog_publish odd = {.type = {quotes, SIZE_MAX - 8}};
    ck_assert_uint_eq(redis_script_bytes_max(ROOM, &odd), SIZE_MAX);
}
END_TEST

/* --- durability ----------------------------------------------------------------------------- */

static const struct {
    struct redis_durable durable;
    const char *resp;
    bool holds;
} HOLDS[] = {
    {{REDIS_DURABLE_REPLICA, 2, 100}, ":2\r\n", true},
    {{REDIS_DURABLE_REPLICA, 2, 100}, ":3\r\n", true},
    {{REDIS_DURABLE_REPLICA, 2, 100}, ":1\r\n", false},
    {{REDIS_DURABLE_REPLICA, 2, 100}, "-ERR WAIT cannot be used with replica instances\r\n", false},
    {{REDIS_DURABLE_REPLICA, 2, 100}, "*2\r\n:2\r\n:2\r\n", false},
    {{REDIS_DURABLE_DISK, 0, 100}, "*2\r\n:1\r\n:0\r\n", true},
    {{REDIS_DURABLE_DISK, 0, 100}, "*2\r\n:0\r\n:0\r\n", false},
    {{REDIS_DURABLE_DISK, 0, 100}, "-ERR unknown command 'WAITAOF'\r\n", false},
    {{REDIS_DURABLE_DISK, 0, 100}, ":1\r\n", false},
};

START_TEST(enough_is_enough_and_an_error_is_not)
{
    const struct redis_reply *reply = held_reply_of(HOLDS[_i].resp);
    ck_assert(redis_durable_holds(&HOLDS[_i].durable, reply) == HOLDS[_i].holds);
    held_reply_let_go(reply);
}
END_TEST

/* --- policy --------------------------------------------------------------------------------- */

static const struct {
    const char *info;
    enum redis_policy policy;
    const char *name;
} POLICIES[] = {
    {"# Memory\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n", REDIS_POLICY_KEEPS,
     "allkeys-lru"},
    {"maxmemory:100\r\nmaxmemory_policy:noeviction\r\n", REDIS_POLICY_KEEPS, "noeviction"},
    {"maxmemory:100\r\nmaxmemory_human:1K\r\nmaxmemory_policy:volatile-ttl", REDIS_POLICY_EVICTS,
     "volatile-ttl"},
    {"maxmemory_policy:allkeys-lfu\nmaxmemory:1\n", REDIS_POLICY_EVICTS, "allkeys-lfu"},
    {"maxmemory:100\r\n", REDIS_POLICY_UNSAID, NULL},
    {"maxmemory_policy:noeviction\r\n", REDIS_POLICY_UNSAID, NULL},
    {"", REDIS_POLICY_UNSAID, NULL},
};

START_TEST(a_bound_and_a_policy_together_say_whether_rooms_may_vanish)
{
    struct str name;
    ck_assert_int_eq(redis_policy_of(str_from(POLICIES[_i].info), &name), POLICIES[_i].policy);
    ck_assert(str_present(name) == (POLICIES[_i].name != NULL));
    ck_assert(str_eq(name, str_from(POLICIES[_i].name)));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_script");
    TCase *tc = tcase_create("redis_script");
    tcase_add_loop_test(tc, an_append_answers_with_an_id_or_an_error, 0, COUNT_OF(ANSWERS));
    tcase_add_test(tc, a_plain_entry_is_an_xadd);
    tcase_add_test(tc, behind_asking_comes_one_command);
    tcase_add_test(tc, a_wary_one_names_a_key_that_never_is);
    tcase_add_test(tc, the_script_is_told_of_what_is_asked_and_of_no_more);
    tcase_add_test(tc, the_script_is_asked_for_where_it_has_something_to_do);
    tcase_add_test(tc, what_an_append_takes_is_never_underestimated);
    tcase_add_loop_test(tc, enough_is_enough_and_an_error_is_not, 0, COUNT_OF(HOLDS));
    tcase_add_loop_test(tc, a_bound_and_a_policy_together_say_whether_rooms_may_vanish, 0,
                        COUNT_OF(POLICIES));
    suite_add_tcase(suite, tc);
    return suite;
}
