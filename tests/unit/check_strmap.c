#include "base/strmap.h"

#include "tests/lib/rng.h"
#include "tests/lib/suite.h"

#include <stdint.h>
#include <stdio.h>

enum { KEYS = 500 };

static struct strmap map;
static char names[KEYS][8];
static struct str keys[KEYS];

static void make(void)
{
    strmap_init(&map, 1, 2);
    for (size_t i = 0; i < KEYS; i++) {
        keys[i].p = names[i];
        keys[i].len = (size_t)snprintf(names[i], sizeof(names[i]), "k%zu", i);
    }
}

static void unmake(void)
{
    strmap_fini(&map);
}

START_TEST(an_empty_map_has_allocated_nothing_and_finds_nothing)
{
    size_t at = 0;
    ck_assert_ptr_null(map.slots);
    ck_assert_ptr_null(strmap_find(&map, STR("a")));
    ck_assert_ptr_null(strmap_remove(&map, STR("a")));
    ck_assert_ptr_null(strmap_next(&map, &at));
}
END_TEST

START_TEST(each_key_finds_its_own_value)
{
    for (size_t i = 0; i < KEYS; i++)
        strmap_put(&map, keys[i], names[i]);
    ck_assert_uint_eq(map.count, KEYS);
    for (size_t i = 0; i < KEYS; i++)
        ck_assert_ptr_eq(strmap_find(&map, keys[i]), names[i]);
    ck_assert_ptr_null(strmap_find(&map, STR("k")));
    ck_assert_ptr_null(strmap_find(&map, STR("k500")));
    ck_assert_ptr_null(strmap_find(&map, STR("")));
}
END_TEST

START_TEST(any_bytes_are_a_key_and_the_empty_text_too)
{
    int a, b, c;
    strmap_put(&map, STR(""), &a);
    strmap_put(&map, STR("\0"), &b);
    strmap_put(&map, STR("\0\0"), &c);
    ck_assert_ptr_eq(strmap_find(&map, (struct str){NULL, 0}), &a);
    ck_assert_ptr_eq(strmap_find(&map, STR("\0")), &b);
    ck_assert_ptr_eq(strmap_remove(&map, STR("\0\0")), &c);
}
END_TEST

START_TEST(remove_gives_the_value_once)
{
    strmap_put(&map, keys[0], names[0]);
    strmap_put(&map, keys[1], names[1]);
    ck_assert_ptr_eq(strmap_remove(&map, keys[0]), names[0]);
    ck_assert_ptr_null(strmap_remove(&map, keys[0]));
    ck_assert_ptr_eq(strmap_find(&map, keys[1]), names[1]);
    ck_assert_uint_eq(map.count, 1);
}
END_TEST

START_TEST(a_walk_sees_each_value_once)
{
    bool seen[KEYS] = {false};
    size_t at = 0;
    for (size_t i = 0; i < KEYS; i++)
        strmap_put(&map, keys[i], names[i]);
    for (char *name; (name = strmap_next(&map, &at)) != NULL;) {
        size_t i = strtoul(name + 1, NULL, 10);
        ck_assert(!seen[i]);
        seen[i] = true;
    }
    for (size_t i = 0; i < KEYS; i++)
        ck_assert(seen[i]);
}
END_TEST

START_TEST(a_map_that_was_large_gives_its_memory_back)
{
    for (size_t i = 0; i < KEYS; i++)
        strmap_put(&map, keys[i], names[i]);
    size_t most = map.capacity;
    for (size_t i = 0; i < KEYS - 1; i++)
        ck_assert_ptr_eq(strmap_remove(&map, keys[i]), names[i]);
    ck_assert_uint_lt(map.capacity, most / 8);
    ck_assert_ptr_eq(strmap_find(&map, keys[KEYS - 1]), names[KEYS - 1]);
}
END_TEST

