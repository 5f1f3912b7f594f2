#include "base/packet.h"

#include "base/xalloc.h"

#include <assert.h>
#include <stdlib.h>

enum { OPCODE_TEXT = 0x1, OPCODE_CLOSE = 0x8, OPCODE_PING = 0x9, FIN = 0x80 };

static size_t header_len(size_t payload)
{
    return payload < 126 ? 2 : payload <= UINT16_MAX ? 4 : 10;
}

/* RFC 6455 section 5.2: the shortest form of the length must be used. */
static void put_header(char *dst, unsigned opcode, size_t payload)
{
    size_t header = header_len(payload);
    dst[0] = (char)(FIN | opcode);
    dst[1] = (char)(header == 2 ? payload : header == 4 ? 126 : 127);
    for (size_t i = header - 1; i >= 2; i--) {
        dst[i] = (char)(payload & 0xff);
        payload >>= 8;
    }
}

static struct packet *create(struct packet_account *account, unsigned opcode, size_t payload)
{
    assert(payload <= PACKET_PAYLOAD_MAX);
    size_t len = header_len(payload) + payload;
    struct packet *p = xalloc(sizeof(*p) + len);
    *p = (struct packet){.account = account, .refs = 1, .len = (uint32_t)len};
    put_header(p->bytes, opcode, payload);
    account->bytes += sizeof(*p) + len;
    account->count++;
    return p;
}

struct packet *packet_text(struct packet_account *account, struct str payload)
{
    struct packet *p = create(account, OPCODE_TEXT, payload.len);
    memcpy(p->bytes + header_len(payload.len), payload.p, payload.len);
    return p;
}

struct packet *packet_entry(struct packet_account *account, struct str payload, struct stream_id id,
                            const struct stream_id *prev)
{
    struct packet *p = packet_text(account, payload);
    p->id = id;
    p->prev_known = prev != NULL;
    if (prev != NULL)
        p->prev = *prev;
    return p;
}

struct packet *packet_close(struct packet_account *account, enum code_close code, struct str reason)
{
    assert(reason.len <= PACKET_CLOSE_REASON_MAX);
    struct packet *p = create(account, OPCODE_CLOSE, 2 + reason.len);
    p->bytes[2] = (char)((unsigned)code >> 8);
    p->bytes[3] = (char)((unsigned)code & 0xff);
    memcpy(p->bytes + 4, reason.p, reason.len);
    return p;
}

struct packet *packet_ping(struct packet_account *account)
{
    return create(account, OPCODE_PING, 0);
}

bool packet_is_ping(const struct packet *p)
{
    return (unsigned char)p->bytes[0] == (FIN | OPCODE_PING);
}

void packet_unref(struct packet *p)
{
    if (p == NULL || --p->refs != 0)
        return;
    p->account->bytes -= sizeof(*p) + p->len;
    p->account->count--;
    free(p);
}
