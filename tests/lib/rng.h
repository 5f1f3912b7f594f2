/* rng.h - a small random source for tests: the same numbers from the same seed, everywhere.
 *
 * Every randomised test prints its seed, and takes one to play a failure again.
 */
#ifndef TESTS_LIB_RNG_H
#define TESTS_LIB_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

void rng_init(struct rng *rng, uint64_t seed);
uint64_t rng_next(struct rng *rng);
/* From [0, bound); bound must not be 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);
/* True in percent of 100 draws, about. */
bool rng_chance(struct rng *rng, unsigned percent);

#endif
