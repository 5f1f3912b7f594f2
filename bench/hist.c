#include "bench/hist.h"

#include <stddef.h>

static const uint64_t LARGEST = (UINT64_C(1) << HIST_VALUE_BITS) - 1;

/* How far a value is shifted right until it has HIST_SUB_BITS + 1 significant bits. */
static unsigned shift_of(uint64_t value)
{
    if (value < (UINT64_C(1) << (HIST_SUB_BITS + 1)))
        return 0;
    return 63u - (unsigned)__builtin_clzll(value) - HIST_SUB_BITS;
}

static size_t bucket_of(uint64_t value)
{
    unsigned shift = shift_of(value);
    return ((size_t)shift << HIST_SUB_BITS) + (size_t)(value >> shift);
}

/* The largest value that falls into a bucket. */
static uint64_t bucket_top(size_t bucket)
{
    if (bucket < (1u << (HIST_SUB_BITS + 1)))
        return bucket;
    /* The top half of every shift's range is in use, so its number also says the shift. */
    unsigned shift = (unsigned)(bucket >> HIST_SUB_BITS) - 1;
    uint64_t scaled = bucket - ((size_t)shift << HIST_SUB_BITS);
    return ((scaled + 1) << shift) - 1;
}

void hist_add(struct hist *hist, uint64_t value)
{
    hist->count++;
    if (value > hist->max)
        hist->max = value;
    hist->buckets[bucket_of(value < LARGEST ? value : LARGEST)]++;
}

uint64_t hist_quantile(const struct hist *hist, unsigned per_100k)
{
    if (hist->count == 0)
        return 0;
    /* Divided first, so that no count can overflow the product. */
    uint64_t rank =
        hist->count / 100000 * per_100k + (hist->count % 100000 * per_100k + 99999) / 100000;
    if (rank >= hist->count)
        return hist->max;

    uint64_t seen = 0;
    for (size_t i = 0; i < HIST_BUCKETS; i++) {
        seen += hist->buckets[i];
        if (seen >= rank && seen > 0) {
            uint64_t top = bucket_top(i);
            return top < hist->max ? top : hist->max;
        }
    }
    return hist->max;
}
