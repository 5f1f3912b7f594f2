/* address.h - where roomd listens: 127.0.0.1:8080, [::]:8080, localhost:8080, unix:/run/roomd.sock.
 */
#ifndef EDGE_ADDRESS_H
#define EDGE_ADDRESS_H

#include "base/rd.h"

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { ADDRESS_TEXT_MAX = 160 };

struct address {
    char text[ADDRESS_TEXT_MAX]; /* as it was given */
    struct sockaddr_storage sa;
    socklen_t len;
};

/* False: reason (at most cap bytes with its NUL) says what is wrong. A host's name is looked up. */
RD_MUST_USE bool address_parse(const char *text, struct address *out, char *reason, size_t cap);

/* A listening socket, non-blocking; an IPv6 one takes no IPv4, so that [::] and 0.0.0.0 can both be
 * listened on. The file of a unix socket that nobody listens on any more is replaced. -1: reason
 * says why. */
RD_MUST_USE int address_listen(const struct address *address, char *reason, size_t cap);
/* Closes it, and removes a unix socket's file, if it is still this socket's. */
void address_unlisten(const struct address *address, int fd);

/* "127.0.0.1:8080", "[::1]:8080", "unix:/run/roomd.sock"; "unix:" where the name is empty, as a
 * client's is. */
void address_format(const struct sockaddr *sa, socklen_t len, char *dst, size_t cap);

#endif
