#include "roomlog/redis_finder.h"

static const struct redis_place *find(struct redis_finder *finder, struct redis_find *find)
{
    (void)find;
    return &RD_CONTAINER(finder, struct redis_finder_fixed, finder)->place;
}

static void cancel(struct redis_finder *finder, struct redis_find *find)
{
    (void)finder;
    (void)find;
}

void redis_finder_fixed_init(struct redis_finder_fixed *fixed, const struct redis_place *place)
{
    *fixed =
        (struct redis_finder_fixed){.finder = {.find = find, .cancel = cancel}, .place = *place};
}
