#include "edge/address.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BACKLOG = 4096 /* the kernel caps it at net.core.somaxconn */ };

static const char UNIX_PREFIX[] = "unix:";

static bool RD_PRINTF(3, 4) fail(char *reason, size_t cap, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(reason, cap, fmt, args);
    va_end(args);
    return false;
}

/* --- parsing -------------------------------------------------------------------------------- */

static bool parse_unix(const char *path, struct address *out, char *reason, size_t cap)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&out->sa;
    size_t len = strlen(path);
    if (len == 0)
        return fail(reason, cap, "a unix socket needs a path: unix:/run/roomd.sock");
    if (len >= sizeof(un->sun_path))
        return fail(reason, cap, "a unix socket's path may have %zu bytes at most",
                    sizeof(un->sun_path) - 1);
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path, len + 1);
    out->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + 1);
    return true;
}

static bool valid_port(const char *port)
{
    size_t len = strlen(port);
    unsigned number = 0;
    if (len == 0 || len > 5 || strspn(port, "0123456789") != len)
        return false;
    for (; *port != '\0'; port++)
        number = number * 10 + (unsigned)(*port - '0');
    return number <= 65535;
}

/* host:port, where a host with colons is in brackets. */
static bool split(const char *text, char *host, size_t host_cap, const char **out_port)
{
    const char *colon = strrchr(text, ':');
    if (colon == NULL || !valid_port(colon + 1))
        return false;
    const char *begin = text;
    const char *end = colon;
    if (*begin == '[') {
        if (end == begin || end[-1] != ']')
            return false;
        begin++;
        end--;
    } else if (memchr(begin, ':', (size_t)(end - begin)) != NULL) {
        return false;
    }
    if (end <= begin || (size_t)(end - begin) >= host_cap)
        return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *out_port = colon + 1;
    return true;
}

static bool parse_inet(const char *text, struct address *out, char *reason, size_t cap)
{
    char host[ADDRESS_TEXT_MAX];
    const char *port;
    if (!split(text, host, sizeof(host), &port))
        return fail(reason, cap,
                    "expected HOST:PORT, [IPV6]:PORT or unix:/PATH, for example 127.0.0.1:8080");

    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found;
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return fail(reason, cap, "%s: %s", host, gai_strerror(rc));
    memcpy(&out->sa, found->ai_addr, found->ai_addrlen);
    out->len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

bool address_parse(const char *text, struct address *out, char *reason, size_t cap)
{
    memset(out, 0, sizeof(*out));
    if (strlen(text) >= sizeof(out->text))
        return fail(reason, cap, "too long");
    memcpy(out->text, text, strlen(text) + 1);
    if (strncmp(text, UNIX_PREFIX, sizeof(UNIX_PREFIX) - 1) == 0)
        return parse_unix(text + sizeof(UNIX_PREFIX) - 1, out, reason, cap);
    return parse_inet(text, out, reason, cap);
}

void address_format(const struct sockaddr *sa, socklen_t len, char *dst, size_t cap)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (sa->sa_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)sa;
        bool named = len > offsetof(struct sockaddr_un, sun_path);
        (void)snprintf(dst, cap, "%s%s", UNIX_PREFIX, named ? un->sun_path : "");
    } else if (getnameinfo(sa, len, host, sizeof(host), port, sizeof(port),
                           NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        (void)snprintf(dst, cap, "unknown");
    } else {
        bool v6 = sa->sa_family == AF_INET6;
        (void)snprintf(dst, cap, "%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "", port);
    }
}

/* --- listening ------------------------------------------------------------------------------ */

static const char *unix_path(const struct address *address)
{
    return address->sa.ss_family == AF_UNIX ? ((const struct sockaddr_un *)&address->sa)->sun_path
                                            : NULL;
}

/* A socket's file outlives a server that was killed, and then nobody answers there. */
static bool is_stale(const struct address *address)
{
    struct stat st;
    if (lstat(unix_path(address), &st) != 0 || !S_ISSOCK(st.st_mode))
        return false;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    bool stale = connect(fd, (const struct sockaddr *)&address->sa, address->len) != 0 &&
                 errno == ECONNREFUSED;
    (void)close(fd);
    return stale;
}

static bool bind_to(int fd, const struct address *address)
{
    const struct sockaddr *sa = (const struct sockaddr *)&address->sa;
    if (bind(fd, sa, address->len) == 0)
        return true;
    if (errno != EADDRINUSE || unix_path(address) == NULL)
        return false;
    if (!is_stale(address) || unlink(unix_path(address)) != 0) {
        errno = EADDRINUSE;
        return false;
    }
    return bind(fd, sa, address->len) == 0;
}

int address_listen(const struct address *address, char *reason, size_t cap)
{
    int on = 1;
    int family = address->sa.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        (family == AF_UNIX || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0) &&
        (family != AF_INET6 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
        bind_to(fd, address) && listen(fd, BACKLOG) == 0)
        return fd;
    (void)fail(reason, cap, "%s", strerror(errno));
    if (fd >= 0)
        (void)close(fd);
    return -1;
}

void address_unlisten(const struct address *address, int fd)
{
    const char *path = unix_path(address);
    (void)close(fd);
    /* Where the file is another server's by now, that one answers. */
    if (path != NULL && is_stale(address))
        (void)unlink(path);
}
