/* frame.h - the frames of subprotocol roomd.v1: text to struct, struct to text.
 *
 * Decoding borrows from the text it was given where it can; strings with escapes live in the
 * frame until frame_fini. Encoding works like snprintf: it returns the length that the frame
 * needs and writes no more than cap bytes, so a caller with a good guess encodes once.
 *
 * PROTOCOL.md is the contract; this header follows it.
 */
#ifndef PROTOCOL_FRAME_H
#define PROTOCOL_FRAME_H

#include "protocol/codes.h"
#include "protocol/str.h"
#include "protocol/stream_id.h"

#include <stdint.h>

enum {
    FRAME_ROOM_MAX = 128,
    FRAME_TYPE_MAX = 64,
    FRAME_REF_MAX = 128,
    FRAME_KEY_MAX = 128,
    FRAME_TOKEN_MAX = 8192,
    FRAME_DEPTH_MAX = 32,  /* containers, the frame's own object included */
    FRAME_LAST_MAX = 500,  /* the most that `last` may ask for */
    FRAME_REASON_MAX = 128 /* bytes of a decode error's text, NUL included */
};

/* --- from the client ------------------------------------------------------------------------ */

enum frame_op {
    FRAME_NONE, /* no known op: the frame made no sense */
    FRAME_JOIN,
    FRAME_LEAVE,
    FRAME_PUBLISH,
    FRAME_SIGNAL,
    FRAME_AUTH,
    FRAME_PING
};

/* Where a join begins. */
enum frame_start {
    FRAME_START_ALL,    /* no cursor, or "0-0": everything that is retained */
    FRAME_START_CURSOR, /* after `cursor` */
    FRAME_START_LAST,   /* the newest `last` entries */
    FRAME_START_NEW     /* "$": only what is new */
};

struct frame_join {
    enum frame_start start;
    struct stream_id cursor; /* FRAME_START_CURSOR only */
    uint32_t last;           /* 0 or 1..FRAME_LAST_MAX; beside a cursor it bounds a fresh start */
    bool state;              /* a fresh start begins with a snapshot of the room's state */
};

struct frame_publish { /* signal has no ref and no key */
    struct str type;
    struct str data; /* JSON text as it came, "null" where a signal had none */
    struct str ref;  /* absent, or 1..FRAME_REF_MAX bytes */
    struct str key;  /* absent, or 1..FRAME_KEY_MAX bytes */
};

struct frame {
    enum frame_op op;
    struct str room; /* valid name; absent for auth and ping */
    union {
        struct frame_join join;
        struct frame_publish publish; /* publish and signal */
        struct str token;             /* auth */
        struct str t;                 /* ping: JSON text of a scalar, or absent */
    };
    void *tree; /* frame.c's own: what escaped strings live in */
};

/* Why a text is no frame. op FRAME_NONE or FRAME_PING asks for an `error`, any other for a
 * `reject` of that op, which repeats room and ref where they were valid. */
struct frame_fault {
    enum frame_op op;
    enum code_error code;
    char reason[FRAME_REASON_MAX];
    char room[FRAME_ROOM_MAX + 1]; /* "" where unknown */
    char ref[FRAME_REF_MAX + 1];
};

/* True: *out_frame is filled, borrows from text, and wants frame_fini. False: *out_fault says why,
 * and *out_frame needs nothing. text must be valid UTF-8 (a WebSocket text message is). */
bool frame_decode(struct str text, struct frame *out_frame, struct frame_fault *out_fault);

/* Lets go of what the strings of a decoded frame live in. */
void frame_fini(struct frame *frame);

/* What a room's name must be, as faults say it. */
#define FRAME_ROOM_RULE "room must be 1 to 128 of A-Z a-z 0-9 _ . : -"

/* 1 to FRAME_ROOM_MAX bytes of [A-Za-z0-9_.:-]? */
bool frame_room_name_valid(struct str name);

/* The start of a join as the URL gives it: all are decoded query values or absent; state is "1",
 * "true", "0" or "false". False and a reason where one is malformed. */
bool frame_start_parse(struct str cursor, struct str last, struct str state,
                       struct frame_join *out_join, char reason[FRAME_REASON_MAX]);

/* "join", "publish", ... as on the wire. */
const char *frame_op_name(enum frame_op op);

/* --- to the client -------------------------------------------------------------------------- */

enum frame_resync {
    FRAME_RESYNC_TRIMMED,
    FRAME_RESYNC_RESET,
    FRAME_RESYNC_AHEAD,
    FRAME_RESYNC_DIVERGED,
    FRAME_RESYNC_HOLE,
    FRAME_RESYNC_GAP
};

const char *frame_resync_name(enum frame_resync reason);

struct frame_welcome {
    struct str session;
    uint32_t heartbeat_ms;
    size_t max_frame_bytes;
    size_t high_water_bytes;
};

struct frame_joined {
    const struct stream_id *from; /* NULL: a fresh start */
    struct stream_id head;
    const struct stream_id *oldest; /* NULL: nothing is retained */
    bool complete;
    uint64_t max_entries; /* 0: no such bound */
};

struct frame_entry {
    struct stream_id id;
    struct stream_id prev;
    bool prev_known; /* false: "prev":null */
    struct str type; /* as stored: anything; absent or empty goes out as "message" */
    struct str
        data; /* as stored: anything; what isn't JSON goes out as a JSON string, absent as null */
    struct str from, ref, key; /* absent, or anything */
    uint64_t omitted;          /* bytes of this entry's texts that are too many to send; 0: none */
};

struct frame_reject {
    enum frame_op op;
    struct str ref, room; /* absent or valid */
    enum code_error code;
    struct str reason;
    int64_t retry_after_ms; /* negative: left out */
};

/* Each returns the length of the frame's text, of which at most cap bytes were written to dst. */
size_t frame_put_welcome(char *dst, size_t cap, const struct frame_welcome *welcome);
size_t frame_put_joined(char *dst, size_t cap, struct str room, const struct frame_joined *joined);
size_t frame_put_entry(char *dst, size_t cap, struct str room, const struct frame_entry *entry);
/* One of a snapshot's entries: not a frame, but an object in one. Without prev and ref. */
size_t frame_put_snapshot_entry(char *dst, size_t cap, const struct frame_entry *entry);
/* id NULL: the client's cursor stays null. entries: such objects with commas between them; may be
 * empty. more: this isn't the snapshot's last frame. */
size_t frame_put_snapshot(char *dst, size_t cap, struct str room, const struct stream_id *id,
                          struct str entries, bool more);
size_t frame_put_live(char *dst, size_t cap, struct str room, struct stream_id cursor,
                      uint64_t replayed);
/* from NULL: a fresh start. */
size_t frame_put_resync(char *dst, size_t cap, struct str room, enum frame_resync reason,
                        const struct stream_id *from);
size_t frame_put_ack(char *dst, size_t cap, struct str room, struct str ref, struct stream_id id,
                     bool duplicate);
size_t frame_put_reject(char *dst, size_t cap, const struct frame_reject *reject);
size_t frame_put_error(char *dst, size_t cap, enum code_error code, struct str reason);
/* from: the sender's user, or absent. */
size_t frame_put_signal(char *dst, size_t cap, struct str room, struct str from,
                        const struct frame_publish *signal);
size_t frame_put_left(char *dst, size_t cap, struct str room);
/* t: JSON text of a scalar, or absent. */
size_t frame_put_pong(char *dst, size_t cap, struct str t);
size_t frame_put_bye(char *dst, size_t cap, struct str reason, uint64_t retry_after_ms);

#endif
