#include "bench/bench_log_note.h"
#include "tests/lib/suite.h"

#include <string.h>

static const struct bench_log_note NOTE = {
    .run = 0x1a2b3c4d, .n = 987654321012, .due_ns = 0x00ff00ff12345678, .sent_ns = UINT64_MAX};

static struct str write_note(char *dst, size_t size, const struct bench_log_note *note)
{
    bench_log_note_write(dst, size, note);
    return (struct str){dst, size};
}

START_TEST(what_is_written_reads_back_at_every_size)
{
    static char dst[BENCH_LOG_NOTE_MAX];
    static const size_t sizes[] = {BENCH_LOG_NOTE_MIN, BENCH_LOG_NOTE_MIN + 1, 150,
                                   BENCH_LOG_NOTE_MAX};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct bench_log_note back = {0};
        ck_assert(bench_log_note_read(write_note(dst, sizes[i], &NOTE), &back));
        ck_assert_uint_eq(back.run, NOTE.run);
        ck_assert_uint_eq(back.n, NOTE.n);
        ck_assert_uint_eq(back.due_ns, NOTE.due_ns);
        ck_assert_uint_eq(back.sent_ns, NOTE.sent_ns);
    }
}
END_TEST

START_TEST(it_is_the_text_that_the_header_shows)
{
    char dst[BENCH_LOG_NOTE_MIN + 1] = {0};
    const struct bench_log_note note = {.run = 0x1a2b3c4d, .n = 1, .due_ns = 1234, .sent_ns = 1235};
    bench_log_note_write(dst, BENCH_LOG_NOTE_MIN, &note);
    ck_assert_ptr_eq(strstr(dst, "{\"run\":\"1a2b3c4d\",\"n\":\"000000000001\","
                                 "\"due\":\"00000000000004d2\",\"sent\":\"00000000000004d3\","
                                 "\"pad\":\"xxx"),
                     dst);
    ck_assert_str_eq(dst + BENCH_LOG_NOTE_MIN - 2, "\"}");
}
END_TEST

START_TEST(a_byte_that_was_changed_outside_the_padding_is_refused_or_read_as_another_value)
{
    char dst[BENCH_LOG_NOTE_MIN];
    size_t pad = (size_t)(strchr(write_note(dst, sizeof(dst), &NOTE).p, 'x') - dst);
    for (size_t i = 0; i < sizeof(dst); i++) {
        if (i >= pad && i < sizeof(dst) - 2)
            continue;
        struct bench_log_note back;
        struct str text = write_note(dst, sizeof(dst), &NOTE);
        dst[i] = dst[i] == '0' ? '1' : '0';
        if (bench_log_note_read(text, &back))
            ck_assert(back.run != NOTE.run || back.n != NOTE.n || back.due_ns != NOTE.due_ns ||
                      back.sent_ns != NOTE.sent_ns);
    }
}
END_TEST

START_TEST(what_is_too_short_or_absent_is_refused)
{
    char dst[BENCH_LOG_NOTE_MIN];
    struct bench_log_note back;
    struct str text = write_note(dst, sizeof(dst), &NOTE);
    text.len--;
    ck_assert(!bench_log_note_read(text, &back));
    ck_assert(!bench_log_note_read((struct str){NULL, 0}, &back));
    ck_assert(!bench_log_note_read((struct str){dst, 0}, &back));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *s = suite_create("bench_log_note");
    TCase *tc = tcase_create("note");
    tcase_add_test(tc, what_is_written_reads_back_at_every_size);
    tcase_add_test(tc, it_is_the_text_that_the_header_shows);
    tcase_add_test(tc,
                   a_byte_that_was_changed_outside_the_padding_is_refused_or_read_as_another_value);
    tcase_add_test(tc, what_is_too_short_or_absent_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
