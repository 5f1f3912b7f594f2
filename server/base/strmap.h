/* strmap.h - text to pointer, safe against keys that were made to collide.
 *
 * Keys are hashed with SipHash under a seed of the owner's (drawn at random), so that a peer who
 * chooses names can't choose buckets. Open addressing: doubles above three quarters full, halves
 * below an eighth. Doesn't copy keys: a key must live as long as its place in the map, best inside
 * the value.
 *
 * Always true: at most one value a key; values are never NULL.
 */
#ifndef BASE_STRMAP_H
#define BASE_STRMAP_H

#include "protocol/str.h"

#include <stdint.h>

struct strmap_slot {
    struct str key;
    void *value; /* NULL: free */
    uint64_t hash;
};

struct strmap {
    struct strmap_slot *slots; /* capacity is 0 or a power of two */
    size_t capacity;
    size_t count;
    uint64_t seed[2];
};

/* Allocates nothing until the first put. */
void strmap_init(struct strmap *map, uint64_t seed0, uint64_t seed1);
/* Frees the map's own memory, not the values. */
void strmap_fini(struct strmap *map);

/* Returns the value, or NULL. */
void *strmap_find(const struct strmap *map, struct str key);
/* The key must not be in the map. Keeps key (see above) and value. */
void strmap_put(struct strmap *map, struct str key, void *value);
/* Returns what was there, or NULL. */
void *strmap_remove(struct strmap *map, struct str key);

/* Walks the map: begin with *at = 0; NULL at the end. The map must not change meanwhile. */
void *strmap_next(const struct strmap *map, size_t *at);

/* SipHash-1-3 of key. Here so that a test can hold it against known values. */
uint64_t strmap_hash(struct str key, const uint64_t seed[2]);

#endif
