#include "bench/metrics_page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { ANSWER_SECONDS = 10 };

static int connect_to(const struct target *target)
{
    const struct sockaddr *addr = (const struct sockaddr *)&target->addr;
    const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
    int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(fd, addr, target->addr_len) == 0)
        return fd;
    close(fd);
    return -1;
}

bool metrics_page_get(const struct target *target, struct metrics_page *out_page)
{
    char request[TARGET_TEXT_MAX + 128];
    int fd = connect_to(target);
    if (fd < 0)
        return false;
    int len =
        snprintf(request, sizeof(request),
                 "GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", target->host);
    size_t got = 0;
    ssize_t n = send(fd, request, (size_t)len, MSG_NOSIGNAL);
    while (n > 0 && got < sizeof(out_page->text) - 1) {
        n = recv(fd, out_page->text + got, sizeof(out_page->text) - 1 - got, 0);
        if (n > 0)
            got += (size_t)n;
    }
    close(fd);
    out_page->text[got] = '\0';
    return strncmp(out_page->text, "HTTP/1.1 200", 12) == 0;
}

uint64_t metrics_page_value(const struct metrics_page *page, const char *name)
{
    char wanted[128];
    uint64_t value = 0;
    (void)snprintf(wanted, sizeof(wanted), "\nroomd_%s ", name);
    const char *found = strstr(page->text, wanted);
    if (found != NULL)
        (void)sscanf(found + strlen(wanted), "%" SCNu64, &value);
    return value;
}
