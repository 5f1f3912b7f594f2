#include "room/snapshot.h"

#include "base/xalloc.h"
#include "protocol/frame.h"
#include "room/entry_packet.h"

#include <assert.h>
#include <stdlib.h>

/* --- parts ---------------------------------------------------------------------------------- */

struct filling {
    struct snapshot *snapshot;
    size_t part_max;
    size_t capacity; /* of the last part's text */
};

static void begin_part(struct filling *filling)
{
    struct snapshot *snapshot = filling->snapshot;
    snapshot->parts =
        xalloc_array(snapshot->parts, snapshot->part_count + 1, sizeof(struct snapshot_part));
    snapshot->parts[snapshot->part_count++] = (struct snapshot_part){NULL, 0};
    filling->capacity = 0;
}

static void reserve(struct filling *filling, struct snapshot_part *part, size_t more)
{
    if (filling->capacity - part->len >= more)
        return;
    filling->capacity = 2 * part->len + more;
    part->text = xalloc_array(part->text, filling->capacity, 1);
}

/* Most are encoded once: an entry's text is little longer than what is in it. */
static void add(struct filling *filling, const struct roomlog_entry *item)
{
    enum { AROUND = 256 };
    struct frame_entry frame;
    entry_packet_frame(item, &frame);
    struct snapshot_part *part = &filling->snapshot->parts[filling->snapshot->part_count - 1];
    reserve(filling, part, roomlog_entry_bytes(item) + AROUND);
    size_t comma = part->len != 0;
    size_t cap = filling->capacity - part->len - comma;
    size_t len = frame_put_snapshot_entry(part->text + part->len + comma, cap, &frame);
    bool full = comma != 0 && part->len + comma + len > filling->part_max;
    if (full) {
        begin_part(filling);
        part = &filling->snapshot->parts[filling->snapshot->part_count - 1];
        comma = 0;
    }
    if (full || len > cap) {
        reserve(filling, part, comma + len);
        (void)frame_put_snapshot_entry(part->text + part->len + comma, len, &frame);
    }
    if (comma != 0)
        part->text[part->len] = ',';
    part->len += comma + len;
}

static void free_parts(struct snapshot *snapshot)
{
    for (size_t i = 0; snapshot->parts != NULL && i < snapshot->part_count; i++)
        free(snapshot->parts[i].text);
    free(snapshot->parts);
    snapshot->parts = NULL;
    snapshot->part_count = 0;
}

struct snapshot *snapshot_create(const struct roomlog_state_view *view, struct str room,
                                 size_t frame_bytes)
{
    struct snapshot *snapshot = xalloc_zero(sizeof(*snapshot));
    const struct stream_id widest = STREAM_ID_MAX;
    size_t around = frame_put_snapshot(NULL, 0, room, &widest, (struct str){NULL, 0}, true);
    struct filling filling = {snapshot, frame_bytes > around ? frame_bytes - around : 0, 0};
    snapshot->position = view->position;
    snapshot->stands = !stream_id_is_zero(view->position);
    begin_part(&filling);
    for (size_t i = 0; i < view->count; i++)
        add(&filling, &view->items[i]);
    return snapshot;
}

void snapshot_destroy(struct snapshot *snapshot)
{
    if (snapshot == NULL)
        return;
    free_parts(snapshot);
    for (size_t i = 0; i < snapshot->count; i++)
        packet_unref(snapshot->packets[i]);
    free(snapshot->packets);
    free(snapshot);
}

/* --- what becomes of it --------------------------------------------------------------------- */

void snapshot_fall(struct snapshot *snapshot)
{
    snapshot->stands = false;
}

static struct packet *part_packet(const struct snapshot *snapshot, size_t i,
                                  struct packet_account *account, struct str room)
{
    const struct stream_id *id = snapshot->stands ? &snapshot->position : NULL;
    struct str entries = {snapshot->parts[i].text, snapshot->parts[i].len};
    bool more = i + 1 < snapshot->part_count;
    size_t len = frame_put_snapshot(NULL, 0, room, id, entries, more);
    char *text = xalloc(len);
    (void)frame_put_snapshot(text, len, room, id, entries, more);
    struct packet *p = packet_text(account, (struct str){text, len});
    free(text);
    return p;
}

void snapshot_seal(struct snapshot *snapshot, struct packet_account *account, struct str room)
{
    assert(snapshot->packets == NULL);
    snapshot->count = snapshot->part_count;
    snapshot->packets = xalloc_array(NULL, snapshot->count, sizeof(struct packet *));
    for (size_t i = 0; i < snapshot->count; i++)
        snapshot->packets[i] = part_packet(snapshot, i, account, room);
    free_parts(snapshot);
}
