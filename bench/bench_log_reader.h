/* bench_log_reader.h - follows the rooms of a run and judges what comes. */
#ifndef BENCH_BENCH_LOG_READER_H
#define BENCH_BENCH_LOG_READER_H

#include "base/packet.h"
#include "bench/bench_log_audit.h"
#include "bench/bench_log_host.h"
#include "bench/bench_log_pub.h"
#include "bench/hist.h"

struct bench_log_reader;

struct bench_log_reader_room {
    struct roomlog_follower follower; /* first */
    struct bench_log_reader *reader;
    struct bench_log_audit audit;
    struct stream_id last;
    bool started;
};

struct bench_log_reader {
    const struct bench_log_options *options;
    struct bench_log_pub *pub;
    struct bench_log_host host;
    struct bench_log_reader_room *rooms;
    unsigned started;
    uint64_t delivered;
    struct bench_log_faults faults; /* kept over rounds by whoever owns the reader */

    /* Publishes that were due from..to are timed. */
    uint64_t from_ns, to_ns;
    struct hist due, sent;

    bool encode;
    struct packet_account packets;
};

/* Opens the log and follows the first options->followed rooms; the publisher must be idle. Ends the
 * process where the log doesn't come up. Keeps options and pub. Returns the milliseconds from the
 * log being ready until every room was followed. */
double bench_log_reader_open(struct bench_log_reader *reader,
                             const struct bench_log_options *options, struct bench_log_pub *pub);

/* Waits until all that was published is there, or nothing has come for some seconds. */
void bench_log_reader_settle(struct bench_log_reader *reader);

/* Lets go of everything, and adds what was found wrong to totals. */
void bench_log_reader_close(struct bench_log_reader *reader, struct bench_log_faults *totals);

#endif
