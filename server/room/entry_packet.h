/* entry_packet.h - a log's entry as the packet that its room's members get.
 *
 * Encoded and framed once, whoever gets it and however: live, pending or replayed.
 *
 * What another program put into the log may be of any size. A text that is above its limit here is
 * left out, and the entry says how many bytes are missing (`omitted`): it keeps its place in the
 * chain, and whoever needs the rest reads the log itself.
 */
#ifndef ROOM_ENTRY_PACKET_H
#define ROOM_ENTRY_PACKET_H

#include "base/packet.h"
#include "protocol/frame.h"
#include "roomlog/roomlog.h"

enum {
    ENTRY_PACKET_DATA_MAX = 16 << 20, /* bytes of data that are sent */
    ENTRY_PACKET_NAME_MAX = 64 << 10  /* and of type, from, ref and key each */
};

/* As it goes into a frame. Its texts are borrowed from entry's. */
void entry_packet_frame(const struct roomlog_entry *entry, struct frame_entry *out_frame);

/* Returns owned. */
struct packet *entry_packet_create(struct packet_account *account, struct str room,
                                   const struct roomlog_entry *entry);

#endif
