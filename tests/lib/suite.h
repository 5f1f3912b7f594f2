/* suite.h - the main() that all Check programs share.
 *
 * The program defines suite_make(), and that is all. Check forks for each test, so that a crash or
 * a hang (4 s, unless the test case says otherwise) is one failed test, and the leak checker looks
 * at each. Ends with Check's line "100%: Checks: N, Failures: 0, Errors: 0", which tests/run adds
 * up.
 */
#ifndef TESTS_LIB_SUITE_H
#define TESTS_LIB_SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

/* Returns owned. */
static Suite *suite_make(void);

int main(void)
{
    SRunner *runner = srunner_create(suite_make());
    srunner_run_all(runner, CK_NORMAL);
    /* A program that ran no test has shown nothing. */
    bool passed = srunner_ntests_run(runner) > 0 && srunner_ntests_failed(runner) == 0;
    srunner_free(runner);
    return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
