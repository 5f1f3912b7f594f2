#include "bench/redis_link.h"

#include "bench/die.h"
#include "bench/proc.h"
#include "roomlog/redis_url.h"

#include <assert.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONNECT_SECONDS = 5 };

struct redis_link {
    redisContext *context;
    bool local;
    uint64_t unanswered;
    uint64_t errors;
    char error[REDIS_LINK_REASON_MAX];
};

static _Noreturn void fail(const struct redis_link *link)
{
    die(DIE_RUN, "redis: %s", link->context->errstr);
}

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static redisReply *ask(struct redis_link *link, const struct str *words, size_t count)
{
    assert(link->unanswered == 0);
    redis_link_put(link, words, count);
    link->unanswered--;
    void *reply;
    if (redisGetReply(link->context, &reply) != REDIS_OK)
        fail(link);
    redisReply *answer = reply;
    if (answer->type == REDIS_REPLY_ERROR)
        die(DIE_RUN, "redis: %.*s: %s", (int)words[0].len, words[0].p, answer->str);
    return answer;
}

static void greet(struct redis_link *link, const struct redis_url *url)
{
    if (url->password != NULL) {
        const struct str words[] = {STR("AUTH"),
                                    str_from(url->user != NULL ? url->user : "default"),
                                    str_from(url->password)};
        freeReplyObject(ask(link, words, 3));
    }
    if (url->db != 0) {
        char db[16];
        (void)snprintf(db, sizeof(db), "%u", url->db);
        const struct str words[] = {STR("SELECT"), str_from(db)};
        freeReplyObject(ask(link, words, 2));
    }
    freeReplyObject(ask(link, &STR("PING"), 1));
}

struct redis_link *redis_link_open(const char *text)
{
    struct redis_url url;
    char reason[REDIS_LINK_REASON_MAX];
    if (!redis_url_parse(text, &url, reason, sizeof(reason)))
        die(DIE_USAGE, "%s", reason);
    if (url.kind != REDIS_URL_ONE || url.tls)
        die(DIE_USAGE, "\"%s\": one Redis, without TLS, is what can be measured", text);
    struct redis_link *link = die_if_null(calloc(1, sizeof(*link)));
    struct timeval limit = {.tv_sec = CONNECT_SECONDS};
    const struct redis_place *place = &url.places[0];
    bool socket = place->port == 0;
    link->context = die_if_null(socket ? redisConnectUnixWithTimeout(place->host, limit)
                                       : redisConnectWithTimeout(place->host, place->port, limit));
    if (link->context->err != 0)
        fail(link);
    link->local = socket || is_loopback(place->host);
    greet(link, &url);
    redis_url_fini(&url);
    return link;
}

void redis_link_close(struct redis_link *link)
{
    if (link == NULL)
        return;
    redisFree(link->context);
    free(link);
}

/* --- commands ------------------------------------------------------------------------------- */

void redis_link_put(struct redis_link *link, const struct str *words, size_t count)
{
    const char *argv[REDIS_LINK_WORDS_MAX];
    size_t lens[REDIS_LINK_WORDS_MAX];
    assert(count != 0 && count <= REDIS_LINK_WORDS_MAX);
    for (size_t i = 0; i < count; i++) {
        argv[i] = words[i].p;
        lens[i] = words[i].len;
    }
    if (redisAppendCommandArgv(link->context, (int)count, argv, lens) != REDIS_OK)
        fail(link);
    link->unanswered++;
}

void redis_link_flush(struct redis_link *link)
{
    for (int done = 0; !done;)
        if (redisBufferWrite(link->context, &done) != REDIS_OK)
            fail(link);
}

static void take(struct redis_link *link, redisReply *reply)
{
    assert(link->unanswered != 0);
    link->unanswered--;
    if (reply->type == REDIS_REPLY_ERROR && link->errors++ == 0)
        (void)snprintf(link->error, sizeof(link->error), "%s", reply->str);
    freeReplyObject(reply);
}

void redis_link_drain(struct redis_link *link, int wait_ms)
{
    struct pollfd fd = {.fd = link->context->fd, .events = POLLIN};
    while (link->unanswered != 0 && poll(&fd, 1, wait_ms) > 0) {
        if (redisBufferRead(link->context) != REDIS_OK)
            fail(link);
        for (;;) {
            void *reply = NULL;
            if (redisReaderGetReply(link->context->reader, &reply) != REDIS_OK)
                die(DIE_RUN, "redis: %s", redisReaderGetError(link->context->reader));
            if (reply == NULL)
                break;
            take(link, reply);
        }
        wait_ms = 0;
    }
}

void redis_link_settle(struct redis_link *link)
{
    redis_link_flush(link);
    while (link->unanswered != 0)
        redis_link_drain(link, -1);
}

uint64_t redis_link_unanswered(const struct redis_link *link)
{
    return link->unanswered;
}

uint64_t redis_link_errors(const struct redis_link *link)
{
    return link->errors;
}

const char *redis_link_error(const struct redis_link *link)
{
    return link->error;
}

/* --- questions ------------------------------------------------------------------------------ */

uint64_t redis_link_client_id(struct redis_link *link)
{
    const struct str words[] = {STR("CLIENT"), STR("ID")};
    redisReply *reply = ask(link, words, 2);
    uint64_t id = (uint64_t)reply->integer;
    freeReplyObject(reply);
    return id;
}

size_t redis_link_find_clients(struct redis_link *link, uint64_t above, const char *prefix,
                               uint64_t *out_ids, size_t cap)
{
    const struct str words[] = {STR("CLIENT"), STR("LIST")};
    redisReply *reply = ask(link, words, 2);
    size_t found = 0;
    char *rest = reply->str;
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        uint64_t id;
        const char *name = strstr(line, " name=");
        if (sscanf(line, "id=%" SCNu64, &id) != 1 || id <= above || name == NULL ||
            strncmp(name + strlen(" name="), prefix, strlen(prefix)) != 0)
            continue;
        if (found < cap)
            out_ids[found] = id;
        found++;
    }
    freeReplyObject(reply);
    return found;
}

uint64_t redis_link_calls(struct redis_link *link, const char *command)
{
    const struct str words[] = {STR("INFO"), STR("commandstats")};
    redisReply *reply = ask(link, words, 2);
    char wanted[64];
    uint64_t calls = 0;
    (void)snprintf(wanted, sizeof(wanted), "cmdstat_%s:calls=", command);
    const char *found = strstr(reply->str, wanted);
    if (found != NULL)
        (void)sscanf(found + strlen(wanted), "%" SCNu64, &calls);
    freeReplyObject(reply);
    return calls;
}

/* A loopback port may lead to another machine or container, whose pid 17 isn't ours. */
static bool is_redis(pid_t pid)
{
    char path[64];
    char name[64] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool ok = fgets(name, sizeof(name), f) != NULL &&
              (strstr(name, "redis") != NULL || strstr(name, "valkey") != NULL);
    fclose(f);
    return ok;
}

pid_t redis_link_server_pid(struct redis_link *link)
{
    if (!link->local)
        return 0;
    const struct str words[] = {STR("INFO"), STR("server")};
    redisReply *reply = ask(link, words, 2);
    int pid = 0;
    struct proc_cpu cpu;
    const char *found = strstr(reply->str, "\nprocess_id:");
    if (found != NULL)
        (void)sscanf(found, "\nprocess_id:%d", &pid);
    freeReplyObject(reply);
    return pid > 0 && is_redis(pid) && proc_read_cpu(pid, &cpu) ? pid : 0;
}
