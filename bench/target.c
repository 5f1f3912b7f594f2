#include "bench/target.h"

#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static const char DEFAULT_PATH[] = "/v1/ws";

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static bool fault(char *out_why, const char *what, const char *detail)
{
    snprintf(out_why, TARGET_TEXT_MAX, "%s%s%.100s", what, detail[0] == '\0' ? "" : ": ", detail);
    return false;
}

static bool copy(char *dst, size_t cap, const char *from, size_t len)
{
    if (len == 0 || len >= cap)
        return false;
    memcpy(dst, from, len);
    dst[len] = '\0';
    return true;
}

static bool parse_unix(const char *rest, struct target *target, char *out_why)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const char *colon = strchr(rest, ':');
    size_t len = colon == NULL ? strlen(rest) : (size_t)(colon - rest);
    if (!copy(un.sun_path, sizeof(un.sun_path), rest, len))
        return fault(out_why, "the socket's path is empty or too long", rest);
    const char *path = colon == NULL ? DEFAULT_PATH : colon + 1;
    if (path[0] != '/' || !copy(target->path, sizeof(target->path), path, strlen(path)))
        return fault(out_why, "what follows the socket's path must be a request path", rest);
    memcpy(&target->addr, &un, sizeof(un));
    target->addr_len = sizeof(un);
    strcpy(target->host, "localhost");
    return true;
}

static bool resolve(const char *host, const char *port, struct target *target, char *out_why)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(host, port, &hints, &found);
    if (rc != 0)
        return fault(out_why, gai_strerror(rc), host);
    memcpy(&target->addr, found->ai_addr, found->ai_addrlen);
    target->addr_len = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

static bool parse_tcp(const char *rest, struct target *target, char *out_why)
{
    const char *slash = strchr(rest, '/');
    size_t authority_len = slash == NULL ? strlen(rest) : (size_t)(slash - rest);
    const char *path = slash == NULL ? DEFAULT_PATH : slash;
    if (!copy(target->host, sizeof(target->host), rest, authority_len) ||
        !copy(target->path, sizeof(target->path), path, strlen(path)))
        return fault(out_why, "the host is missing, or the URL is too long", rest);

    char host[TARGET_TEXT_MAX];
    memcpy(host, target->host, sizeof(host));
    char *name = host;
    char *tail = host; /* where a port may follow */
    if (host[0] == '[') {
        tail = strchr(host, ']');
        if (tail == NULL)
            return fault(out_why, "an IPv6 address lacks its bracket", rest);
        *tail++ = '\0';
        name = host + 1;
    }
    char *colon = strchr(tail, ':');
    if (colon != NULL)
        *colon = '\0';
    return resolve(name, colon == NULL ? "80" : colon + 1, target, out_why);
}

bool target_parse(const char *url, struct target *out_target, char out_why[TARGET_TEXT_MAX])
{
    struct target target;
    memset(&target, 0, sizeof(target));
    bool ok;
    if (starts_with(url, "ws://"))
        ok = parse_tcp(url + strlen("ws://"), &target, out_why);
    else if (starts_with(url, "ws+unix:"))
        ok = parse_unix(url + strlen(starts_with(url, "ws+unix://") ? "ws+unix://" : "ws+unix:"),
                        &target, out_why);
    else if (starts_with(url, "unix:"))
        ok = parse_unix(url + strlen("unix:"), &target, out_why);
    else
        ok = fault(out_why, "it must begin with ws:// or unix:", "");
    if (ok)
        *out_target = target;
    return ok;
}
