#include "bench/fleet.h"

#include "bench/clock.h"
#include "bench/die.h"
#include "bench/inbound.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Below the smallest listen queue in use (128), so that no connection is dropped and retried after
 * a second. */
enum { CONNECT_WINDOW = 96, SPARE_FILES = 32 };

static void note(struct fleet *fleet, const char *what, struct str detail)
{
    if (fleet->why[0] == '\0')
        snprintf(fleet->why, sizeof(fleet->why), "%s%.*s", what,
                 (int)(detail.len < 80 ? detail.len : 80), str_present(detail) ? detail.p : "");
}

static struct audit_totals *totals_of(struct fleet_member *member)
{
    return member->stalled ? &member->fleet->stalled_totals : &member->fleet->totals;
}

/* --- frames --------------------------------------------------------------------------------- */

static void send_join(struct fleet_member *member)
{
    char frame[256];
    char cursor[STREAM_ID_TEXT_MAX + 1] = "";
    if (member->audit.cursor_set)
        cursor[stream_id_format(member->audit.cursor, cursor)] = '\0';
    int len = snprintf(frame, sizeof(frame), "{\"op\":\"join\",\"room\":\"%s\",\"cursor\":\"%s\"}",
                       member->room->name,
                       member->audit.cursor_set ? cursor : member->fleet->plan.cursor);
    audit_join_sent(&member->audit);
    /* One short frame on a fresh connection always fits. */
    (void)ws_conn_text(&member->conn, (struct str){frame, (size_t)len});
    ws_conn_flush(&member->conn);
}

static void take_entry(struct fleet_member *member, const struct entry_scan *entry)
{
    struct fleet *fleet = member->fleet;
    struct audit_totals *totals = totals_of(member);
    if (!str_eq(entry->room, room_set_name(member->room))) {
        totals->breaches++;
        return;
    }
    bool applied = audit_entry(&member->audit, totals, entry, fleet->set->run);
    if (member->stalled)
        return;
    uint64_t now = fleet->io->now_ns;
    fleet->last_ns = now;
    bool timed = entry->run == fleet->set->run && entry->t_ns != 0 && now >= entry->t_ns;
    if (applied && timed && member->audit.live)
        hist_add(&fleet->latency, now - entry->t_ns);
}

static void take_live(struct fleet_member *member, struct stream_id cursor)
{
    struct fleet *fleet = member->fleet;
    bool first = !member->audit.live;
    audit_live(&member->audit, totals_of(member), cursor);
    if (!first)
        return;
    fleet->live++;
    fleet->last_ns = fleet->io->now_ns;
    if (fleet->joined_ns != 0)
        hist_add(&fleet->to_live, fleet->io->now_ns - fleet->joined_ns);
}

static void take_frame(struct fleet_member *member, const struct inbound *in)
{
    struct fleet *fleet = member->fleet;
    const struct stream_id *from = in->id_null ? NULL : &in->id;
    bool was_live = member->audit.live;
    switch (in->op) {
    case INBOUND_ENTRY:
        take_entry(member, &in->entry);
        break;
    case INBOUND_JOINED:
        audit_joined(&member->audit, from, in->complete);
        fleet->trimmed += !in->complete;
        break;
    case INBOUND_RESYNC:
        audit_resync(&member->audit, totals_of(member), from);
        fleet->live -= was_live;
        note(fleet, "resync: ", in->reason);
        break;
    case INBOUND_LIVE:
        take_live(member, in->id);
        break;
    case INBOUND_REFUSAL:
        fleet->refusals++;
        note(fleet, "refused: ", in->reason);
        break;
    case INBOUND_ACK:
    case INBOUND_OTHER:
        break;
    }
}

static void on_text(struct ws_conn *conn, struct str text)
{
    struct fleet_member *member = (struct fleet_member *)conn;
    struct inbound in;
    struct entry_scan entry;
    if (!member->stalled)
        member->fleet->bytes += text.len;
    if (entry_memo_scan(&member->fleet->memo, &member->guess, text, &entry))
        take_entry(member, &entry);
    else if (inbound_read(text, &in))
        take_frame(member, &in);
    else
        totals_of(member)->breaches++;
}

