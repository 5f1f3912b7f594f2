#include "roomlog/redis_resolve.h"

#include "base/xalloc.h"
#include "protocol/str.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* What loop and thread share. host is read, result written by the thread alone until it has rung.
 */
struct job {
    atomic_int holders;
    int bell;
    char *host;
    struct redis_resolve_result result;
};

struct redis_resolve {
    struct loop *loop;
    struct loop_watch watch;
    struct job *job;
    redis_resolve_fn done;
    void *arg;
};

static void job_unref(struct job *job)
{
    if (atomic_fetch_sub(&job->holders, 1) != 1)
        return;
    (void)close(job->bell);
    free(job->host);
    free(job);
}

static bool known(const struct redis_resolve_result *result, const char *address)
{
    for (size_t i = 0; i < result->count; i++)
        if (strcmp(result->address[i], address) == 0)
            return true;
    return false;
}

static void look_up(const char *host, struct redis_resolve_result *result)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(host, NULL, &hints, &found);
    if (rc != 0) {
        result->reason = gai_strerror(rc);
        return;
    }
    for (struct addrinfo *at = found; at != NULL && result->count < REDIS_RESOLVE_MAX;
         at = at->ai_next) {
        char *dst = result->address[result->count];
        if (getnameinfo(at->ai_addr, at->ai_addrlen, dst, REDIS_RESOLVE_TEXT, NULL, 0,
                        NI_NUMERICHOST) == 0 &&
            !known(result, dst))
            result->count++;
    }
    freeaddrinfo(found);
    if (result->count == 0)
        result->reason = "the name has no address";
}

static void *thread_main(void *arg)
{
    struct job *job = arg;
    look_up(job->host, &job->result);
    uint64_t one = 1;
    /* A counter at 0 takes 1 without blocking; there is nobody to tell if it doesn't. */
    ssize_t written = write(job->bell, &one, sizeof(one));
    (void)written;
    job_unref(job);
    return NULL;
}

/* Signals are for the loop's thread. */
static bool start_thread(struct job *job)
{
    sigset_t all;
    sigset_t before;
    pthread_t thread;
    pthread_attr_t detached;
    (void)sigfillset(&all);
    if (pthread_attr_init(&detached) != 0)
        return false;
    (void)pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, &detached, thread_main, job) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&detached);
    return started;
}

static void on_bell(void *arg, unsigned events)
{
    (void)events;
    struct redis_resolve *resolve = arg;
    uint64_t rung;
    if (read(resolve->job->bell, &rung, sizeof(rung)) != (ssize_t)sizeof(rung))
        return;
    struct redis_resolve_result result = resolve->job->result;
    redis_resolve_fn done = resolve->done;
    void *done_arg = resolve->arg;
    redis_resolve_cancel(resolve);
    done(done_arg, &result);
}

bool redis_resolve_numeric(const char *host, struct redis_resolve_result *out_result)
{
    unsigned char address[sizeof(struct in6_addr)];
    size_t len = strlen(host);
    if (len >= REDIS_RESOLVE_TEXT ||
        (inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1))
        return false;
    *out_result = (struct redis_resolve_result){.count = 1};
    memcpy(out_result->address[0], host, len + 1);
    return true;
}

struct redis_resolve *redis_resolve_start(struct loop *loop, const char *host,
                                          redis_resolve_fn done, void *arg)
{
    int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0)
        return NULL;
    struct job *job = xalloc_zero(sizeof(*job));
    atomic_init(&job->holders, 2);
    job->bell = bell;
    job->host = xalloc_str(str_from(host));
    if (!start_thread(job)) {
        atomic_store(&job->holders, 1);
        job_unref(job);
        return NULL;
    }
    struct redis_resolve *resolve = xalloc_zero(sizeof(*resolve));
    resolve->loop = loop;
    resolve->job = job;
    resolve->done = done;
    resolve->arg = arg;
    loop_watch_start(loop, &resolve->watch, bell, LOOP_READ, on_bell, resolve);
    return resolve;
}

void redis_resolve_cancel(struct redis_resolve *resolve)
{
    if (resolve == NULL)
        return;
    loop_watch_stop(resolve->loop, &resolve->watch);
    job_unref(resolve->job);
    free(resolve);
}
