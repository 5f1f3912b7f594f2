#include "tests/lib/fake_member.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEARD_MAX = 1 << 20, TEXT_MAX = 512 };

static void hear(struct room_member *member, const char *fmt, ...) RD_PRINTF(2, 3);

static void hear(struct room_member *member, const char *fmt, ...)
{
    struct fake_member *fake = RD_CONTAINER(member, struct fake_member, member);
    char line[TEXT_MAX] = "; ";
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line + 2, sizeof(line) - 2, fmt, args);
    va_end(args);
    assert(len > 0 && (size_t)len < sizeof(line) - 2);

    size_t skip = fake->heard.len == 0 ? 2 : 0;
    enum rd_err err = buf_append(&fake->heard, line + skip, (size_t)len + 2 - skip);
    assert(err == RD_OK);
}

static const char *id_text(struct room_member *member, struct stream_id id)
{
    struct fake_member *fake = RD_CONTAINER(member, struct fake_member, member);
    (void)snprintf(fake->id, sizeof(fake->id), "%" PRIu64 "-%" PRIu64, id.ms, id.seq);
    return fake->id;
}

static void on_joined(struct room_member *member, const struct stream_id *from,
                      const struct verdict_info *info)
{
    hear(member, "joined %s", from == NULL ? "-" : id_text(member, *from));
    hear(member, "head %s", id_text(member, info->last));
    hear(member, "oldest %s", info->length == 0 ? "-" : id_text(member, info->first));
    hear(member, "%s", verdict_complete(info) ? "complete" : "cut");
}

static void on_resync(struct room_member *member, enum verdict why)
{
    static const char *const NAMES[] = {"ok", "trimmed", "reset", "ahead", "diverged", "hole"};
    hear(member, "resync %s", NAMES[why]);
}

static void on_snapshot(struct room_member *member, struct packet *p)
{
    size_t header = packet_len(p) < 128 ? 2 : 4;
    hear(member, "snapshot %.*s", (int)(packet_len(p) - header), p->bytes + header);
}

static bool on_entry(struct room_member *member, struct packet *p, bool replayed)
{
    struct fake_member *fake = RD_CONTAINER(member, struct fake_member, member);
    if (!replayed && fake->refuses)
        return false;
    fake->entries++;
    hear(member, "%s %s", replayed ? "replayed" : "entry", id_text(member, p->id));
    return true;
}

static void on_live(struct room_member *member, struct stream_id cursor, uint64_t replayed)
{
    hear(member, "live %s (%" PRIu64 ")", id_text(member, cursor), replayed);
}

static void on_failed(struct room_member *member, struct str room, enum rd_err err)
{
    hear(member, "failed %.*s: %s", (int)room.len, room.p, rd_err_text(err));
}

static void on_signal(struct room_member *member, struct packet *p)
{
    hear(member, "signal %.*s", (int)packet_len(p) - 2, p->bytes + 2);
}

static bool on_may_read(struct room_member *member)
{
    struct fake_member *fake = RD_CONTAINER(member, struct fake_member, member);
    bool may = fake->may_read;
    if (fake->may_read_times != 0 && --fake->may_read_times == 0)
        fake->may_read = false;
    return may;
}

static const struct room_member_ops OPS = {
    .joined = on_joined,
    .resync = on_resync,
    .snapshot = on_snapshot,
    .entry = on_entry,
    .live = on_live,
    .failed = on_failed,
    .signal = on_signal,
    .may_read = on_may_read,
};

void fake_member_init(struct fake_member *fake)
{
    *fake = (struct fake_member){.may_read = true, .budget = {.max = 65536}};
    fake->member.ops = &OPS;
    fake->member.budget = &fake->budget;
    buf_init(&fake->heard, HEARD_MAX);
}

void fake_member_fini(struct fake_member *fake)
{
    assert(fake->member.state == ROOM_MEMBER_OUT && fake->budget.bytes == 0);
    buf_fini(&fake->heard);
}

const char *fake_member_heard(struct fake_member *fake)
{
    enum rd_err err = buf_append(&fake->heard, "", 1);
    assert(err == RD_OK);
    buf_clear(&fake->heard, SIZE_MAX); /* the bytes stay until the next append */
    return fake->heard.p;
}
