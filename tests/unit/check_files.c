#include "edge/files.h"

#include "tests/lib/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

/* In the order in which they can be removed. */
static const char *const EVERYTHING[] = {
    "page/index.html",
    "page/a.css",
    "page/notes.md",
    "page/.hidden.js",
    "page",
    "lib.js",
    "package.json",
    "test/lib.test.js",
    "test",
    "",
};
enum { EVERYTHING_COUNT = sizeof(EVERYTHING) / sizeof(EVERYTHING[0]) };

static void write_file(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    ck_assert_int_eq(fclose(file), 0);
}

static void make_dir(const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", root, name);
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void setup(void)
{
    strcpy(root, "/tmp/check_files_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    make_dir("page");
    make_dir("test");
    write_file("page/index.html", "<p>");
    write_file("page/a.css", "a {}");
    write_file("page/notes.md", "not served");
    write_file("page/.hidden.js", "not served");
    write_file("lib.js", "export {}");
    write_file("package.json", "{}");
    write_file("test/lib.test.js", "not served");
}

static void teardown(void)
{
    for (size_t i = 0; i < EVERYTHING_COUNT; i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/%s", root, EVERYTHING[i]);
        (void)remove(path); /* some tests have removed one */
    }
    ck_assert_int_ne(access(root, F_OK), 0);
}

static const struct files_blob *find(struct files *files, const char *path)
{
    return files_find(files, str_from(path));
}

static void assert_body(const struct files_blob *blob, const char *text)
{
    ck_assert_ptr_nonnull(blob);
    ck_assert_uint_eq(blob->len, strlen(text));
    ck_assert_mem_eq(blob->bytes, text, blob->len);
}

START_TEST(pages_and_modules_are_there_with_their_types)
{
    struct files *files = files_create(root, false);
    assert_body(find(files, "/"), "<p>");
    assert_body(find(files, "/page/index.html"), "<p>");
    assert_body(find(files, "/client/lib.js"), "export {}");
    ck_assert_str_eq(find(files, "/")->type, "text/html; charset=utf-8");
    ck_assert_str_eq(find(files, "/page/a.css")->type, "text/css; charset=utf-8");
    ck_assert_str_eq(find(files, "/client/lib.js")->type, "text/javascript; charset=utf-8");
    ck_assert_str_ne(find(files, "/")->etag, find(files, "/page/a.css")->etag);
    files_destroy(files);
}
END_TEST

static const char *const ABSENT[] = {
    "",
    "/page",
    "/page/",
    "/client/",
    "/lib.js",
    "/client/package.json",
    "/client/test/lib.test.js",
    "/client/lib.test.js",
    "/client/index.html",
    "/page/notes.md",
    "/page/.hidden.js",
    "/page/../lib.js",
    "/page/./index.html",
};
enum { ABSENT_COUNT = sizeof(ABSENT) / sizeof(ABSENT[0]) };

START_TEST(nothing_else_is_there)
{
    struct files *files = files_create(root, true);
    ck_assert_ptr_null(find(files, ABSENT[_i]));
    files_destroy(files);
}
END_TEST

START_TEST(a_changed_file_is_read_anew_where_that_was_asked_for)
{
    struct files *files = files_create(root, _i != 0);
    char etag[sizeof(find(files, "/")->etag)];
    strcpy(etag, find(files, "/")->etag);
    write_file("page/index.html", "<p>longer");
    assert_body(find(files, "/"), _i != 0 ? "<p>longer" : "<p>");
    ck_assert_int_eq(strcmp(find(files, "/")->etag, etag) != 0, _i != 0);
    files_destroy(files);
}
END_TEST

START_TEST(a_reply_under_way_keeps_the_old_bytes)
{
    struct files *files = files_create(root, true);
    struct files_blob *old = files_blob_ref(files_find(files, STR("/")));
    write_file("page/index.html", "<p>longer");
    assert_body(find(files, "/"), "<p>longer");
    assert_body(old, "<p>");
    files_blob_unref(old);
    files_destroy(files);
}
END_TEST

START_TEST(a_file_that_is_gone_is_served_as_it_was)
{
    char path[128];
    struct files *files = files_create(root, true);
    (void)snprintf(path, sizeof(path), "%s/lib.js", root);
    ck_assert_int_eq(unlink(path), 0);
    assert_body(find(files, "/client/lib.js"), "export {}");
    files_destroy(files);
}
END_TEST

START_TEST(a_root_without_a_page_is_refused)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/page/index.html", root);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_ptr_null(files_create(root, false));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_null(files_create("/nonexistent", false));
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *s = suite_create("files");
    TCase *tc = tcase_create("files");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, pages_and_modules_are_there_with_their_types);
    tcase_add_loop_test(tc, nothing_else_is_there, 0, ABSENT_COUNT);
    tcase_add_loop_test(tc, a_changed_file_is_read_anew_where_that_was_asked_for, 0, 2);
    tcase_add_test(tc, a_reply_under_way_keeps_the_old_bytes);
    tcase_add_test(tc, a_file_that_is_gone_is_served_as_it_was);
    tcase_add_test(tc, a_root_without_a_page_is_refused);
    suite_add_tcase(s, tc);
    return s;
}
