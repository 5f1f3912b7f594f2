#include "base/list.h"

#include "tests/lib/suite.h"

struct item {
    int number;
    struct list link;
};

static struct list head;
static struct item items[3];

static void make(void)
{
    list_init(&head);
    for (int i = 0; i < 3; i++) {
        items[i].number = i;
        list_init(&items[i].link);
    }
}

static void push_all(void)
{
    for (int i = 0; i < 3; i++)
        list_push_back(&head, &items[i].link);
}

START_TEST(a_new_list_is_empty_and_pops_nothing)
{
    ck_assert(list_empty(&head));
    ck_assert_ptr_null(list_pop_front(&head));
}
END_TEST

START_TEST(items_leave_in_the_order_they_came)
{
    push_all();
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(LIST_ITEM(list_pop_front(&head), struct item, link)->number, i);
    ck_assert(list_empty(&head));
}
END_TEST

START_TEST(removing_twice_is_harmless)
{
    push_all();
    list_remove(&items[1].link);
    list_remove(&items[1].link);
    ck_assert_ptr_eq(list_pop_front(&head), &items[0].link);
    ck_assert_ptr_eq(list_pop_front(&head), &items[2].link);
    ck_assert_ptr_null(list_pop_front(&head));
}
END_TEST

START_TEST(a_popped_link_is_in_no_list)
{
    push_all();
    ck_assert_ptr_eq(list_pop_front(&head), &items[0].link);
    ck_assert(list_empty(&items[0].link));
    list_remove(&items[0].link);
    ck_assert_ptr_eq(head.next, &items[1].link);
}
END_TEST

START_TEST(a_walk_may_remove_where_it_stands)
{
    int seen = 0;
    push_all();
    list_for_each_safe (link, after, &head) {
        ck_assert_int_eq(LIST_ITEM(link, struct item, link)->number, seen++);
        list_remove(link);
    }
    ck_assert_int_eq(seen, 3);
    ck_assert(list_empty(&head));
}
END_TEST

START_TEST(moving_all_keeps_the_order_and_leaves_nothing)
{
    struct list other;
    list_init(&other);
    list_push_back(&head, &items[0].link);
    list_push_back(&other, &items[1].link);
    list_push_back(&other, &items[2].link);
    list_move_all(&head, &other);
    ck_assert(list_empty(&other));
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_eq(list_pop_front(&head), &items[i].link);
    list_move_all(&head, &other); /* nothing to move */
    ck_assert(list_empty(&head));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("list");
    TCase *tc = tcase_create("list");
    tcase_add_checked_fixture(tc, make, NULL);
    tcase_add_test(tc, a_new_list_is_empty_and_pops_nothing);
    tcase_add_test(tc, items_leave_in_the_order_they_came);
    tcase_add_test(tc, removing_twice_is_harmless);
    tcase_add_test(tc, a_popped_link_is_in_no_list);
    tcase_add_test(tc, a_walk_may_remove_where_it_stands);
    tcase_add_test(tc, moving_all_keeps_the_order_and_leaves_nothing);
    suite_add_tcase(suite, tc);
    return suite;
}
