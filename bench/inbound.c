#include "bench/inbound.h"

enum { MEMBERS_MAX = 32 };

static const struct {
    const char *name;
    enum inbound_op op;
    const char *id_member; /* what goes into id */
} OPS[] = {
    {"entry", INBOUND_ENTRY, NULL},     {"joined", INBOUND_JOINED, "from"},
    {"resync", INBOUND_RESYNC, "from"}, {"live", INBOUND_LIVE, "cursor"},
    {"ack", INBOUND_ACK, "id"},         {"reject", INBOUND_REFUSAL, NULL},
    {"error", INBOUND_REFUSAL, NULL},
};

static bool read_id(const struct json_member *members, size_t count, const char *name,
                    struct inbound *in)
{
    struct str value = entry_scan_member(members, count, name);
    in->id_null = str_eq(value, STR("null"));
    if (in->id_null)
        return in->op == INBOUND_JOINED || in->op == INBOUND_RESYNC;
    struct str text = entry_scan_unquote(value);
    return str_present(text) && stream_id_parse(text, &in->id);
}

bool inbound_read(struct str text, struct inbound *out_in)
{
    struct inbound in = {.op = INBOUND_OTHER};
    if (entry_scan_fast(text, &in.entry)) {
        in.op = INBOUND_ENTRY;
        in.room = in.entry.room;
        *out_in = in;
        return true;
    }

    struct json_member members[MEMBERS_MAX];
    if (json_check(text, JSON_DEPTH_MAX) != JSON_OK)
        return false;
    size_t count = json_members(text, members, MEMBERS_MAX);
    if (count > MEMBERS_MAX) /* no object, or more than any frame of the protocol has */
        return false;
    struct str op = entry_scan_unquote(entry_scan_member(members, count, "op"));
    if (!str_present(op))
        return false;
    in.room = entry_scan_unquote(entry_scan_member(members, count, "room"));
    in.reason = entry_scan_unquote(entry_scan_member(members, count, "reason"));
    in.complete = str_eq(entry_scan_member(members, count, "complete"), STR("true"));

    for (size_t i = 0; i < sizeof(OPS) / sizeof(OPS[0]); i++) {
        if (!str_eq(op, str_from(OPS[i].name)))
            continue;
        in.op = OPS[i].op;
        if (in.op == INBOUND_ENTRY && !entry_scan_members(members, count, &in.entry))
            return false;
        if (OPS[i].id_member != NULL && !read_id(members, count, OPS[i].id_member, &in))
            return false;
        break;
    }
    *out_in = in;
    return true;
}
