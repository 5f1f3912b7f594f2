#include "bench/summary.h"

#include "bench/clock.h"
#include "bench/die.h"

#include <stdio.h>

static double seconds_of(uint64_t ns)
{
    return (double)ns / (double)CLOCK_SECOND;
}

void summary_head(struct report *report, const struct run *run)
{
    const struct options *o = run->options;
    report_text(report, "command", options_command_name(o->command));
    report_text(report, "url", o->url);
    report_count(report, "sockets", o->sockets);
    report_count(report, "rooms", o->rooms);
    if (o->rate > 0) {
        report_number(report, "rate", o->rate, 1);
        report_count(report, "burst", o->burst);
    }
    if (o->command != OPTIONS_IDLE)
        report_count(report, "size", o->size);
}

void summary_connect(struct report *report, const struct run *run, double seconds)
{
    report_group(report, "connect");
    report_number(report, "seconds", seconds, 3);
    report_number(report, "per_second", (double)run->fleet.plan.sockets / seconds, 0);
    report_group_end(report);
}

void summary_traffic(struct report *report, const struct run *run, const struct run_usage *usage)
{
    const struct publisher *pub = &run->pub;
    report_number(report, "seconds", seconds_of(usage->wall_ns), 3);
    report_count(report, "published", pub->sent);
    report_count(report, "acked", pub->acked);
    report_count(report, "rejected", pub->rejected);
    if (pub->rejected > 0)
        report_text(report, "first_rejection", pub->first_rejection);
    if (pub->unsent > 0)
        report_count(report, "unsent", pub->unsent);
    report_count(report, "delivered", usage->applied);
    report_number(report, "delivered_per_second",
                  (double)usage->applied / seconds_of(usage->wall_ns), 0);
    report_hist(report, "latency_us", &run->fleet.latency);
    report_hist(report, "publisher_late_us", &pub->late);
}

void summary_cpu(struct report *report, const struct run *run, const struct run_usage *usage)
{
    if (run->options->pid != 0) {
        const struct proc_cpu *cpu = &usage->server;
        double each_us =
            usage->applied == 0 ? 0 : (double)cpu->total_ns / 1000.0 / (double)usage->applied;
        uint64_t ticked = cpu->user_ns + cpu->system_ns;
        double user_share = ticked == 0 ? 0 : (double)cpu->user_ns / (double)ticked;
        report_group(report, "server_cpu");
        if (usage->applied > 0) {
            report_number(report, "us_per_delivery", each_us, 3);
            report_number(report, "us_user", each_us * user_share, 3);
            report_number(report, "us_system", each_us * (1 - user_share), 3);
        }
        report_number(report, "core_percent",
                      100.0 * (double)cpu->total_ns / (double)usage->wall_ns, 2);
        report_group_end(report);
    }
    if (run->redis_pid != 0) {
        report_group(report, "redis_cpu");
        if (usage->applied > 0)
            report_number(report, "us_per_delivery",
                          (double)usage->redis_ns / 1000.0 / (double)usage->applied, 3);
        if (usage->published > 0)
            report_number(report, "us_per_publish",
                          (double)usage->redis_ns / 1000.0 / (double)usage->published, 2);
        report_number(report, "core_percent",
                      100.0 * (double)usage->redis_ns / (double)usage->wall_ns, 2);
        report_group_end(report);
    }
    report_number(report, "own_core_percent",
                  100.0 * (double)usage->own_ns / (double)usage->wall_ns, 1);
}

void summary_codes(struct report *report, const char *name, const struct fleet_code *codes)
{
    report_group(report, name);
    for (int i = 0; i < FLEET_CODES_MAX && codes[i].count > 0; i++) {
        char code[16];
        snprintf(code, sizeof(code), "%u", codes[i].code);
        report_count(report, code, codes[i].count);
    }
    report_group_end(report);
}

static void put_places(struct report *report, const char *name, const uint64_t *counts)
{
    report_group(report, name);
    report_count(report, "replay", counts[AUDIT_REPLAY]);
    report_count(report, "seam", counts[AUDIT_SEAM]);
    report_count(report, "live", counts[AUDIT_LIVE]);
    report_group_end(report);
}

int summary_verdict(struct report *report, const struct run *run)
{
    const struct fleet *fleet = &run->fleet;
    const struct publisher *pub = &run->pub;
    const struct audit_totals *t = &fleet->totals;
    report_group(report, "audit");
    report_count(report, "applied", t->applied);
    report_count(report, "lost", t->lost);
    report_count(report, "excess", t->excess);
    put_places(report, "gaps", t->gaps);
    put_places(report, "doubles", t->doubles);
    put_places(report, "disorder", t->disorder);
    report_count(report, "resyncs", t->resyncs);
    report_count(report, "breaches", t->breaches + pub->breaches);
    report_group_end(report);
    if (fleet->closed > 0)
        summary_codes(report, "readers_closed", fleet->codes);
    if (fleet->why[0] != '\0')
        report_text(report, "first_trouble", fleet->why);

    uint64_t unanswered = pub->sent - pub->acked - pub->rejected;
    if (unanswered > 0)
        report_count(report, "unanswered", unanswered);
    int status = DIE_OK;
    if (fleet->closed > 0 || fleet->refusals > 0 || pub->rejected > 0 || pub->unsent > 0 ||
        unanswered > 0)
        status = DIE_RUN;
    if (!audit_clean(t) || pub->breaches > 0)
        status = DIE_AUDIT;
    report_text(report, "verdict",
                status == DIE_OK      ? "ok"
                : status == DIE_AUDIT ? "the audit found faults"
                                      : "the server refused or ended a part of the run");
    return status;
}
