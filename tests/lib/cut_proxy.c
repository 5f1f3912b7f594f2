#include "tests/lib/cut_proxy.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PIECE = 65536 };

static int unix_socket(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(address->sun_path, sizeof(address->sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void hang_up(struct cut_proxy *proxy)
{
    for (int i = 0; i < 2 && proxy->open; i++) {
        int fd = proxy->sides[i].fd;
        loop_watch_stop(proxy->loop, &proxy->sides[i]);
        (void)close(fd);
    }
    proxy->open = false;
}

void cut_proxy_cut(struct cut_proxy *proxy)
{
    hang_up(proxy);
    proxy->cuts++;
    for (int way = 0; way < CUT_PROXY_WAYS; way++)
        proxy->left[way] = -1;
}

static void say(int fd, const char *p, size_t len)
{
    while (len != 0) {
        ssize_t done = send(fd, p, len, MSG_NOSIGNAL);
        if (done <= 0)
            return; /* the other side is gone, which we are about to read */
        p += done;
        len -= (size_t)done;
    }
}

static void hand_on(struct cut_proxy *proxy, enum cut_proxy_way way)
{
    char piece[PIECE];
    ssize_t len = recv(proxy->sides[way].fd, piece, sizeof(piece), MSG_DONTWAIT);
    if (len <= 0) {
        hang_up(proxy);
        return;
    }
    if (way == CUT_PROXY_REQUEST && proxy->instead_of != 0) {
        proxy->instead_of--;
        say(proxy->sides[0].fd, proxy->instead, strlen(proxy->instead));
        return;
    }
    bool cut = proxy->left[way] >= 0 && proxy->left[way] <= len;
    size_t more = cut ? (size_t)proxy->left[way] : (size_t)len;
    proxy->passed[way] += more;
    if (proxy->left[way] >= 0)
        proxy->left[way] -= (long)more;
    say(proxy->sides[1 - way].fd, piece, more);
    if (cut)
        cut_proxy_cut(proxy);
}

static void on_request(void *arg, unsigned events)
{
    (void)events;
    hand_on(arg, CUT_PROXY_REQUEST);
}

static void on_reply(void *arg, unsigned events)
{
    (void)events;
    hand_on(arg, CUT_PROXY_REPLY);
}

static void on_door(void *arg, unsigned events)
{
    (void)events;
    struct cut_proxy *proxy = arg;
    struct sockaddr_un address;
    int here = accept(proxy->door.fd, NULL, NULL);
    ck_assert_int_ge(here, 0);
    hang_up(proxy);
    int there = unix_socket(proxy->upstream, &address);
    if (connect(there, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(here);
        (void)close(there);
        return;
    }
    proxy->open = true;
    loop_watch_start(proxy->loop, &proxy->sides[0], here, LOOP_READ, on_request, proxy);
    loop_watch_start(proxy->loop, &proxy->sides[1], there, LOOP_READ, on_reply, proxy);
}

void cut_proxy_start(struct cut_proxy *proxy, struct loop *loop, const char *path,
                     const char *upstream)
{
    struct sockaddr_un address;
    *proxy = (struct cut_proxy){.loop = loop, .upstream = upstream, .left = {-1, -1}};
    (void)snprintf(proxy->path, sizeof(proxy->path), "%s", path);
    int fd = unix_socket(path, &address);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(fd, 16), 0);
    loop_watch_start(loop, &proxy->door, fd, LOOP_READ, on_door, proxy);
}

void cut_proxy_stop(struct cut_proxy *proxy)
{
    if (proxy->path[0] == '\0')
        return;
    hang_up(proxy);
    int fd = proxy->door.fd;
    loop_watch_stop(proxy->loop, &proxy->door);
    (void)close(fd);
    (void)unlink(proxy->path);
    proxy->path[0] = '\0';
}

void cut_proxy_after(struct cut_proxy *proxy, enum cut_proxy_way way, size_t n)
{
    proxy->left[way] = (long)n;
    if (n == 0)
        cut_proxy_cut(proxy);
}

void cut_proxy_answer(struct cut_proxy *proxy, const char *text, unsigned count)
{
    proxy->instead = text;
    proxy->instead_of = count;
}
