#include "config.h"
#include "config_value.h"

#include "tests/lib/suite.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { REASON_MAX = 512, ARGS_MAX = 16 };

static struct config config;
static char reason[REASON_MAX];
static char file[64];           /* of the test's options; "" where it wrote none */
static const char *env_text[8]; /* "NAME=value", NULL at the end */

static char *env(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; env_text[i] != NULL; i++)
        if (strncmp(env_text[i], name, len) == 0 && env_text[i][len] == '=')
            return (char *)(uintptr_t)(env_text[i] + len + 1);
    return NULL;
}

static void setup(void)
{
    file[0] = '\0';
    memset(env_text, 0, sizeof(env_text));
    memset(&config, 0, sizeof(config));
}

static void teardown(void)
{
    config_fini(&config);
    if (file[0] != '\0')
        (void)unlink(file);
}

static void write_file(const char *text)
{
    strcpy(file, "/tmp/check_config_XXXXXX");
    int fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

/* words: the arguments, with blanks between. */
static enum config_wish load(const char *words)
{
    char copy[512], program[] = "roomd";
    char *argv[ARGS_MAX] = {program};
    int argc = 1;
    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        ck_assert_int_lt(argc, ARGS_MAX - 1);
        argv[argc++] = word;
    }
    config_fini(&config);
    return config_load(&config, argc, argv, env, reason, sizeof(reason));
}

static void assert_refused(const char *words, const char *why)
{
    ck_assert_int_eq(load(words), CONFIG_BAD);
    ck_assert_str_eq(reason, why);
}

/* --- values --------------------------------------------------------------------------------- */

static const struct {
    const char *text;
    enum config_unit unit;
    bool ok;
    uint64_t value;
    const char *shortest;
} VALUES[] = {
    {"0", CONFIG_COUNT, true, 0, "0"},
    {"10000", CONFIG_COUNT, true, 10000, "10000"},
    {"18446744073709551615", CONFIG_COUNT, true, UINT64_MAX, "18446744073709551615"},
    {"18446744073709551616", CONFIG_COUNT, false, 0, NULL},
    {"1k", CONFIG_COUNT, false, 0, NULL},
    {"", CONFIG_COUNT, false, 0, NULL},
    {"-1", CONFIG_COUNT, false, 0, NULL},
    {"+1", CONFIG_COUNT, false, 0, NULL},
    {" 1", CONFIG_COUNT, false, 0, NULL},
    {"1.5", CONFIG_COUNT, false, 0, NULL},
    {"0x10", CONFIG_COUNT, false, 0, NULL},
    {"100", CONFIG_BYTES, true, 100, "100"},
    {"100B", CONFIG_BYTES, true, 100, "100"},
    {"64k", CONFIG_BYTES, true, 65536, "64KiB"},
    {"64K", CONFIG_BYTES, true, 65536, "64KiB"},
    {"64KiB", CONFIG_BYTES, true, 65536, "64KiB"},
    {"1024KiB", CONFIG_BYTES, true, 1048576, "1MiB"},
    {"1M", CONFIG_BYTES, true, 1048576, "1MiB"},
    {"3GiB", CONFIG_BYTES, true, (uint64_t)3 << 30, "3GiB"},
    {"17179869184GiB", CONFIG_BYTES, false, 0, NULL},
    {"1kB", CONFIG_BYTES, false, 0, NULL},
    {"1 MiB", CONFIG_BYTES, false, 0, NULL},
    {"MiB", CONFIG_BYTES, false, 0, NULL},
    {"0", CONFIG_MS, true, 0, "0"},
    {"250ms", CONFIG_MS, true, 250, "250ms"},
    {"5s", CONFIG_MS, true, 5000, "5s"},
    {"90s", CONFIG_MS, true, 90000, "90s"},
    {"120s", CONFIG_MS, true, 120000, "2m"},
    {"5m", CONFIG_MS, true, 300000, "5m"},
    {"2h", CONFIG_MS, true, 7200000, "2h"},
    {"7d", CONFIG_MS, true, 604800000, "7d"},
    {"5", CONFIG_MS, false, 0, NULL},
    {"5sec", CONFIG_MS, false, 0, NULL},
};
enum { VALUE_COUNT = sizeof(VALUES) / sizeof(VALUES[0]) };

START_TEST(a_number_has_a_unit_that_fits)
{
    uint64_t value = 42;
    char text[CONFIG_VALUE_TEXT_MAX];
    ck_assert_int_eq(config_value_parse(VALUES[_i].text, VALUES[_i].unit, &value), VALUES[_i].ok);
    ck_assert_uint_eq(value, VALUES[_i].ok ? VALUES[_i].value : 42);
    if (VALUES[_i].ok)
        ck_assert_str_eq(config_value_format(value, VALUES[_i].unit, text), VALUES[_i].shortest);
}
END_TEST

