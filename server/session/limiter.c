#include "session/limiter.h"

#include <assert.h>

enum { TOKEN = 1000 };

void limiter_init(struct limiter *limiter, uint64_t rate, uint64_t burst, uint64_t now_ms)
{
    assert(burst != 0 && burst <= UINT64_MAX / TOKEN);
    *limiter =
        (struct limiter){.rate = rate, .burst = burst, .filled = burst * TOKEN, .at_ms = now_ms};
}

bool limiter_take(struct limiter *limiter, uint64_t now_ms)
{
    if (limiter->rate == 0)
        return true;
    uint64_t full = limiter->burst * TOKEN;
    uint64_t passed_ms = now_ms - limiter->at_ms;
    uint64_t room = full - limiter->filled;
    /* A thousandth of a token is gained each millisecond for each token a second. */
    limiter->filled =
        passed_ms > room / limiter->rate ? full : limiter->filled + passed_ms * limiter->rate;
    limiter->at_ms = now_ms;
    if (limiter->filled < TOKEN)
        return false;
    limiter->filled -= TOKEN;
    return true;
}
