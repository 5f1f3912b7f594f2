#include "roomlog/redis_greet.h"

#include "roomlog/redis_reply.h"

#include <stdio.h>

enum step { AUTH, ROLE, SELECT, NAME_AND_PING, SAID };

static void say(struct redis_greet *greet, struct str first, struct str second, struct str third)
{
    greet->words[0] = first;
    greet->words[1] = second;
    greet->words[2] = third;
    size_t count = str_present(third) ? 3 : str_present(second) ? 2 : 1;
    greet->commands[0] = (struct redis_words){greet->words, count};
}

#define NOTHING ((struct str){NULL, 0})

/* The next step's commands. Returns how many; 0: the step isn't needed. */
static size_t say_step(struct redis_greet *greet, enum step step, const struct redis_url *url,
                       const char *name, bool wants_master)
{
    switch (step) {
    case AUTH:
        if (url->password == NULL)
            return 0;
        if (url->user == NULL)
            say(greet, STR("AUTH"), str_from(url->password), NOTHING);
        else
            say(greet, STR("AUTH"), str_from(url->user), str_from(url->password));
        greet->secret = url->password;
        return 1;
    case ROLE:
        if (!wants_master)
            return 0;
        say(greet, STR("ROLE"), NOTHING, NOTHING);
        greet->master = true;
        return 1;
    case SELECT:
        if (url->db == 0)
            return 0;
        (void)snprintf(greet->db, sizeof(greet->db), "%u", url->db);
        say(greet, STR("SELECT"), str_from(greet->db), NOTHING);
        return 1;
    case NAME_AND_PING:
        say(greet, STR("CLIENT"), STR("SETNAME"), str_from(name));
        greet->ping = STR("PING");
        greet->commands[1] = (struct redis_words){&greet->ping, 1};
        return 2;
    default:
        return 0;
    }
}

const struct redis_words *redis_greet_next(struct redis_greet *greet, const struct redis_url *url,
                                           const char *name, bool wants_master, size_t *out_count)
{
    size_t count = 0;
    greet->master = false;
    greet->secret = NULL;
    while (count == 0 && greet->said != SAID)
        count = say_step(greet, greet->said++, url, name, wants_master);
    *out_count = count;
    return greet->commands;
}

/* One that doesn't know AUTH repeats what it was told, whole or cut off, and reasons are logged. */
static void hide_secret(const char *secret, char reason[REDIS_GREET_REASON_MAX])
{
    char head[] = "1234"; /* of the secret: as much as may be shown */
    (void)snprintf(head, sizeof(head), "%s", secret);
    if (strstr(reason, head) != NULL)
        (void)snprintf(reason, REDIS_GREET_REASON_MAX, "AUTH was refused");
}

enum redis_greet_verdict redis_greet_judge(const struct redis_greet *greet,
                                           const struct redis_reply *reply,
                                           char reason[REDIS_GREET_REASON_MAX])
{
    /* One that is still loading, or wants a password, may be a master all the same. */
    if (redis_reply_error_text(reply, reason, REDIS_GREET_REASON_MAX)) {
        if (greet->secret != NULL)
            hide_secret(greet->secret, reason);
        return redis_reply_err(reply) == RD_EUNAVAIL ? REDIS_GREET_NOT_YET : REDIS_GREET_REFUSED;
    }
    if (!greet->master || redis_reply_is_master(reply))
        return REDIS_GREET_FINE;
    (void)snprintf(reason, REDIS_GREET_REASON_MAX, "it is no master");
    return REDIS_GREET_ELSEWHERE;
}