START_TEST(distance_counts_the_letters_that_differ)
{
    ck_assert_uint_eq(config_value_distance("listen", "listen", 3), 0);
    ck_assert_uint_eq(config_value_distance("listne", "listen", 3), 2);
    ck_assert_uint_eq(config_value_distance("list", "listen", 3), 2);
    ck_assert_uint_eq(config_value_distance("", "abc", 3), 3);
    ck_assert_uint_eq(config_value_distance("", "abcd", 3), 4);
    ck_assert_uint_eq(config_value_distance("kitten", "sitting", 9), 3);
}
END_TEST

/* --- sources -------------------------------------------------------------------------------- */

START_TEST(without_anything_the_defaults_count)
{
    ck_assert_int_eq(load(""), CONFIG_RUN);
    ck_assert_uint_eq(config.listen.count, 1);
    ck_assert_str_eq(config.listen.items[0], "127.0.0.1:8080");
    ck_assert_uint_eq(config.allow_origin.count, 0);
    ck_assert_ptr_null(config.redis);
    ck_assert_str_eq(config.redis_prefix, "room:");
    ck_assert_uint_eq(config.high_water, 1048576);
    ck_assert_uint_eq(config.low_water, 262144);
    ck_assert_uint_eq(config.max_frame, 65536);
    ck_assert_uint_eq(config.retention_entries, 10000);
    ck_assert_uint_eq(config.dedupe_window, 300000);
    ck_assert_uint_eq(config.heartbeat, 25000);
    ck_assert_uint_eq(config.log_level, CONFIG_INFO);
}
END_TEST

START_TEST(a_flag_beats_the_environment_which_beats_the_file)
{
    write_file("# a comment\nheartbeat = 1s\nlow-water = 5k ; another\nmax-rooms=7\n");
    env_text[0] = "ROOMD_HEARTBEAT=2s";
    env_text[1] = "ROOMD_LOW_WATER=6k";
    env_text[2] = "ROOMD_PAGE_ENTRIES="; /* as good as not there */
    char words[128];
    (void)snprintf(words, sizeof(words), "--heartbeat 3s --config %s", file);
    ck_assert_int_eq(load(words), CONFIG_RUN);
    ck_assert_uint_eq(config.heartbeat, 3000);
    ck_assert_uint_eq(config.low_water, 6144);
    ck_assert_uint_eq(config.max_rooms, 7);
    ck_assert_uint_eq(config.page_entries, 500);
}
END_TEST

START_TEST(the_environment_may_name_the_file)
{
    char name[128];
    write_file("heartbeat = 1s\n");
    (void)snprintf(name, sizeof(name), "ROOMD_CONFIG=%s", file);
    env_text[0] = name;
    ck_assert_int_eq(load("--max-rooms=5"), CONFIG_RUN);
    ck_assert_uint_eq(config.heartbeat, 1000);
    ck_assert_uint_eq(config.max_rooms, 5);
}
END_TEST

START_TEST(a_list_of_a_stronger_source_replaces_the_weaker_one_whole)
{
    char words[128];
    write_file("listen = a:1\nlisten = b:2\nallow-origin = https://c\n");
    (void)snprintf(words, sizeof(words), "--config %s", file);
    ck_assert_int_eq(load(words), CONFIG_RUN);
    ck_assert_uint_eq(config.listen.count, 2);
    ck_assert_str_eq(config.listen.items[1], "b:2");

    env_text[0] = "ROOMD_LISTEN=d:1,unix:/e,f:3";
    ck_assert_int_eq(load(words), CONFIG_RUN);
    ck_assert_uint_eq(config.listen.count, 3);
    ck_assert_str_eq(config.listen.items[1], "unix:/e");
    ck_assert_uint_eq(config.allow_origin.count, 1);

    ck_assert_int_eq(load("--listen g:1 --listen=h:2"), CONFIG_RUN);
    ck_assert_uint_eq(config.listen.count, 2);
    ck_assert_str_eq(config.listen.items[0], "g:1");
}
END_TEST

START_TEST(choices_are_read_by_name)
{
    ck_assert_int_eq(load("--redis-live poll --log-level error --log-format json"), CONFIG_RUN);
    ck_assert_uint_eq(config.redis_live, CONFIG_LIVE_POLL);
    ck_assert_uint_eq(config.log_level, CONFIG_ERROR);
    ck_assert_uint_eq(config.log_format, CONFIG_JSON);
}
END_TEST

