#include "config_value.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 63 };

struct scale {
    const char *suffix;
    uint64_t factor;
};

/* Largest first; of equal factors, the one that is printed comes first. */
static const struct scale COUNT[] = {{"", 1}, {NULL, 0}};
static const struct scale BYTES[] = {
    {"GiB", 1u << 30}, {"G", 1u << 30}, {"MiB", 1u << 20}, {"M", 1u << 20}, {"KiB", 1u << 10},
    {"k", 1u << 10},   {"K", 1u << 10}, {"", 1},           {"B", 1},        {NULL, 0},
};
static const struct scale MS[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}, {NULL, 0},
};

static const struct scale *scales(enum config_unit unit)
{
    return unit == CONFIG_BYTES ? BYTES : unit == CONFIG_MS ? MS : COUNT;
}

bool config_value_parse(const char *text, enum config_unit unit, uint64_t *out)
{
    uint64_t number = 0;
    const char *p = text;
    for (; *p >= '0' && *p <= '9'; p++) {
        unsigned digit = (unsigned)(*p - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    if (p == text)
        return false;
    if (number == 0 && *p == '\0') {
        *out = 0;
        return true;
    }
    for (const struct scale *s = scales(unit); s->suffix != NULL; s++) {
        if (strcmp(p, s->suffix) != 0)
            continue;
        if (number > UINT64_MAX / s->factor)
            return false;
        *out = number * s->factor;
        return true;
    }
    return false;
}

const char *config_value_format(uint64_t value, enum config_unit unit,
                                char dst[CONFIG_VALUE_TEXT_MAX])
{
    const struct scale *s = scales(unit);
    if (value == 0) {
        (void)snprintf(dst, CONFIG_VALUE_TEXT_MAX, "0");
        return dst;
    }
    while (value % s->factor != 0)
        s++;
    (void)snprintf(dst, CONFIG_VALUE_TEXT_MAX, "%" PRIu64 "%s", value / s->factor, s->suffix);
    return dst;
}

unsigned config_value_distance(const char *a, const char *b, unsigned limit)
{
    size_t a_len = strlen(a), b_len = strlen(b);
    unsigned row[NAME_MAX_LEN + 1];
    if (a_len > NAME_MAX_LEN || b_len > NAME_MAX_LEN)
        return limit + 1;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned changed = diagonal + (a[i - 1] != b[j - 1]);
            unsigned least = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            diagonal = row[j];
            row[j] = changed < least ? changed : least;
        }
    }
    return row[b_len] > limit ? limit + 1 : row[b_len];
}
