/* held_reply.h - a reply of Redis' made of its RESP text, for tests of what reads replies. */
#ifndef TESTS_LIB_HELD_REPLY_H
#define TESTS_LIB_HELD_REPLY_H

#include "roomlog/redis_reply.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

/* A reply with all that it is a view on. */
struct held_reply {
    struct redis_reply reply;
    struct redis_scan scan;
    char bytes[];
};

/* Returns owned, in a block of exactly the text's size: held_reply_let_go. */
static inline const struct redis_reply *held_reply_of(const char *resp)
{
    size_t len = strlen(resp);
    struct held_reply *held = malloc(sizeof(*held) + len);
    ck_assert_ptr_nonnull(held);
    memcpy(held->bytes, resp, len);
    redis_scan_init(&held->scan);
    ck_assert_msg(redis_scan_run(&held->scan, (struct str){held->bytes, len}) == REDIS_SCAN_WHOLE,
                  "no whole reply: %s", resp);
    ck_assert_uint_eq(held->scan.at, len);
    held->reply = redis_reply_of(&held->scan, held->bytes);
    return &held->reply;
}

static inline void held_reply_let_go(const struct redis_reply *reply)
{
    struct held_reply *held = RD_CONTAINER(reply, struct held_reply, reply);
    redis_scan_fini(&held->scan);
    free(held);
}

#endif