START_TEST(wishes_are_understood)
{
    ck_assert_int_eq(load("--help"), CONFIG_HELP);
    ck_assert_int_eq(load("-h"), CONFIG_HELP);
    ck_assert_int_eq(load("--version"), CONFIG_VERSION);
    ck_assert_int_eq(load("--check-config --max-rooms 5"), CONFIG_CHECK);
    ck_assert_uint_eq(config.max_rooms, 5);
}
END_TEST

/* --- refusals ------------------------------------------------------------------------------- */

static const struct {
    const char *words;
    const char *why;
} REFUSALS[] = {
    {"--heartbeet 1s", "unknown option heartbeet: did you mean heartbeat?"},
    {"--listne=a:1", "unknown option listne: did you mean listen?"},
    {"--no-such-thing", "unknown option no-such-thing: roomd --help lists them"},
    {"start", "unexpected argument start"},
    {"-x", "unexpected argument -x"},
    {"--heartbeat", "--heartbeat: a value is missing"},
    {"--heartbeat=", "--heartbeat: a value is missing"},
    {"--config", "--config: a value is missing"},
    {"--heartbeat 5", "--heartbeat: expected a time such as 250ms, 5s or 10m, not \"5\""},
    {"--heartbeat 2h", "--heartbeat: 2h is not between 100ms and 1h"},
    {"--max-frame 1kB", "--max-frame: expected a size such as 64KiB or 1MiB, not \"1kB\""},
    {"--max-frame 10", "--max-frame: 10 is not between 256 and 16MiB"},
    {"--max-rooms many", "--max-rooms: expected a number, not \"many\""},
    {"--log-level loud", "--log-level: expected debug|info|warn|error, not \"loud\""},
    {"--log-level inf", "--log-level: expected debug|info|warn|error, not \"inf\""},
    {"--low-water 2MiB", "low-water must be below high-water"},
    {"--low-water 1MiB", "low-water must be below high-water"},
    {"--page-bytes 2MiB", "page-bytes must not be above high-water"},
    {"--pending-bytes 2MiB", "pending-bytes must not be above high-water"},
    {"--max-frame 2MiB", "max-frame must not be above high-water"},
    {"--high-water 600MiB", "high-water must not be above packet-budget"},
    {"--retention-entries 0", "retention-entries: without redis a room must be cut by count"},
    {"--publish-ack replica", "publish-ack: without redis there is only memory"},
    {"--redis redis://h --publish-ack disk --publish-ack-timeout 5s",
     "publish-ack-timeout must be below redis-command-timeout"},
    {"--config /nonexistent/roomd.ini", "/nonexistent/roomd.ini: can't be read"},
};
enum { REFUSAL_COUNT = sizeof(REFUSALS) / sizeof(REFUSALS[0]) };

START_TEST(what_makes_no_sense_is_refused_with_the_reason)
{
    assert_refused(REFUSALS[_i].words, REFUSALS[_i].why);
}
END_TEST

START_TEST(the_environment_is_named_where_it_is_wrong)
{
    env_text[0] = "ROOMD_SERVICE_HOST=10.0.0.1"; /* Kubernetes' own: not ours to judge */
    ck_assert_int_eq(load(""), CONFIG_RUN);
    env_text[1] = "ROOMD_MAX_ROOMS=0";
    assert_refused("", "environment ROOMD_MAX_ROOMS: max-rooms: 0 is not between 1 and 10000000");
    /* Also where a flag overrides it: it is wrong all the same. */
    ck_assert_int_eq(load("--max-rooms 5"), CONFIG_BAD);
}
END_TEST

static const struct {
    const char *text;
    const char *why; /* after the file's name */
} FILES[] = {
    {"max-rooms = 5\nmax-rooms = x\nheartbeat = y\n",
     ":2: max-rooms: expected a number, not \"x\""},
    {"\n\nmax-romms = 5\n", ":3: unknown key max-romms: did you mean max-rooms?"},
    {"[redis]\nredis = redis://a\n", ":2: unknown section [redis]: there are none"},
    {"max-rooms\n", ":1: expected key = value"},
    {"max-rooms =\n", ":1: max-rooms: a value is missing"},
};
enum { FILE_COUNT = sizeof(FILES) / sizeof(FILES[0]) };

START_TEST(a_file_is_refused_with_its_name_and_line)
{
    char words[128], why[256];
    write_file(FILES[_i].text);
    (void)snprintf(words, sizeof(words), "--config %s", file);
    (void)snprintf(why, sizeof(why), "%s%s", file, FILES[_i].why);
    assert_refused(words, why);
}
END_TEST

