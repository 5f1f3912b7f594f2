#include "tests/lib/redis_proxy.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int unix_socket(const char *path, struct sockaddr_un *out_address)
{
    *out_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    ck_assert_uint_lt(strlen(path), sizeof(out_address->sun_path));
    memcpy(out_address->sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static void hang_up(struct redis_proxy_guest *guest)
{
    struct loop *loop = guest->proxy->loop;
    int client = guest->client.fd;
    int server = guest->server.fd;
    loop_watch_stop(loop, &guest->client);
    loop_watch_stop(loop, &guest->server);
    (void)close(client);
    (void)close(server);
    guest->proxy = NULL;
}

/* Both sides read while they write, and the pieces are small: this doesn't wait for long. */
static bool pass(int fd, const char *bytes, size_t len)
{
    while (len != 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        len -= (size_t)sent;
    }
    return true;
}

static void on_client(void *arg, unsigned events)
{
    (void)events;
    struct redis_proxy_guest *guest = arg;
    const struct redis_proxy *proxy = guest->proxy;
    char bytes[16384];
    ssize_t got = recv(guest->client.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got <= 0) {
        hang_up(guest);
        return;
    }
    bool says = memmem(bytes, (size_t)got, proxy->word, strlen(proxy->word)) != NULL;
    guest->said |= says;
    guest->swallowed |= says && proxy->trick == REDIS_PROXY_SWALLOWS;
    if (guest->swallowed)
        return;
    if ((says && proxy->trick == REDIS_PROXY_HANGS_UP) ||
        !pass(guest->server.fd, bytes, (size_t)got))
        hang_up(guest);
}

static void on_server(void *arg, unsigned events)
{
    (void)events;
    struct redis_proxy_guest *guest = arg;
    char bytes[16384];
    ssize_t got = recv(guest->server.fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got > 0 && guest->said && guest->proxy->trick == REDIS_PROXY_MUTES)
        return;
    if (got <= 0 || !pass(guest->client.fd, bytes, (size_t)got))
        hang_up(guest);
}

static void on_door(void *arg, unsigned events)
{
    (void)events;
    struct redis_proxy *proxy = arg;
    struct redis_proxy_guest *guest = proxy->guests;
    while (guest->proxy != NULL)
        ck_assert_ptr_ne(++guest, proxy->guests + REDIS_PROXY_GUESTS);
    int client = accept(proxy->door.fd, NULL, NULL);
    ck_assert_int_ge(client, 0);
    struct sockaddr_un address;
    int server = unix_socket(proxy->to, &address);
    if (connect(server, (struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(server);
        (void)close(client);
        return;
    }
    *guest = (struct redis_proxy_guest){.proxy = proxy};
    loop_watch_start(proxy->loop, &guest->client, client, LOOP_READ, on_client, guest);
    loop_watch_start(proxy->loop, &guest->server, server, LOOP_READ, on_server, guest);
}

void redis_proxy_open(struct redis_proxy *proxy, struct loop *loop,
                      const struct redis_server *server)
{
    *proxy = (struct redis_proxy){.loop = loop, .word = "roomd-bell", .to = server->socket};
    (void)snprintf(proxy->socket, sizeof(proxy->socket), "%s/proxy.sock", server->dir);
    (void)snprintf(proxy->url, sizeof(proxy->url), "unix://%s", proxy->socket);
    struct sockaddr_un address;
    int door = unix_socket(proxy->socket, &address);
    ck_assert_int_eq(bind(door, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(door, REDIS_PROXY_GUESTS), 0);
    loop_watch_start(loop, &proxy->door, door, LOOP_READ, on_door, proxy);
}

void redis_proxy_close(struct redis_proxy *proxy)
{
    int door = proxy->door.fd;
    loop_watch_stop(proxy->loop, &proxy->door);
    (void)close(door);
    for (size_t i = 0; i < REDIS_PROXY_GUESTS; i++)
        if (proxy->guests[i].proxy != NULL)
            hang_up(&proxy->guests[i]);
    (void)unlink(proxy->socket);
}
