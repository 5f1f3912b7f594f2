#include "roomlog/redis_map.h"

#include "base/strmap.h"
#include "base/xalloc.h"
#include "roomlog/redis_reply.h"

#include <stdlib.h>

/* What is being parsed. */
struct parse {
    struct redis_map *map;
    const struct redis_place *teller;
    struct strmap known; /* the bytes of a place to its number */
};

/* One range of slots and who has it. */
struct range {
    long long first, last;
    struct redis_reply_parts nodes; /* the master, then its replicas */
};

static bool take_integer(struct redis_reply_parts *parts, long long *out)
{
    struct redis_reply part;
    return redis_reply_part(parts, &part) && redis_reply_integer(&part, out);
}

/* [first, last, master, replica, ...] */
static bool take_range(struct redis_reply_parts *ranges, struct range *out)
{
    struct redis_reply reply;
    return redis_reply_part(ranges, &reply) && redis_reply_array(&reply, &out->nodes) &&
           out->nodes.left >= 3 && take_integer(&out->nodes, &out->first) &&
           take_integer(&out->nodes, &out->last) && out->first >= 0 && out->first <= out->last &&
           out->last < REDIS_SLOTS;
}

/* [host, port, id, ...]; the host is nil or empty where the node doesn't know it. */
static bool take_node(const struct parse *parse, struct range *range, struct redis_place *out)
{
    struct redis_reply reply;
    struct redis_reply_parts parts;
    struct redis_reply host;
    struct str name;
    long long port;
    if (!redis_reply_part(&range->nodes, &reply) || !redis_reply_array(&reply, &parts) ||
        !redis_reply_part(&parts, &host) || !take_integer(&parts, &port))
        return false;
    if (!redis_reply_text(&host, &name)) {
        if (!redis_reply_nil(&host))
            return false;
        name.len = 0;
    }
    if (name.len == 0)
        name = str_from(parse->teller->host);
    return redis_place_set(out, name, port);
}

/* The place's number, from 1; 0: there is no room for it. */
static size_t number_of(struct parse *parse, const struct redis_place *place)
{
    struct redis_map *map = parse->map;
    void *found = strmap_find(&parse->known, (struct str){(const char *)place, sizeof(*place)});
    if (found != NULL)
        return (size_t)(uintptr_t)found;
    if (map->count == REDIS_MAP_PLACES_MAX)
        return 0;
    struct redis_place *kept = &map->places[map->count++];
    *kept = *place;
    strmap_put(&parse->known, (struct str){(const char *)kept, sizeof(*kept)},
               (void *)(uintptr_t)map->count);
    return map->count;
}

static bool add_master(struct parse *parse, struct range *range)
{
    struct redis_map *map = parse->map;
    struct redis_place place;
    if (!take_node(parse, range, &place))
        return false;
    size_t number = number_of(parse, &place);
    if (number == 0)
        map->left_out++;
    for (long long slot = range->first; number != 0 && slot <= range->last; slot++) {
        map->covered += map->owner[slot] == 0 ? 1 : 0;
        map->owner[slot] = (uint16_t)number;
    }
    return true;
}

/* They only help to find the cluster again, so a strange one is left out. */
static bool add_replicas(struct parse *parse, struct range *range)
{
    struct redis_reply master;
    struct redis_place place;
    (void)redis_reply_part(&range->nodes, &master);
    while (range->nodes.left != 0)
        if (take_node(parse, range, &place))
            (void)number_of(parse, &place);
    return true;
}

static bool each_range(struct parse *parse, struct redis_reply_parts ranges,
                       bool (*add)(struct parse *parse, struct range *range))
{
    struct range range;
    while (ranges.left != 0)
        if (!take_range(&ranges, &range) || !add(parse, &range))
            return false;
    return true;
}

bool redis_map_parse(const struct redis_reply *reply, const struct redis_place *teller,
                     struct redis_map *out_map)
{
    struct parse parse = {.map = out_map, .teller = teller};
    struct redis_reply_parts ranges;
    *out_map = (struct redis_map){.count = 0};
    if (!redis_reply_array(reply, &ranges))
        return false;
    out_map->places = xalloc_array(NULL, REDIS_MAP_PLACES_MAX, sizeof(*out_map->places));
    strmap_init(&parse.known, 0, 0);
    bool whole = each_range(&parse, ranges, add_master);
    out_map->masters = out_map->count;
    whole = whole && each_range(&parse, ranges, add_replicas);
    strmap_fini(&parse.known);
    if (!whole)
        redis_map_fini(out_map);
    return whole;
}

void redis_map_fini(struct redis_map *map)
{
    free(map->places);
    *map = (struct redis_map){.count = 0};
}

/* What follows "\n<name>:", or NULL. */
static const char *field_of(struct str text, struct str name)
{
    const char *found = memmem(text.p, text.len, name.p, name.len);
    return found == NULL ? NULL : found + name.len;
}

bool redis_map_parse_info(struct str text, struct redis_map_info *out_info)
{
    char digits[24];
    const char *state = field_of(text, STR("cluster_state:"));
    const char *epoch = field_of(text, STR("cluster_current_epoch:"));
    if (state == NULL || epoch == NULL)
        return false;
    const char *end = text.p + text.len;
    size_t len = 0;
    for (; epoch + len < end && len < sizeof(digits) - 1; len++) {
        if (epoch[len] < '0' || epoch[len] > '9')
            break;
        digits[len] = epoch[len];
    }
    digits[len] = '\0';
    out_info->ok = end - state >= 2 && memcmp(state, "ok", 2) == 0;
    out_info->epoch = strtoull(digits, NULL, 10);
    return len != 0;
}
