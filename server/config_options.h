/* config_options.h - the table of options behind config.h, for its own three files.
 */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include "config.h"
#include "config_value.h"

enum config_kind { CONFIG_TEXT, CONFIG_LIST, CONFIG_CHOICE, CONFIG_NUMBER };

struct config_option {
    const char *name;
    enum config_kind kind;
    enum config_unit unit;  /* of a number */
    size_t at;              /* in struct config */
    const char *by_default; /* NULL: nothing */
    uint64_t min, max;      /* of a number */
    const char *argument;   /* what --help calls it; a choice's choices, with | between */
    const char *help;
};

enum { CONFIG_OPTIONS_MAX = 64, CONFIG_OPTIONS_NAME_MAX = 64 };

extern const struct config_option config_options[];
extern const size_t config_options_count; /* at most CONFIG_OPTIONS_MAX */

/* NULL: there is none. */
const struct config_option *config_options_find(const char *name, size_t len);
/* "high-water" is ROOMD_HIGH_WATER. */
void config_options_env_name(const struct config_option *option, char dst[CONFIG_OPTIONS_NAME_MAX]);

/* A number's uint64_t (a choice's index too), a text's char *, a list's struct config_list. */
static inline void *config_options_field(struct config *config, const struct config_option *option)
{
    return (char *)config + option->at;
}

#endif
