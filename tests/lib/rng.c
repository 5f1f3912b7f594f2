#include "tests/lib/rng.h"

#include <assert.h>

void rng_init(struct rng *rng, uint64_t seed)
{
    rng->state = seed;
}

/* SplitMix64 (Steele, Lea, Flood): any seed will do, 0 included. */
uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    assert(bound != 0);
    /* The bias towards small numbers is below bound / 2^64: nothing a test could see. */
    return rng_next(rng) % bound;
}

bool rng_chance(struct rng *rng, unsigned percent)
{
    return rng_below(rng, 100) < percent;
}
