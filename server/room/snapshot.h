/* snapshot.h - a room's state as the frames that members get.
 *
 * Made of the state as it was read, before it is known whether the log can show what came after it;
 * once that is known, sealed: then it is packets, for whoever shares the read.
 *
 * A frame is no longer than it may be, but for one that holds a single entry which is.
 */
#ifndef ROOM_SNAPSHOT_H
#define ROOM_SNAPSHOT_H

#include "base/packet.h"
#include "roomlog/roomlog.h"

/* What will be the entries of one frame. */
struct snapshot_part {
    char *text;
    size_t len;
};

/* The fields are snapshot.c's, but to read. */
struct snapshot {
    struct stream_id position; /* of the state */
    bool stands; /* the log shows what came after position: members go on from there */
    struct snapshot_part *parts; /* NULL once sealed */
    size_t part_count;
    struct packet **packets; /* NULL until sealed */
    size_t count;            /* at least one */
};

/* Copies what it needs of view. It stands, unless there never was a state. Returns owned. */
struct snapshot *snapshot_create(const struct roomlog_state_view *view, struct str room,
                                 size_t frame_bytes);
/* NULL is fine. */
void snapshot_destroy(struct snapshot *snapshot);

/* Members don't go on from position, but from elsewhere. */
void snapshot_fall(struct snapshot *snapshot);

/* Makes the packets. */
void snapshot_seal(struct snapshot *snapshot, struct packet_account *account, struct str room);

#endif