/* --- coming and going ----------------------------------------------------------------------- */

static void on_open(struct ws_conn *conn)
{
    struct fleet_member *member = (struct fleet_member *)conn;
    member->fleet->open++;
    member->fleet->unfinished--;
    if (member->fleet->plan.join_at_open)
        send_join(member);
    fleet_connect_more(member->fleet);
}

static void count_code(struct fleet_code *codes, unsigned code)
{
    /* What finds no free row is counted in the last one, which is then no single code: 0. */
    int i = 0;
    while (i < FLEET_CODES_MAX - 1 && codes[i].count > 0 && codes[i].code != code)
        i++;
    if (codes[i].count > 0 && codes[i].code != code)
        code = 0;
    codes[i].code = code;
    codes[i].count++;
}

static void on_closed(struct ws_conn *conn)
{
    struct fleet_member *member = (struct fleet_member *)conn;
    struct fleet *fleet = member->fleet;
    struct str why = conn->why != NULL ? str_from(conn->why) : STR("closed by the server");
    if (!conn->opened) {
        fleet->failed++;
        fleet->unfinished--;
        note(fleet, "connecting: ", why);
        return;
    }
    fleet->live -= member->audit.live;
    if (member->stalled) {
        fleet->stalled_closed++;
        count_code(fleet->stalled_codes, conn->close_code);
        return;
    }
    fleet->closed++;
    count_code(fleet->codes, conn->close_code);
    note(fleet, "a reader ended: ", why);
}

static const struct ws_conn_ops OPS = {on_open, on_text, on_closed};

static void raise_file_limit(unsigned sockets)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)sockets + SPARE_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= wanted)
        return;
    if (limit.rlim_max < wanted)
        die(DIE_RUN, "%u sockets need %llu open files, and the hard limit is %llu (ulimit -Hn)",
            sockets, (unsigned long long)wanted, (unsigned long long)limit.rlim_max);
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        die(DIE_RUN, "can't raise the limit of open files: %s", strerror(errno));
}

static struct room_set_room *room_of(const struct fleet *fleet, unsigned i)
{
    const struct room_set *set = fleet->set;
    unsigned crowd = fleet->plan.crowd;
    if (crowd == 0)
        return &set->rooms[i % set->count];
    return i < crowd ? &set->rooms[0] : &set->rooms[1 + (i - crowd) % (set->count - 1)];
}

void fleet_init(struct fleet *fleet, struct ws_conn_io *io, struct room_set *set,
                const struct fleet_plan *plan)
{
    raise_file_limit(plan->sockets);
    fleet->io = io;
    fleet->set = set;
    fleet->plan = *plan;
    fleet->members = die_if_null(calloc(plan->sockets, sizeof(*fleet->members)));
    fleet->back = die_if_null(calloc(plan->sockets, sizeof(*fleet->back)));
    fleet->random = UINT64_C(0x9e3779b97f4a7c15) ^ set->run;
    for (unsigned i = 0; i < plan->sockets; i++) {
        struct fleet_member *member = &fleet->members[i];
        member->fleet = fleet;
        member->room = room_of(fleet, i);
        member->stalled = i < plan->stalled;
    }
}

/* False: not now. */
static bool connect_one(struct fleet *fleet, struct fleet_member *member)
{
    enum ws_conn_opened opened = ws_conn_open(&member->conn, fleet->io, &OPS);
    if (opened == WS_CONN_BUSY)
        return false;
    if (opened == WS_CONN_STARTED) {
        fleet->unfinished++;
    } else {
        fleet->failed++;
        note(fleet, "connecting: ", str_from(strerror(errno)));
    }
    return true;
}

