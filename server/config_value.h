/* config_value.h - numbers with units, and the nearest name: what config.c is made of.
 */
#ifndef CONFIG_VALUE_H
#define CONFIG_VALUE_H

#include "base/rd.h"

#include <stdbool.h>
#include <stdint.h>

enum config_unit { CONFIG_COUNT, CONFIG_BYTES, CONFIG_MS };

enum { CONFIG_VALUE_TEXT_MAX = 32 };

/* "10000"; "64KiB", "64k", "1MiB", "2GiB" (powers of 1024); "250ms", "5s", "10m", "2h", "7d". 0
 * needs no unit; another duration does. False: text is none of these, or too large. */
RD_MUST_USE bool config_value_parse(const char *text, enum config_unit unit, uint64_t *out);

/* The shortest text that parses to value. Returns dst. */
const char *config_value_format(uint64_t value, enum config_unit unit,
                                char dst[CONFIG_VALUE_TEXT_MAX]);

/* How many letters must be added, dropped or changed to make b of a; at most limit + 1. */
unsigned config_value_distance(const char *a, const char *b, unsigned limit);

#endif
