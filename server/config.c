#include "config.h"

#include "base/xalloc.h"
#include "config_options.h"

#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>

enum { NEAR = 3 };

/* Where a value was given: from the weakest to the strongest. */
enum source { BY_DEFAULT, FILE_LINE, ENVIRONMENT, FLAG };

struct loading {
    struct config *config;
    enum source source;
    enum source given_by[CONFIG_OPTIONS_MAX]; /* for lists, which a stronger source begins anew */
    const char *file;
    char *reason; /* "" while all is well */
    size_t cap;
};

static bool RD_PRINTF(2, 3) fail(struct loading *l, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(l->reason, l->cap, fmt, args);
    va_end(args);
    return false;
}

/* --- names ---------------------------------------------------------------------------------- */

static bool fail_unknown(struct loading *l, const char *what, const char *name)
{
    const char *nearest = NULL;
    unsigned least = NEAR + 1;
    for (size_t i = 0; i < config_options_count; i++) {
        unsigned distance = config_value_distance(name, config_options[i].name, NEAR);
        if (distance < least) {
            least = distance;
            nearest = config_options[i].name;
        }
    }
    if (nearest == NULL)
        return fail(l, "unknown %s %s: roomd --help lists them", what, name);
    return fail(l, "unknown %s %s: did you mean %s?", what, name, nearest);
}

/* --- values --------------------------------------------------------------------------------- */

static void list_clear(struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct config_list){NULL, 0};
}

static void list_add(struct config_list *list, struct str item)
{
    list->items = xalloc_array(list->items, list->count + 1, sizeof(*list->items));
    list->items[list->count++] = xalloc_str(item);
}

/* The environment has one value for a list: its items have commas between them. */
static void list_add_all(struct config_list *list, const char *text, bool split)
{
    for (;;) {
        size_t len = split ? strcspn(text, ",") : strlen(text);
        list_add(list, (struct str){text, len});
        if (text[len] == '\0')
            return;
        text += len + 1;
    }
}

static bool set_choice(struct loading *l, const struct config_option *o, const char *text)
{
    uint64_t which = 0;
    for (const char *p = o->argument;; which++) {
        size_t len = strcspn(p, "|");
        if (strlen(text) == len && memcmp(text, p, len) == 0) {
            *(uint64_t *)config_options_field(l->config, o) = which;
            return true;
        }
        if (p[len] == '\0')
            return fail(l, "%s: expected %s, not \"%s\"", o->name, o->argument, text);
        p += len + 1;
    }
}

static bool set_number(struct loading *l, const struct config_option *o, const char *text)
{
    static const char *const EXPECTED[] = {
        [CONFIG_COUNT] = "a number",
        [CONFIG_BYTES] = "a size such as 64KiB or 1MiB",
        [CONFIG_MS] = "a time such as 250ms, 5s or 10m",
    };
    char min[CONFIG_VALUE_TEXT_MAX], max[CONFIG_VALUE_TEXT_MAX];
    uint64_t value;
    if (!config_value_parse(text, o->unit, &value))
        return fail(l, "%s: expected %s, not \"%s\"", o->name, EXPECTED[o->unit], text);
    if (value < o->min || value > o->max)
        return fail(l, "%s: %s is not between %s and %s", o->name, text,
                    config_value_format(o->min, o->unit, min),
                    config_value_format(o->max, o->unit, max));
    *(uint64_t *)config_options_field(l->config, o) = value;
    return true;
}

static bool set(struct loading *l, const struct config_option *o, const char *text)
{
    enum source *given_by = &l->given_by[o - config_options];
    if (text[0] == '\0')
        return fail(l, "%s: a value is missing", o->name);

    if (o->kind == CONFIG_CHOICE)
        return set_choice(l, o, text);
    if (o->kind == CONFIG_NUMBER)
        return set_number(l, o, text);
    if (o->kind == CONFIG_TEXT) {
        char **value = config_options_field(l->config, o);
        free(*value);
        *value = xalloc_str(str_from(text));
        return true;
    }
    struct config_list *list = config_options_field(l->config, o);
    if (*given_by != l->source)
        list_clear(list);
    *given_by = l->source;
    list_add_all(list, text, l->source == ENVIRONMENT);
    return true;
}

/* --- sources -------------------------------------------------------------------------------- */

static bool load_defaults(struct loading *l)
{
    bool ok = true;
    l->source = BY_DEFAULT;
    for (size_t i = 0; i < config_options_count && ok; i++)
        ok = config_options[i].by_default == NULL ||
             set(l, &config_options[i], config_options[i].by_default);
    return ok;
}

/* For libinih: 0 is an error. It goes on to the end and then gives the first error's line. */
static int on_file_line(void *arg, const char *section, const char *name, const char *value)
{
    struct loading *l = arg;
    const struct config_option *o = config_options_find(name, strlen(name));
    if (l->reason[0] != '\0')
        return 1;
    if (section[0] != '\0')
        return fail(l, "unknown section [%s]: there are none", section);
    return o == NULL ? fail_unknown(l, "key", name) : set(l, o, value);
}

static bool load_file(struct loading *l)
{
    char why[512];
    l->source = FILE_LINE;
    int line = ini_parse(l->file, on_file_line, l);
    if (line == 0)
        return true;
    if (line < 0)
        return fail(l, "%s: can't be read", l->file);
    (void)snprintf(why, sizeof(why), "%s",
                   l->reason[0] == '\0' ? "expected key = value" : l->reason);
    return fail(l, "%s:%d: %s", l->file, line, why);
}

