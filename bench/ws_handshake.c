#include "bench/ws_handshake.h"

#include <strings.h>

static const char GUID[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

static uint32_t rotate(uint32_t value, unsigned bits)
{
    return value << bits | value >> (32 - bits);
}

/* One 64-byte block of SHA-1 (FIPS 180-4 section 6.1.2). */
static void sha1_block(uint32_t state[5], const uint8_t block[64])
{
    uint32_t w[80];
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (size_t i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);

    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (size_t i = 0; i < 80; i++) {
        uint32_t f = i < 20   ? ((b & c) | (~b & d)) + 0x5a827999
                     : i < 40 ? (b ^ c ^ d) + 0x6ed9eba1
                     : i < 60 ? ((b & c) | (b & d) | (c & d)) + 0x8f1bbcdc
                              : (b ^ c ^ d) + 0xca62c1d6;
        uint32_t next = rotate(a, 5) + f + e + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

/* SHA-1 of a text that leaves room for the padding within two blocks (at most 119 bytes). */
static void sha1_short(const uint8_t *text, size_t len, uint8_t out_digest[20])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    uint8_t blocks[128] = {0};
    memcpy(blocks, text, len);
    blocks[len] = 0x80;
    size_t end = len < 56 ? 64 : 128;
    for (size_t i = 0; i < 8; i++)
        blocks[end - 1 - i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
    for (size_t at = 0; at < end; at += 64)
        sha1_block(state, blocks + at);
    for (size_t i = 0; i < 20; i++)
        out_digest[i] = (uint8_t)(state[i / 4] >> (8 * (3 - i % 4)));
}

static void base64(const uint8_t *p, size_t len, char *out)
{
    static const char ALPHABET[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len; i += 3) {
        size_t left = len - i;
        uint32_t three = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                         (left > 2 ? p[i + 2] : 0);
        *out++ = ALPHABET[three >> 18];
        *out++ = ALPHABET[three >> 12 & 63];
        *out++ = left > 1 ? ALPHABET[three >> 6 & 63] : '=';
        *out++ = left > 2 ? ALPHABET[three & 63] : '=';
    }
    *out = '\0';
}

void ws_handshake_key(const uint8_t nonce[16], char out_key[WS_HANDSHAKE_KEY_LEN + 1])
{
    base64(nonce, 16, out_key);
}

void ws_handshake_accept(struct str key, char out_accept[WS_HANDSHAKE_ACCEPT_LEN + 1])
{
    uint8_t text[WS_HANDSHAKE_KEY_LEN + sizeof(GUID) - 1];
    size_t key_len = key.len < WS_HANDSHAKE_KEY_LEN ? key.len : WS_HANDSHAKE_KEY_LEN;
    if (key_len > 0)
        memcpy(text, key.p, key_len);
    memcpy(text + key_len, GUID, sizeof(GUID) - 1);
    uint8_t digest[20];
    sha1_short(text, key_len + sizeof(GUID) - 1, digest);
    base64(digest, sizeof(digest), out_accept);
}

struct str ws_handshake_header(struct str head, const char *name)
{
    size_t name_len = strlen(name);
    const char *end = head.p + head.len;
    const char *line = memchr(head.p, '\n', head.len);
    while (line != NULL && ++line < end) {
        const char *line_end = memchr(line, '\n', (size_t)(end - line));
        const char *stop = line_end == NULL ? end : line_end;
        if ((size_t)(stop - line) > name_len && line[name_len] == ':' &&
            strncasecmp(line, name, name_len) == 0) {
            const char *p = line + name_len + 1;
            while (p < stop && (*p == ' ' || *p == '\t'))
                p++;
            while (stop > p && (stop[-1] == ' ' || stop[-1] == '\t' || stop[-1] == '\r'))
                stop--;
            return (struct str){p, (size_t)(stop - p)};
        }
        line = line_end;
    }
    return (struct str){NULL, 0};
}
