#include "roomlog/redis_place.h"

#include <stdio.h>
#include <string.h>

bool redis_place_set(struct redis_place *place, struct str host, long long port)
{
    if (host.len == 0 || host.len > REDIS_PLACE_HOST_MAX || port < 1 || port > UINT16_MAX ||
        memchr(host.p, '\0', host.len) != NULL)
        return false;
    *place = (struct redis_place){.port = (uint16_t)port};
    memcpy(place->host, host.p, host.len);
    return true;
}

bool redis_place_eq(const struct redis_place *a, const struct redis_place *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

const char *redis_place_format(const struct redis_place *place, char dst[REDIS_PLACE_TEXT_MAX])
{
    if (place->port == 0)
        (void)snprintf(dst, REDIS_PLACE_TEXT_MAX, "unix:%s", place->host);
    else if (strchr(place->host, ':') != NULL)
        (void)snprintf(dst, REDIS_PLACE_TEXT_MAX, "[%s]:%u", place->host, place->port);
    else
        (void)snprintf(dst, REDIS_PLACE_TEXT_MAX, "%s:%u", place->host, place->port);
    return dst;
}
