#include "roomlog/redis_finder.h"

static void never_waits(struct redis_finder *finder, struct redis_find *find)
{
    (void)finder;
    (void)find;
}

static const struct redis_place *find_fixed(struct redis_finder *finder, struct redis_find *find)
{
    (void)find;
    return &RD_CONTAINER(finder, struct redis_finder_fixed, finder)->place;
}

void redis_finder_fixed_init(struct redis_finder_fixed *fixed, const struct redis_place *place)
{
    *fixed = (struct redis_finder_fixed){.finder = {.find = find_fixed, .cancel = never_waits},
                                         .place = *place};
}

static const struct redis_place *find_turn(struct redis_finder *finder, struct redis_find *find)
{
    const struct redis_finder_turn *turn = RD_CONTAINER(finder, struct redis_finder_turn, finder);
    (void)find;
    return &turn->places[turn->at % turn->count];
}

void redis_finder_turn_init(struct redis_finder_turn *turn, const struct redis_place *places,
                            size_t count)
{
    *turn = (struct redis_finder_turn){
        .finder = {.find = find_turn, .cancel = never_waits}, .places = places, .count = count};
}

void redis_finder_turn_next(struct redis_finder_turn *turn)
{
    turn->at = (turn->at + 1) % turn->count;
}
