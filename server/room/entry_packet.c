#include "room/entry_packet.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum { USUAL = 4096 };

/* The text, or none and what is missing, where it is too long to send. */
static struct str bounded(struct str text, size_t max, uint64_t *omitted)
{
    if (text.len <= max)
        return text;
    *omitted += text.len;
    return (struct str){NULL, 0};
}

void entry_packet_frame(const struct roomlog_entry *entry, struct frame_entry *out_frame)
{
    uint64_t omitted = 0;
    *out_frame = (struct frame_entry){
        .id = entry->id,
        .prev = entry->prev,
        .prev_known = entry->prev_known,
        .type = bounded(entry->type, ENTRY_PACKET_NAME_MAX, &omitted),
        .data = bounded(entry->data, ENTRY_PACKET_DATA_MAX, &omitted),
        .from = bounded(entry->from, ENTRY_PACKET_NAME_MAX, &omitted),
        .ref = bounded(entry->ref, ENTRY_PACKET_NAME_MAX, &omitted),
        .key = bounded(entry->key, ENTRY_PACKET_NAME_MAX, &omitted),
    };
    out_frame->omitted = omitted;
}

struct packet *entry_packet_create(struct packet_account *account, struct str room,
                                   const struct roomlog_entry *entry)
{
    struct frame_entry frame;
    entry_packet_frame(entry, &frame);
    const struct stream_id *prev = entry->prev_known ? &entry->prev : NULL;
    char usual[USUAL];
    size_t len = frame_put_entry(usual, sizeof(usual), room, &frame);
    if (len <= sizeof(usual))
        return packet_entry(account, (struct str){usual, len}, entry->id, prev);

    char *large = xalloc(len);
    size_t again = frame_put_entry(large, len, room, &frame);
    assert(again == len);
    struct packet *p = packet_entry(account, (struct str){large, len}, entry->id, prev);
    free(large);
    return p;
}
