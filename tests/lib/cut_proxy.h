/* cut_proxy.h - stands between one connection and Redis, and cuts it after so many bytes.
 *
 * Listens on a unix socket of its own and hands everything through, until the test says where to
 * cut: after n more bytes towards Redis, or after n more of what comes back. What came before the
 * cut has arrived, what comes behind it never does, and both sides see the connection end. The next
 * one is handed through again.
 *
 * It can also answer in Redis' place, or let nobody in.
 */
#ifndef TESTS_LIB_CUT_PROXY_H
#define TESTS_LIB_CUT_PROXY_H

#include "base/loop.h"

enum cut_proxy_way { CUT_PROXY_REQUEST, CUT_PROXY_REPLY, CUT_PROXY_WAYS };

struct cut_proxy {
    struct loop *loop;
    char path[100];
    const char *upstream; /* Redis' socket; kept */
    struct loop_watch door;
    struct loop_watch sides[2]; /* us, Redis; of the one connection */
    bool open;
    long left[CUT_PROXY_WAYS]; /* bytes until the cut; below 0: none */
    const char *instead;       /* what is said in Redis' place, NULL: nothing */
    unsigned instead_of;       /* to how many more commands */
    unsigned cuts;
    size_t passed[CUT_PROXY_WAYS]; /* bytes, since cut_proxy_start */
};

/* Listens on path. Keeps loop and upstream. What goes wrong aborts the test. */
void cut_proxy_start(struct cut_proxy *proxy, struct loop *loop, const char *path,
                     const char *upstream);
/* Ends the connection and removes the socket. Harmless where it was stopped. */
void cut_proxy_stop(struct cut_proxy *proxy);

/* Cuts the connection after n more bytes of that way. */
void cut_proxy_after(struct cut_proxy *proxy, enum cut_proxy_way way, size_t n);
/* Cuts it now. */
void cut_proxy_cut(struct cut_proxy *proxy);

/* The next `count` pieces of what is sent don't reach Redis; to each, this is the answer. */
void cut_proxy_answer(struct cut_proxy *proxy, const char *text, unsigned count);

#endif