static bool load_environment(struct loading *l, char *(*env)(const char *))
{
    l->source = ENVIRONMENT;
    for (size_t i = 0; i < config_options_count; i++) {
        char name[CONFIG_OPTIONS_NAME_MAX], why[512];
        config_options_env_name(&config_options[i], name);
        const char *value = env(name);
        if (value == NULL || value[0] == '\0' || set(l, &config_options[i], value))
            continue;
        (void)snprintf(why, sizeof(why), "%s", l->reason);
        return fail(l, "environment %s: %s", name, why);
    }
    return true;
}

/* What isn't in the table: it says what to do, not how. */
static bool is_wish(const char *arg, enum config_wish *wish)
{
    static const struct {
        const char *flag;
        enum config_wish wish;
    } WISHES[] = {{"--check-config", CONFIG_CHECK},
                  {"--help", CONFIG_HELP},
                  {"-h", CONFIG_HELP},
                  {"--version", CONFIG_VERSION}};
    for (size_t i = 0; i < sizeof(WISHES) / sizeof(WISHES[0]); i++) {
        if (strcmp(arg, WISHES[i].flag) == 0) {
            *wish = WISHES[i].wish;
            return true;
        }
    }
    return false;
}

/* Walks the flags; where only_file, to find --config, else to set what they say. */
static bool walk_flags(struct loading *l, int argc, char *const *argv, bool only_file,
                       enum config_wish *wish)
{
    l->source = FLAG;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (is_wish(arg, wish))
            continue;
        if (strncmp(arg, "--", 2) != 0)
            return fail(l, "unexpected argument %s", arg);

        char name[CONFIG_OPTIONS_NAME_MAX];
        size_t len = strcspn(arg + 2, "=");
        (void)snprintf(name, sizeof(name), "%.*s", (int)len, arg + 2);
        const struct config_option *o = config_options_find(arg + 2, len);
        bool is_file = strcmp(name, "config") == 0;
        if (o == NULL && !is_file)
            return fail_unknown(l, "option", name);

        const char *value = arg[2 + len] == '=' ? arg + 2 + len + 1 : argv[++i];
        if (i >= argc)
            return fail(l, "--%s: a value is missing", name);
        if (is_file)
            l->file = value;
        else if (!only_file && !set(l, o, value)) {
            char why[512];
            (void)snprintf(why, sizeof(why), "%s", l->reason);
            return fail(l, "--%s", why);
        }
    }
    return true;
}

/* --- what must fit together ----------------------------------------------------------------- */

static bool check(struct loading *l)
{
    const struct config *c = l->config;
    if (c->low_water >= c->high_water)
        return fail(l, "low-water must be below high-water");
    if (c->page_bytes > c->high_water)
        return fail(l, "page-bytes must not be above high-water");
    if (c->pending_bytes > c->high_water)
        return fail(l, "pending-bytes must not be above high-water");
    if (c->max_frame > c->high_water)
        return fail(l, "max-frame must not be above high-water");
    if (c->high_water > c->packet_budget)
        return fail(l, "high-water must not be above packet-budget");
    if (c->redis == NULL && c->retention_entries == 0)
        return fail(l, "retention-entries: without redis a room must be cut by count");
    if (c->redis == NULL && c->publish_ack != CONFIG_ACK_MEMORY)
        return fail(l, "publish-ack: without redis there is only memory");
    if (c->publish_ack != CONFIG_ACK_MEMORY && c->publish_ack_timeout >= c->redis_command_timeout)
        return fail(l, "publish-ack-timeout must be below redis-command-timeout");
    return true;
}

enum config_wish config_load(struct config *config, int argc, char *const *argv,
                             char *(*env)(const char *name), char *reason, size_t cap)
{
    enum config_wish wish = CONFIG_RUN;
    struct loading l = {.config = config, .reason = reason, .cap = cap};
    *config = (struct config){.redis = NULL};
    reason[0] = '\0';

    if (!walk_flags(&l, argc, argv, true, &wish))
        return CONFIG_BAD;
    if (wish == CONFIG_HELP || wish == CONFIG_VERSION)
        return wish;
    if (l.file == NULL)
        l.file = env("ROOMD_CONFIG");

    bool ok = load_defaults(&l) && (l.file == NULL || load_file(&l)) && load_environment(&l, env) &&
              walk_flags(&l, argc, argv, false, &wish) && check(&l);
    return ok ? wish : CONFIG_BAD;
}

void config_fini(struct config *config)
{
    for (size_t i = 0; i < config_options_count; i++) {
        void *value = config_options_field(config, &config_options[i]);
        if (config_options[i].kind == CONFIG_LIST)
            list_clear(value);
        if (config_options[i].kind == CONFIG_TEXT) {
            free(*(char **)value);
            *(char **)value = NULL;
        }
    }
}

void config_redact(const char *url, char *dst, size_t cap)
{
    const char *scheme = strstr(url, "://");
    const char *user = scheme == NULL ? url : scheme + 3;
    /* The last @ before the path: a password that isn't encoded may hold one. */
    const char *at = NULL;
    for (const char *p = user; *p != '\0' && *p != '/' && *p != '?'; p++)
        if (*p == '@')
            at = p;
    const char *colon = at == NULL ? NULL : memchr(user, ':', (size_t)(at - user));
    const char *rest = colon == NULL ? url : at;
    /* The sentinels' own password may follow; what stands behind that is left out with it. */
    static const char second[] = "sentinel_password=";
    const char *value = strcasestr(rest, second);
    int left = value == NULL ? (int)strlen(rest) : (int)(value - rest) + (int)sizeof(second) - 1;
    (void)snprintf(dst, cap, "%.*s%s%.*s%s", colon == NULL ? 0 : (int)(colon - url), url,
                   colon == NULL ? "" : ":***", left, rest, value == NULL ? "" : "***");
}
