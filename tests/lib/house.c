#include "tests/lib/house.h"

#include "base/logger.h"

#include <assert.h>
#include <stdio.h>

enum { READ_MAX = 64 << 20 };

struct house_limits house_limits(void)
{
    return (struct house_limits){
        .log = {.max_entries = 100000,
                .max_bytes = 64 << 20,
                .max_rooms = 1000,
                .max_refs = 1000,
                .dedupe_ms = 300000,
                .max_in_flight = 100000},
        .registry = {.max_rooms = 1000,
                     .linger_ms = 10000,
                     .replay = {.page_entries = 10,
                                .page_bytes = 65536,
                                .in_flight = 4,
                                .start_limit_ms = 3000}},
        .session = {.high_water = 1 << 20,
                    .low_water = 256 << 10,
                    .pending_bytes = 256 << 10,
                    .max_rooms = 64,
                    .max_publishes = 64,
                    .max_frame_bytes = 65536,
                    .packet_budget = 256 << 20,
                    .max_errors = 16,
                    .heartbeat_ms = 25000,
                    .close_ms = 5000},
    };
}

void house_build(struct house *house, const struct house_limits *limits)
{
    *house = (struct house){0};
    logger_setup(LOGGER_ERROR, LOGGER_LOGFMT);
    fake_loop_init(&house->loop, 1);
    house->mem = roomlog_mem_create(&house->loop.loop, &house->metrics, &limits->log);
    house->log = faulty_roomlog_create(&house->loop.loop, house->mem);
    registry_init(&house->registry, &house->loop.loop, house->log, &house->metrics,
                  &limits->registry);
    session_host_init(&house->host, &house->loop.loop, house->log, &house->registry,
                      &house->registry.packets, &house->metrics, &limits->session);
}

void house_take_down(struct house *house)
{
    fake_loop_turn(&house->loop);
    session_host_fini(&house->host);
    registry_fini(&house->registry);
    roomlog_close(house->log);
    fake_loop_turn(&house->loop);
    fake_loop_fini(&house->loop);
    assert(house->metrics.v[M_CONNECTIONS] == 0 && house->metrics.v[M_ROOMS] == 0);
    assert(house->metrics.v[M_MEMBERS] == 0 && house->metrics.v[M_REPLAYING] == 0);
}

void house_fill(struct house *house, const char *room, unsigned first, unsigned last)
{
    for (unsigned n = first; n <= last; n++) {
        char data[32];
        (void)snprintf(data, sizeof(data), "{\"n\":%u}", n);
        const struct roomlog_publish what = {.type = STR("t"), .data = str_from(data)};
        bool added = roomlog_mem_add(house->mem, str_from(room), (struct stream_id){1, n}, &what);
        assert(added);
    }
}

static void append(struct house_visitor *visitor, const char *p, size_t len)
{
    enum rd_err err = buf_append(&visitor->read, p, len);
    assert(err == RD_OK);
}

static void on_text(void *arg, struct str text)
{
    struct house_visitor *visitor = arg;
    visitor->frames++;
    append(visitor, text.p, text.len);
    append(visitor, "\n", 1);
}

void house_visitor_open(struct house *house, struct house_visitor *visitor,
                        const struct session_hello *hello)
{
    *visitor = (struct house_visitor){0};
    buf_init(&visitor->read, READ_MAX);
    fake_conn_open(&visitor->conn, &house->host, hello, on_text, visitor);
    (void)fake_conn_read(&visitor->conn, 1);
    const char *welcome = house_visitor_heard(visitor);
    assert(strncmp(welcome, "{\"op\":\"welcome\",", 16) == 0);
}

void house_visitor_close(struct house_visitor *visitor)
{
    fake_conn_close(&visitor->conn);
    buf_fini(&visitor->read);
}

const char *house_visitor_heard(struct house_visitor *visitor)
{
    append(visitor, "", 1);
    buf_clear(&visitor->read, SIZE_MAX); /* the bytes stay until the next append */
    return visitor->read.p;
}

const char *house_visitor_read(struct house *house, struct house_visitor *visitor)
{
    do
        fake_loop_turn(&house->loop);
    while (fake_conn_read(&visitor->conn, SIZE_MAX) != 0);
    return house_visitor_heard(visitor);
}
