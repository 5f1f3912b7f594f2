#include "tests/lib/fake_conn.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

static void on_want_write(void *arg)
{
    struct fake_conn *conn = arg;
    conn->wants_write = true;
}

static void on_abort(void *arg)
{
    struct fake_conn *conn = arg;
    conn->aborted = true;
}

static const struct session_conn_ops OPS = {on_want_write, on_abort};

void fake_conn_open(struct fake_conn *conn, struct session_host *host,
                    const struct session_hello *hello, fake_conn_text_fn on_text, void *arg)
{
    static const struct session_hello NOBODY = {.peer = {"test", 4}};
    *conn = (struct fake_conn){.on_text = on_text, .arg = arg};
    conn->session = session_open(host, hello == NULL ? &NOBODY : hello, &OPS, conn);
}

/* RFC 6455 section 5.2, from the client's side: one whole frame, never masked. */
static struct str payload_of(const struct packet *p)
{
    const unsigned char *b = (const unsigned char *)p->bytes;
    size_t header = 2;
    uint64_t len = b[1];
    if (b[1] >= 126) {
        header = b[1] == 126 ? 4 : 10;
        len = 0;
        for (size_t i = 2; i < header; i++)
            len = len << 8 | b[i];
    }
    assert((b[0] & 0xf0) == 0x80 && b[1] < 128);
    assert(header + len == packet_len(p));
    return (struct str){p->bytes + header, (size_t)len};
}

static void take_in(struct fake_conn *conn, const struct packet *p)
{
    struct str payload = payload_of(p);
    switch (p->bytes[0] & 0xf) {
    case 0x1:
        if (conn->on_text != NULL)
            conn->on_text(conn->arg, payload);
        break;
    case 0x8:
        assert(payload.len >= 2 && conn->close_code == 0);
        conn->close_code = (unsigned)(unsigned char)payload.p[0] << 8 | (unsigned char)payload.p[1];
        break;
    case 0x9:
        conn->pings++;
        break;
    default:
        assert(false);
    }
}

size_t fake_conn_read(struct fake_conn *conn, size_t max_bytes)
{
    size_t taken = 0;
    if (conn->session == NULL)
        return 0;
    conn->wants_write = false;
    while (taken < max_bytes && session_next_len(conn->session) != 0) {
        struct packet *p = session_take(conn->session);
        assert(conn->close_code == 0); /* nothing may follow the close frame */
        taken += packet_len(p);
        take_in(conn, p);
        packet_unref(p);
    }
    conn->bytes += taken;
    if (taken != 0)
        session_wrote(conn->session, 0);
    return taken;
}

void fake_conn_send(struct fake_conn *conn, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    assert(len >= 0 && (size_t)len < sizeof(text));
    session_receive(conn->session, (struct str){text, (size_t)len});
}

void fake_conn_close(struct fake_conn *conn)
{
    if (conn->session == NULL)
        return;
    session_closed(conn->session);
    conn->session = NULL;
}
