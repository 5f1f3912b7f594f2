/* metrics.h - one list of everything that roomd counts.
 *
 * A worker has one struct metrics and passes it down; nothing here is global but the table of
 * names. Counters only grow, gauges move both ways. Every refusal, drop, reconnect and timeout has
 * one.
 */
#ifndef BASE_METRICS_H
#define BASE_METRICS_H

#include <stddef.h>
#include <stdint.h>

/* X(symbol, kind, name without the "roomd_" prefix, help) */
#define METRICS_LIST(X)                                                                            \
    X(M_CONNECTIONS, gauge, "connections", "open WebSocket connections")                           \
    X(M_CONNECTIONS_TOTAL, counter, "connections_total", "WebSocket connections opened")           \
    X(M_REFUSED_LIMIT, counter, "refused_connection_limit_total",                                  \
      "connections refused because there were too many")                                           \
    X(M_REFUSED_ORIGIN, counter, "refused_origin_total", "upgrades refused for their origin")      \
    X(M_REFUSED_UPGRADE, counter, "refused_upgrade_total", "upgrades refused as malformed")        \
    X(M_ACCEPT_PAUSES, counter, "accept_pauses_total", "times accepting paused for descriptors")   \
    X(M_HTTP_REQUESTS, counter, "http_requests_total", "HTTP requests answered")                   \
    X(M_ROOMS, gauge, "rooms", "open rooms")                                                       \
    X(M_MEMBERS, gauge, "members", "places of sessions in rooms")                                  \
    X(M_REPLAYING, gauge, "replaying", "members that replay")                                      \
    X(M_FRAMES_IN, counter, "frames_in_total", "messages received")                                \
    X(M_FRAMES_OUT, counter, "frames_out_total", "frames given to sockets")                        \
    X(M_BYTES_OUT, counter, "bytes_out_total", "bytes given to sockets")                           \
    X(M_ENTRIES_LIVE, counter, "entries_live_total", "entries fanned out as they came")            \
    X(M_DELIVERIES, counter, "deliveries_total", "entries queued for a socket, live or replayed")  \
    X(M_ENTRIES_REPLAYED, counter, "entries_replayed_total", "entries sent by replays")            \
    X(M_JOINS, counter, "joins_total", "joins answered with joined")                               \
    X(M_RESYNCS, counter, "resyncs_total", "resyncs sent")                                         \
    X(M_PENDING_SPILLS, counter, "pending_spills_total", "pending lists emptied at their ceiling") \
    X(M_CHAIN_BREAKS, counter, "chain_breaks_total",                                               \
      "live entries that did not follow a member's last, so that it read the log again")           \
    X(M_PAGES, counter, "pages_total", "pages read from the log")                                  \
    X(M_PAGES_SHARED, counter, "pages_shared_total", "pages served by another member's read")      \
    X(M_HEADS, counter, "heads_total", "reads of where a log stands, without entries")             \
    X(M_STATES, counter, "states_total", "reads of rooms' states")                                 \
    X(M_SNAPSHOTS, counter, "snapshots_total", "snapshots sent")                                   \
    X(M_RING_HITS, counter, "ring_hits_total", "resumes served from a room's ring")                \
    X(M_RING_WARMINGS, counter, "ring_warmings_total",                                             \
      "rooms whose newest entries were read for many that came back")                              \
    X(M_RING_EVICTIONS, counter, "ring_evictions_total", "rings emptied to stay within bounds")    \
    X(M_RING_BYTES, gauge, "ring_bytes", "bytes that the rings of all rooms hold")                 \
    X(M_PUBLISHED, counter, "published_total", "publishes acknowledged")                           \
    X(M_PUBLISH_DUPLICATES, counter, "publish_duplicates_total", "publishes already in the log")   \
    X(M_REJECTS, counter, "rejects_total", "reject frames sent")                                   \
    X(M_ERRORS, counter, "errors_total", "error frames sent")                                      \
    X(M_SIGNALS, counter, "signals_total", "signals fanned out")                                   \
    X(M_SIGNALS_SHED, counter, "signals_shed_total", "signals not queued for a slow socket")       \
    X(M_BURSTS, counter, "bursts_total",                                                           \
      "live entries left to the log, because they came faster than a socket could be written")     \
    X(M_JOINS_LIMITED, counter, "joins_limited_total", "sockets closed with 4429 for their joins") \
    X(M_SLOW_CLOSED, counter, "slow_consumers_total", "sockets closed with 4000")                  \
    X(M_BUDGET_CLOSED, counter, "budget_evictions_total",                                          \
      "sockets closed because the node's packet budget was passed")                                \
    X(M_FORCED, counter, "forced_closes_total", "sockets cut because they did not close in time")  \
    X(M_PING_TIMEOUTS, counter, "ping_timeouts_total", "sockets cut for missing two pings")        \
    X(M_BAD_FRAME_CLOSED, counter, "bad_frame_closes_total",                                       \
      "sockets closed for what they sent (1002, 1007, 1009, 4400)")                                \
    X(M_PACKET_BYTES, gauge, "packet_bytes", "real bytes of all living packets")                   \
    X(M_LOG_READY, gauge, "log_ready", "1 while the log can be read and written")                  \
    X(M_LOG_RECONNECTS, counter, "log_reconnects_total", "connections to the log made anew")       \
    X(M_LOG_OVERSIZE, counter, "log_oversize_total",                                               \
      "answers of the log that were dropped because they were too large")                          \
    X(M_LOG_TIMEOUTS, counter, "log_timeouts_total", "log commands that were given up")            \
    X(M_LOG_NODES, gauge, "log_nodes", "nodes of a cluster that the log is connected to")          \
    X(M_LOG_SLOTS, gauge, "log_slots", "slots of a cluster that some node serves")                 \
    X(M_LOG_NODES_REFUSED, counter, "log_nodes_refused_total",                                     \
      "nodes of a cluster left out because there were too many")                                   \
    X(M_LOG_REDIRECTS, counter, "log_redirects_total",                                             \
      "requests that a node of a cluster sent on to another, or told to try again")                \
    X(M_FEED_READS, counter, "feed_reads_total", "live reads of rooms")                            \
    X(M_FEED_BELLS, counter, "feed_bells_total", "change notices from the log")                    \
    X(M_FEED_HINTS, counter, "feed_hints_total", "entries taken from their announcements")         \
    X(M_FEED_SOURCE, gauge, "feed_source",                                                         \
      "who tells of changes: 0 nobody yet, 1 nobody (each room is read again and again), "         \
      "2 tracking, 3 keyspace, 4 xread, 5 pubsub")                                                 \
    X(M_FEED_VAIN, counter, "feed_vain_total",                                                     \
      "rooms read later than they rang, for they had rung for nothing again and again")            \
    X(M_FEED_BREAKS, counter, "feed_breaks_total", "rooms whose live feed lost its place")         \
    X(M_LOG_BUSY, counter, "log_busy_total",                                                       \
      "appends and reads refused because too many were under way")                                 \
    X(M_LOG_TRIMMED, counter, "log_trimmed_total", "entries trimmed from the log in the process")  \
    X(M_LOG_ROOMS_FORGOTTEN, counter, "log_rooms_forgotten_total",                                 \
      "rooms that the log in the process dropped to stay within its ceiling")                      \
    X(M_LOG_REFS_FORGOTTEN, counter, "log_refs_forgotten_total",                                   \
      "refs that the log in the process dropped before their time to stay within its ceiling")     \
    X(M_LOG_FULL, counter, "log_full_total", "appends that the log had no room for")               \
    X(M_PUBLISHES_WAITING, gauge, "publishes_waiting",                                             \
      "publishes that wait to be sent to the log")                                                 \
    X(M_PUBLISHES_EXPIRED, counter, "publishes_expired_total",                                     \
      "publishes rejected because the log was away for too long")                                  \
    X(M_PUBLISHES_TRIED_AGAIN, counter, "publishes_tried_again_total",                             \
      "publishes that wait because some keys of their room are on their way to another node")      \
    X(M_PUBLISHES_NOT_DURABLE, counter, "publishes_not_durable_total",                             \
      "publishes in the log that too few replicas, or no disk, have confirmed in time")            \
    X(M_SWEEPS, counter, "sweeps_total", "sweeps over all rooms, to cut idle ones by age")         \
    X(M_SWEPT, counter, "swept_entries_total", "entries that these have removed")                  \
    X(M_STATES_TOO_LARGE, counter, "states_too_large_total",                                       \
      "reads of a room's state refused because others had made it too large")

#define METRICS_AS_ENUM(symbol, kind, name, help) symbol,
enum metric { METRICS_LIST(METRICS_AS_ENUM) METRICS_COUNT };
#undef METRICS_AS_ENUM

struct metrics {
    uint64_t v[METRICS_COUNT];
};

static inline void metrics_add(struct metrics *m, enum metric which, uint64_t n)
{
    m->v[which] += n;
}

static inline void metrics_inc(struct metrics *m, enum metric which)
{
    m->v[which]++;
}

static inline void metrics_dec(struct metrics *m, enum metric which)
{
    m->v[which]--;
}

static inline void metrics_set(struct metrics *m, enum metric which, uint64_t value)
{
    m->v[which] = value;
}

/* Prints all in the Prometheus text format (version 0.0.4). Like snprintf: returns the length
 * needed, writes at most cap bytes, the last a NUL. */
size_t metrics_print(const struct metrics *m, char *dst, size_t cap);

#endif
