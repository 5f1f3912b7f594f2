/* redis_proxy.h - stands between roomd's log and a redis-server, and isn't always honest.
 *
 * A unix socket beside the server's, served by the test's own loop. It passes bytes on as they
 * come, but for what it is told to do to whoever says a certain word.
 */
#ifndef TESTS_LIB_REDIS_PROXY_H
#define TESTS_LIB_REDIS_PROXY_H

#include "base/loop.h"
#include "tests/lib/redis_server.h"

enum redis_proxy_trick {
    REDIS_PROXY_HONEST,
    REDIS_PROXY_SWALLOWS, /* a piece with the word, and all that its connection says after it */
    REDIS_PROXY_HANGS_UP, /* on whoever says the word */
    REDIS_PROXY_MUTES     /* whoever has ever said the word: nothing is passed on to it any more */
};

enum { REDIS_PROXY_GUESTS = 24 };

struct redis_proxy_guest {
    struct redis_proxy *proxy; /* NULL: free */
    struct loop_watch client, server;
    bool swallowed;
    bool said; /* the word */
};

/* The test sets trick and word at any time. */
struct redis_proxy {
    struct loop *loop;
    struct loop_watch door;
    enum redis_proxy_trick trick;
    const char *word;
    const char *to; /* the server's socket */
    struct redis_proxy_guest guests[REDIS_PROXY_GUESTS];
    char socket[96]; /* shorter than sun_path, and longer than a folder of the tests */
    char url[144];
};

/* server outlives it. Honest to begin with; watches for "roomd-bell", which is BELL's name. */
void redis_proxy_open(struct redis_proxy *proxy, struct loop *loop,
                      const struct redis_server *server);
/* Hangs up on everybody. */
void redis_proxy_close(struct redis_proxy *proxy);

#endif