/* Holds the map against an array of the same thing, through growth, wrap-around and holes. */
START_TEST(random_puts_and_removes_agree_with_a_plain_array)
{
    bool in[KEYS] = {false};
    size_t count = 0;
    struct rng rng;
    rng_init(&rng, (uint64_t)_i);
    for (int step = 0; step < 3000; step++) {
        /* Phases of growing and shrinking; few keys at times, so that removing hits. */
        size_t i = rng_below(&rng, step / 300 % 2 == 0 ? KEYS : 40);
        if (!in[i] && rng_chance(&rng, 60)) {
            strmap_put(&map, keys[i], names[i]);
            in[i] = true;
            count++;
        } else {
            ck_assert_ptr_eq(strmap_remove(&map, keys[i]), in[i] ? names[i] : NULL);
            count -= in[i];
            in[i] = false;
        }
        ck_assert_uint_eq(map.count, count);
        /* One assert for all keys: each of Check's costs a write. */
        bool agree = true;
        for (size_t k = 0; k < KEYS && step % 50 == 0; k++)
            agree = agree && strmap_find(&map, keys[k]) == (in[k] ? names[k] : NULL);
        ck_assert_msg(agree, "seed %d, step %d", _i, step);
    }
}
END_TEST

/* SipHash-1-3 under the key 00 01 ... 0f of the bytes 00 01 ... (n - 1): from another
 * implementation, that of Rust's standard library. */
static const uint64_t HASHES[] = {
    UINT64_C(0xabac0158050fc4dc), UINT64_C(0xc9f49bf37d57ca93), UINT64_C(0x82cb9b024dc7d44d),
    UINT64_C(0x8bf80ab8e7ddf7fb), UINT64_C(0xcf75576088d38328), UINT64_C(0xdef9d52f49533b67),
    UINT64_C(0xc50d2b50c59f22a7), UINT64_C(0xd3927d989bb11140), UINT64_C(0x369095118d299a8e),
    UINT64_C(0x25a48eb36c063de4), UINT64_C(0x79de85ee92ff097f), UINT64_C(0x70c118c1f94dc352),
    UINT64_C(0x78a384b157b4d9a2), UINT64_C(0x306f760c1229ffa7), UINT64_C(0x605aa111c0f95d34),
    UINT64_C(0xd320d86d2a519956), UINT64_C(0xcc4fdd1a7d908b66), UINT64_C(0x9cf2689063dbd80c),
};

START_TEST(the_hash_is_siphash_1_3)
{
    const uint64_t seed[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    char *bytes = malloc((size_t)_i + 1);
    for (int i = 0; i < _i; i++)
        bytes[i] = (char)i;
    ck_assert_uint_eq(strmap_hash((struct str){bytes, (size_t)_i}, seed), HASHES[_i]);
    free(bytes);
}
END_TEST

START_TEST(another_seed_is_another_order)
{
    const uint64_t one[2] = {1, 2}, two[2] = {1, 3};
    ck_assert_uint_ne(strmap_hash(STR("lobby"), one), strmap_hash(STR("lobby"), two));
}
END_TEST

static Suite *suite_make(void)
{
    Suite *suite = suite_create("strmap");
    TCase *tc = tcase_create("strmap");
    tcase_add_checked_fixture(tc, make, unmake);
    tcase_add_test(tc, an_empty_map_has_allocated_nothing_and_finds_nothing);
    tcase_add_test(tc, each_key_finds_its_own_value);
    tcase_add_test(tc, any_bytes_are_a_key_and_the_empty_text_too);
    tcase_add_test(tc, remove_gives_the_value_once);
    tcase_add_test(tc, a_walk_sees_each_value_once);
    tcase_add_test(tc, a_map_that_was_large_gives_its_memory_back);
    tcase_add_loop_test(tc, random_puts_and_removes_agree_with_a_plain_array, 0, 5);
    tcase_add_loop_test(tc, the_hash_is_siphash_1_3, 0, sizeof(HASHES) / sizeof(HASHES[0]));
    tcase_add_test(tc, another_seed_is_another_order);
    suite_add_tcase(suite, tc);
    return suite;
}
