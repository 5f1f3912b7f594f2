/* redis_script.h - the commands that append one entry: a plain XADD, or one script. No I/O.
 *
 * An entry for which nothing more is asked is a plain XADD, which costs Redis a fifth of the
 * script. The script does, each part only where it is asked for, and in this order:
 *
 *   dedupe    was this user's ref published in this room lately? Then that was it.
 *   bounds    may the entry's key have a place in the room's state (redis_state.h)?
 *   append    XADD: what Redis refuses here leaves nothing behind, neither claim nor state
 *   remember  the ref, for the window
 *   state     the key's new value; where the log has begun anew, the old state goes first
 *   announce  PUBLISH to the channel named as the room's key: "<id> <prev> " and five netstrings,
 *             "<length>:<bytes>," or "-," for an absent text: type, data, from, ref, key. prev is
 *             the id of the newest entry before; 0-0: there is none
 *
 * What is remembered lies beside the room, in the same cluster slot:
 * {<room's key>}:ref:<length of user>:<user>:<ref>.
 *
 * Where XADD is done and Redis refuses what comes behind it (it may, to a user with few rights),
 * the entry is in the log and that is the answer; what was refused is said besides.
 */
#ifndef ROOMLOG_REDIS_SCRIPT_H
#define ROOMLOG_REDIS_SCRIPT_H

#include "roomlog/redis_state.h"

struct redis_script_config {
    uint64_t max_entries; /* MAXLEN ~; 0: not trimmed by count */
    uint64_t max_age_ms;  /* MINID ~; 0: not trimmed by age */
    uint64_t dedupe_ms;   /* 0: refs are not remembered */
    struct redis_state_limits state;
    bool announce;
    bool touch; /* a duplicate is written again, so that a WAIT behind it covers it */
};

/* The script's text, for SCRIPT LOAD. Returns owned. */
struct str redis_script_text(void);

/* May any entry need the script? */
bool redis_script_needed(const struct redis_script_config *config);
/* Does this one? */
bool redis_script_asked(const struct redis_script_config *config,
                        const struct roomlog_publish *what);

/* More than its commands take. SIZE_MAX where that can't be said. */
size_t redis_script_bytes_max(struct str key, const struct roomlog_publish *what);

/* How it is sent. */
struct redis_script_how {
    struct str sha;   /* of the script; absent: a plain XADD */
    bool asking;      /* behind ASKING */
    bool wary;        /* names a key that never is, so that of a slot that moves it is refused
                       * wherever one with a ref is */
    uint64_t wall_ms; /* now, for max_age_ms */
};

/* Ready to be sent: commands, of which the last one's answer counts. Borrows key and texts, and
 * points into itself: not to be copied. */
struct redis_script_ask {
    struct redis_words commands[3];
    size_t count;
    struct str words[REDIS_CONN_WORDS_MAX];
    size_t word_count;
    struct str trim[5];
    struct str owned[4];
    size_t owned_count;
    char minid[STREAM_ID_TEXT_MAX];
    char numbers[6][24];
    size_t number_count;
};

void redis_script_ask(struct redis_script_ask *ask, const struct redis_script_config *config,
                      const struct redis_script_how *how, struct str key,
                      const struct roomlog_publish *what);
void redis_script_ask_fini(struct redis_script_ask *ask);

/* What the last command answered. */
struct redis_script_answer {
    struct stream_id id;
    bool duplicate;
    struct str refused; /* what Redis said to something behind the XADD; or absent */
};

/* RD_OK: it is in the log. RD_EUNKNOWN: the answer has a shape that it can't have. Any other: what
 * Redis' error means; it is not in the log. */
enum rd_err redis_script_answer(const struct redis_reply *reply, struct redis_script_answer *out);

#endif