void fleet_connect_more(struct fleet *fleet)
{
    while (fleet->started < fleet->plan.sockets && fleet->unfinished < CONNECT_WINDOW) {
        if (!connect_one(fleet, &fleet->members[fleet->started]))
            return;
        fleet->started++;
    }
    while (!fleet->hold && fleet->back_count > 0 && fleet->unfinished < CONNECT_WINDOW) {
        struct fleet_member *member = &fleet->members[fleet->back[fleet->back_at]];
        if (!connect_one(fleet, member))
            return;
        member->away = false;
        fleet->back_at = (fleet->back_at + 1) % fleet->plan.sockets;
        fleet->back_count--;
    }
}

/* --- cutting -------------------------------------------------------------------------------- */

void fleet_cut(struct fleet *fleet, unsigned i)
{
    struct fleet_member *member = &fleet->members[i];
    enum ws_conn_state state = member->conn.state;
    if (member->away || state == WS_CONN_IDLE || state == WS_CONN_CLOSED)
        return;
    if (state == WS_CONN_OPEN) {
        fleet->open--;
        fleet->live -= member->audit.live;
    } else {
        fleet->unfinished--;
    }
    ws_conn_abort(&member->conn);
    member->audit.live = false;
    member->away = true;
    member->guess = 0;
    fleet->back[(fleet->back_at + fleet->back_count++) % fleet->plan.sockets] = i;
    fleet->cut++;
}

void fleet_hold(struct fleet *fleet, bool hold)
{
    fleet->hold = hold;
    if (hold)
        return;
    fleet->joined_ns = clock_now_ns();
    fleet_connect_more(fleet);
}

void fleet_flap(struct fleet *fleet, uint64_t now_ns)
{
    if (!fleet->flapping)
        return;
    if (fleet->flap_start_ns == 0)
        fleet->flap_start_ns = now_ns;
    double seconds = (double)(now_ns - fleet->flap_start_ns) / (double)CLOCK_SECOND;
    for (; (double)fleet->flapped < seconds * fleet->plan.flaps; fleet->flapped++) {
        fleet->random ^= fleet->random << 13;
        fleet->random ^= fleet->random >> 7;
        fleet->random ^= fleet->random << 17;
        fleet_cut(fleet, (unsigned)((fleet->random >> 32) % fleet->plan.sockets));
    }
}

/* --- the whole fleet ------------------------------------------------------------------------ */

bool fleet_is_open(const struct fleet *fleet)
{
    return fleet->open + fleet->failed >= fleet->plan.sockets;
}

bool fleet_is_live(const struct fleet *fleet)
{
    return fleet_is_open(fleet) &&
           fleet->live + fleet->closed + fleet->stalled_closed + fleet->refusals >= fleet->open;
}

void fleet_join_all(struct fleet *fleet)
{
    fleet->joined_ns = clock_now_ns();
    for (unsigned i = 0; i < fleet->plan.sockets; i++)
        if (fleet->members[i].conn.state == WS_CONN_OPEN)
            send_join(&fleet->members[i]);
}

void fleet_stall(struct fleet *fleet, bool stalled)
{
    for (unsigned i = 0; i < fleet->plan.stalled; i++)
        ws_conn_pause(&fleet->members[i].conn, stalled);
}

bool fleet_is_complete(const struct fleet *fleet)
{
    for (unsigned i = fleet->plan.stalled; i < fleet->plan.sockets; i++) {
        const struct fleet_member *member = &fleet->members[i];
        if (member->conn.state == WS_CONN_OPEN && !member->audit.partial &&
            member->audit.ours < member->room->acked)
            return false;
    }
    return true;
}

void fleet_audit(struct fleet *fleet)
{
    for (unsigned i = fleet->plan.stalled; i < fleet->plan.sockets; i++) {
        struct fleet_member *member = &fleet->members[i];
        if (member->conn.state == WS_CONN_OPEN)
            audit_finish(&member->audit, &fleet->totals, member->room->acked, member->room->sent);
    }
}

void fleet_fini(struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->started; i++) {
        ws_conn_abort(&fleet->members[i].conn);
        audit_fini(&fleet->members[i].audit);
    }
    free(fleet->members);
    free(fleet->back);
}
