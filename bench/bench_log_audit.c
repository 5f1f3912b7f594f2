#include "bench/bench_log_audit.h"

enum { WINDOW = 64 };

bool bench_log_audit_take(struct bench_log_audit *audit, uint64_t n,
                          struct bench_log_faults *faults)
{
    if (n == 0) {
        faults->alien++;
        return false;
    }
    if (n > audit->last) {
        uint64_t step = n - audit->last;
        audit->seen = step < WINDOW ? audit->seen << step | 1 : 1;
        audit->last = n;
        audit->came++;
        return true;
    }
    uint64_t behind = audit->last - n;
    if (behind < WINDOW && (audit->seen >> behind & 1) != 0) {
        faults->doubled++;
        return false;
    }
    faults->disorder++;
    if (behind >= WINDOW)
        return false;
    audit->seen |= UINT64_C(1) << behind;
    audit->came++;
    return true;
}

void bench_log_audit_settle(const struct bench_log_audit *audit, uint64_t published,
                            struct bench_log_faults *faults)
{
    if (audit->last > published)
        faults->alien++;
    if (audit->came < published)
        faults->lost += published - audit->came;
}

bool bench_log_audit_clean(const struct bench_log_faults *faults)
{
    return faults->lost == 0 && faults->doubled == 0 && faults->disorder == 0 &&
           faults->alien == 0 && faults->unlinked == 0 && faults->breaks == 0;
}
