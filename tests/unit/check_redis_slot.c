#include "roomlog/redis_slot.h"

#include "tests/lib/suite.h"

/* As CLUSTER KEYSLOT of Redis 7.0 says. */
static const struct {
    struct str key;
    unsigned slot;
} KEYS[] = {
    {STR("123456789"), 12739},
    {STR(""), 0},
    {STR("foo"), 12182},
    {STR("foo{"), 7673},
    {STR("foo}"), 15679},
    {STR("{}foo"), 9500},
    {STR("foo{bar}"), 5061},
    {STR("{foo}"), 12182},
    {STR("foo{}{bar}"), 8363},
    {STR("foo{{bar}}zap"), 4015},
    {STR("foo{bar}{zap}"), 5061},
    {STR("{room:lobby}:ref:3:ann:x"), 11688},
    {STR("room:lobby"), 11688},
    {STR("}{a}"), 15495},
    {STR("{user1000}.following"), 3443},
    {STR("\000\377"), 7920},
};

#define COUNT_OF(table) (int)(sizeof(table) / sizeof((table)[0]))

START_TEST(a_key_lies_where_redis_looks_for_it)
{
    ck_assert_uint_eq(redis_slot_of(KEYS[_i].key), KEYS[_i].slot);
}
END_TEST

START_TEST(no_byte_behind_the_key_is_looked_at)
{
    ck_assert_uint_eq(redis_slot_of((struct str){"123456789x", 9}), 12739);
    ck_assert_uint_eq(redis_slot_of((struct str){"123456789{a}", 9}), 12739);
    ck_assert_uint_eq(redis_slot_of((struct str){NULL, 0}), 0);
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("redis_slot");
    TCase *tc = tcase_create("of");
    tcase_add_loop_test(tc, a_key_lies_where_redis_looks_for_it, 0, COUNT_OF(KEYS));
    tcase_add_test(tc, no_byte_behind_the_key_is_looked_at);
    suite_add_tcase(suite, tc);
    return suite;
}