/* --- printing ------------------------------------------------------------------------------- */

START_TEST(what_is_printed_can_be_read_again)
{
    char *text;
    size_t len;
    char words[128];
    ck_assert_int_eq(load("--listen a:1 --listen b:2 --heartbeat 90s --high-water 2MiB --log-level "
                          "warn --redis redis://h:1/2"),
                     CONFIG_RUN);
    FILE *to = open_memstream(&text, &len);
    config_print(to, &config);
    (void)fclose(to);
    write_file(text);
    free(text);

    (void)snprintf(words, sizeof(words), "--config %s", file);
    ck_assert_int_eq(load(words), CONFIG_RUN);
    ck_assert_uint_eq(config.listen.count, 2);
    ck_assert_uint_eq(config.heartbeat, 90000);
    ck_assert_uint_eq(config.high_water, 2097152);
    ck_assert_uint_eq(config.log_level, CONFIG_WARN);
    ck_assert_str_eq(config.redis, "redis://h:1/2");
}
END_TEST

static const struct {
    const char *url;
    const char *shown;
} URLS[] = {
    {"redis://h:6379/0", "redis://h:6379/0"},
    {"redis://user@h:6379", "redis://user@h:6379"},
    {"redis://user:secret@h:6379/0", "redis://user:***@h:6379/0"},
    {"redis://:secret@h", "redis://:***@h"},
    {"redis://u:p@ss:w@h:1", "redis://u:***@h:1"},
    {"unix:///run/a:b@c.sock?db=0", "unix:///run/a:b@c.sock?db=0"},
    {"rediss+cluster://u:p,q@h:1,[::1]:2", "rediss+cluster://u:***@h:1,[::1]:2"},
    {"redis+sentinel://a:1,b/m?sentinel_password=x&sentinel_user=u",
     "redis+sentinel://a:1,b/m?sentinel_password=***"},
    {"redis+sentinel://:p@a/m?sentinel_user=u&Sentinel_Password=x",
     "redis+sentinel://:***@a/m?sentinel_user=u&Sentinel_Password=***"},
};
enum { URL_COUNT = sizeof(URLS) / sizeof(URLS[0]) };

START_TEST(a_password_is_not_shown)
{
    char shown[96];
    config_redact(URLS[_i].url, shown, sizeof(shown));
    ck_assert_str_eq(shown, URLS[_i].shown);
}
END_TEST

START_TEST(help_names_every_option_and_its_default)
{
    char *text;
    size_t len;
    FILE *to = open_memstream(&text, &len);
    config_print_help(to);
    (void)fclose(to);
    ck_assert_ptr_nonnull(strstr(text, "--listen ADDR  (127.0.0.1:8080)\n"));
    ck_assert_ptr_nonnull(strstr(text, "--high-water SIZE  (1MiB; 16KiB to 1GiB)\n"));
    ck_assert_ptr_nonnull(strstr(text, "--log-level debug|info|warn|error  (info)\n"));
    ck_assert_ptr_nonnull(strstr(text, "--config FILE\n"));
    for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n') + 1)
        ck_assert_uint_le(strcspn(line, "\n"), 100);
    free(text);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *s = suite_create("config");
    TCase *tc = tcase_create("values");
    tcase_add_loop_test(tc, a_number_has_a_unit_that_fits, 0, VALUE_COUNT);
    tcase_add_test(tc, distance_counts_the_letters_that_differ);
    suite_add_tcase(s, tc);

    tc = tcase_create("sources");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, without_anything_the_defaults_count);
    tcase_add_test(tc, a_flag_beats_the_environment_which_beats_the_file);
    tcase_add_test(tc, the_environment_may_name_the_file);
    tcase_add_test(tc, a_list_of_a_stronger_source_replaces_the_weaker_one_whole);
    tcase_add_test(tc, choices_are_read_by_name);
    tcase_add_test(tc, wishes_are_understood);
    suite_add_tcase(s, tc);

    tc = tcase_create("refusals");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, what_makes_no_sense_is_refused_with_the_reason, 0, REFUSAL_COUNT);
    tcase_add_test(tc, the_environment_is_named_where_it_is_wrong);
    tcase_add_loop_test(tc, a_file_is_refused_with_its_name_and_line, 0, FILE_COUNT);
    suite_add_tcase(s, tc);

    tc = tcase_create("printing");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, what_is_printed_can_be_read_again);
    tcase_add_loop_test(tc, a_password_is_not_shown, 0, URL_COUNT);
    tcase_add_test(tc, help_names_every_option_and_its_default);
    suite_add_tcase(s, tc);
    return s;
}
