/* target.h - where the server is: a URL taken apart and resolved, once, before the run.
 *
 *   ws://host:port/path             TCP; port 80 and path /v1/ws where left out
 *   ws+unix:/run/roomd.sock:/path   a unix socket, written as Node's ws writes it
 *   unix:/run/roomd.sock            the same with the path /v1/ws
 */
#ifndef BENCH_TARGET_H
#define BENCH_TARGET_H

#include <stdbool.h>
#include <sys/socket.h>

enum { TARGET_TEXT_MAX = 256 };

struct target {
    struct sockaddr_storage addr;
    socklen_t addr_len;
    char host[TARGET_TEXT_MAX]; /* for the Host header */
    char path[TARGET_TEXT_MAX]; /* for the request line */
};

/* False, and a sentence in out_why, where the URL is malformed or its host unknown. */
bool target_parse(const char *url, struct target *out_target, char out_why[TARGET_TEXT_MAX]);

#endif
