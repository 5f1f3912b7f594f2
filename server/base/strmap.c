#include "base/strmap.h"

#include "base/rd.h"
#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 16 };

/* SipHash-1-3 (Aumasson and Bernstein): one round a word and three at the end, which is what hash
 * tables use (Rust, Ruby, CPython) where the hash itself is never shown to anybody. */
struct sip {
    uint64_t v0, v1, v2, v3;
};

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return (x << bits) | (x >> (64 - bits));
}

static void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v1 = rotate(s->v1, 13) ^ s->v0;
    s->v0 = rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = rotate(s->v1, 17) ^ s->v2;
    s->v2 = rotate(s->v2, 32);
}

static void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    s->v0 ^= word;
}

/* Little-endian, whatever the machine is: so that the test's vectors hold everywhere. */
static uint64_t load(const unsigned char *p, size_t len)
{
    uint64_t word = 0;
    for (size_t i = 0; i < len; i++)
        word |= (uint64_t)p[i] << (8 * i);
    return word;
}

uint64_t strmap_hash(struct str key, const uint64_t seed[2])
{
    struct sip s = {
        .v0 = seed[0] ^ UINT64_C(0x736f6d6570736575),
        .v1 = seed[1] ^ UINT64_C(0x646f72616e646f6d),
        .v2 = seed[0] ^ UINT64_C(0x6c7967656e657261),
        .v3 = seed[1] ^ UINT64_C(0x7465646279746573),
    };
    const unsigned char *p = (const unsigned char *)key.p;
    size_t left = key.len;

    for (; left >= 8; p += 8, left -= 8)
        sip_word(&s, load(p, 8));
    sip_word(&s, load(p, left) | (uint64_t)key.len << 56);
    s.v2 ^= 0xff;
    sip_round(&s);
    sip_round(&s);
    sip_round(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

void strmap_init(struct strmap *map, uint64_t seed0, uint64_t seed1)
{
    *map = (struct strmap){.seed = {seed0, seed1}};
}

void strmap_fini(struct strmap *map)
{
    free(map->slots);
    map->slots = NULL;
    map->capacity = 0;
    map->count = 0;
}

static size_t after(const struct strmap *map, size_t place)
{
    return (place + 1) & (map->capacity - 1);
}

/* The place of key, or the free one where it would go. There is always a free one. */
static size_t place_of(const struct strmap *map, struct str key, uint64_t hash)
{
    size_t place = hash & (map->capacity - 1);
    for (; map->slots[place].value != NULL; place = after(map, place)) {
        const struct strmap_slot *slot = &map->slots[place];
        if (slot->hash == hash && str_eq(slot->key, key))
            break;
    }
    return place;
}

static void resize(struct strmap *map, size_t capacity)
{
    struct strmap_slot *old = map->slots;
    size_t old_capacity = map->capacity;

    map->slots = xalloc_array(NULL, capacity, sizeof(*map->slots));
    memset(map->slots, 0, capacity * sizeof(*map->slots));
    map->capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].value != NULL)
            map->slots[place_of(map, old[i].key, old[i].hash)] = old[i];
    free(old);
}

void *strmap_find(const struct strmap *map, struct str key)
{
    if (map->count == 0)
        return NULL;
    return map->slots[place_of(map, key, strmap_hash(key, map->seed))].value;
}

void strmap_put(struct strmap *map, struct str key, void *value)
{
    assert(value != NULL);
    /* Above three quarters, the runs of linear probing grow long. */
    if (map->count >= map->capacity / 4 * 3)
        resize(map, map->capacity == 0 ? FIRST_CAPACITY : map->capacity * 2);

    uint64_t hash = strmap_hash(key, map->seed);
    struct strmap_slot *slot = &map->slots[place_of(map, key, hash)];
    assert(slot->value == NULL);
    *slot = (struct strmap_slot){key, value, hash};
    map->count++;
}

/* Closes the hole: whatever probed its way past it moves back, so no tombstones are needed, and a
 * map that lives for months is as fast as a new one. */
static void shift_back(struct strmap *map, size_t hole)
{
    for (size_t i = after(map, hole); map->slots[i].value != NULL; i = after(map, i)) {
        size_t home = map->slots[i].hash & (map->capacity - 1);
        size_t mask = map->capacity - 1;
        if (((i - home) & mask) < ((i - hole) & mask))
            continue;
        map->slots[hole] = map->slots[i];
        hole = i;
    }
    map->slots[hole] = (struct strmap_slot){.value = NULL};
}

void *strmap_remove(struct strmap *map, struct str key)
{
    if (map->count == 0)
        return NULL;
    size_t place = place_of(map, key, strmap_hash(key, map->seed));
    void *value = map->slots[place].value;
    if (value == NULL)
        return NULL;

    shift_back(map, place);
    map->count--;
    if (map->capacity > FIRST_CAPACITY && map->count < map->capacity / 8)
        resize(map, map->capacity / 2);
    return value;
}

void *strmap_next(const struct strmap *map, size_t *at)
{
    while (*at < map->capacity) {
        void *value = map->slots[(*at)++].value;
        if (value != NULL)
            return value;
    }
    return NULL;
}
