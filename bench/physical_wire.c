#include "bench/physical_wire.h"

#include "bench/entry_scan.h"
#include "bench/ws_frame.h"
#include "bench/ws_handshake.h"

#include <stdio.h>

enum { MEMBERS_MAX = 16, ENVELOPE_MAX = 1024, TYPE_MAX = 64 };

static void put_head(struct bytes *buf, unsigned opcode, size_t payload_len)
{
    uint8_t head[WS_FRAME_HEAD_MAX];
    bytes_append(buf, head, ws_frame_write_head(head, opcode, payload_len, NULL));
}

static void put_text(struct bytes *buf, const char *text, int len)
{
    put_head(buf, WS_FRAME_TEXT, (size_t)len);
    bytes_append(buf, text, (size_t)len);
}

bool physical_wire_upgrade(struct bytes *buf, struct str request)
{
    struct str key = ws_handshake_header(request, "Sec-WebSocket-Key");
    if (!str_present(key))
        return false;
    char accept[WS_HANDSHAKE_ACCEPT_LEN + 1];
    ws_handshake_accept(key, accept);
    bool offered = str_present(ws_handshake_header(request, "Sec-WebSocket-Protocol"));
    char answer[256];
    int len = snprintf(answer, sizeof(answer),
                       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                       "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n",
                       accept, offered ? "Sec-WebSocket-Protocol: roomd.v1\r\n" : "");
    bytes_append(buf, answer, (size_t)len);
    return true;
}

void physical_wire_welcome(struct bytes *buf)
{
    static const char WELCOME[] = "{\"op\":\"welcome\",\"session\":\"0\",\"heartbeat_ms\":25000,"
                                  "\"max_frame_bytes\":65536,\"high_water_bytes\":1048576}";
    put_text(buf, WELCOME, (int)sizeof(WELCOME) - 1);
}

static int format_id(struct stream_id id, char out[STREAM_ID_TEXT_MAX + 1])
{
    size_t len = stream_id_format(id, out);
    out[len] = '\0';
    return (int)len;
}

void physical_wire_joined(struct bytes *buf, struct str room, struct stream_id head)
{
    char id[STREAM_ID_TEXT_MAX + 1];
    char text[ENVELOPE_MAX];
    format_id(head, id);
    int len = snprintf(text, sizeof(text),
                       "{\"op\":\"joined\",\"room\":\"%.*s\",\"from\":null,\"head\":\"%s\","
                       "\"oldest\":null,\"complete\":true,\"max_entries\":0}",
                       (int)room.len, room.p, id);
    put_text(buf, text, len);
    len = snprintf(text, sizeof(text),
                   "{\"op\":\"live\",\"room\":\"%.*s\",\"cursor\":\"%s\",\"replayed\":0}",
                   (int)room.len, room.p, id);
    put_text(buf, text, len);
}

void physical_wire_entry(struct bytes *buf, struct str room, struct stream_id id,
                         struct stream_id prev, struct str type, struct str data)
{
    char id_text[STREAM_ID_TEXT_MAX + 1];
    char prev_text[STREAM_ID_TEXT_MAX + 1];
    char front[ENVELOPE_MAX];
    format_id(id, id_text);
    format_id(prev, prev_text);
    int len = snprintf(front, sizeof(front),
                       "{\"op\":\"entry\",\"room\":\"%.*s\",\"id\":\"%s\",\"prev\":\"%s\","
                       "\"type\":\"%.*s\",\"data\":",
                       (int)room.len, room.p, id_text, prev_text, (int)type.len, type.p);
    put_head(buf, WS_FRAME_TEXT, (size_t)len + data.len + 1);
    bytes_append(buf, front, (size_t)len);
    bytes_append(buf, data.p, data.len);
    bytes_append(buf, "}", 1);
}

void physical_wire_ack(struct bytes *buf, struct str room, struct stream_id id)
{
    char id_text[STREAM_ID_TEXT_MAX + 1];
    char text[ENVELOPE_MAX];
    format_id(id, id_text);
    int len = snprintf(text, sizeof(text),
                       "{\"op\":\"ack\",\"room\":\"%.*s\",\"id\":\"%s\",\"duplicate\":false}",
                       (int)room.len, room.p, id_text);
    put_text(buf, text, len);
}

void physical_wire_pong(struct bytes *buf, const uint8_t *payload, size_t len)
{
    put_head(buf, WS_FRAME_PONG, len);
    bytes_append(buf, payload, len);
}

bool physical_wire_read(struct str text, struct physical_wire_request *out_request)
{
    struct json_member members[MEMBERS_MAX];
    if (json_check(text, JSON_DEPTH_MAX) != JSON_OK)
        return false;
    size_t count = json_members(text, members, MEMBERS_MAX);
    if (count > MEMBERS_MAX)
        return false;
    struct str op = entry_scan_unquote(entry_scan_member(members, count, "op"));
    struct physical_wire_request request = {
        .room = entry_scan_unquote(entry_scan_member(members, count, "room")),
        .type = entry_scan_unquote(entry_scan_member(members, count, "type")),
        .data = entry_scan_member(members, count, "data")};
    bool named = request.room.len > 0;
    if (str_eq(op, STR("join")) && named)
        request.op = PHYSICAL_WIRE_JOIN;
    else if (str_eq(op, STR("publish")) && named && request.type.len > 0 &&
             request.type.len <= TYPE_MAX && str_present(request.data))
        request.op = PHYSICAL_WIRE_PUBLISH;
    *out_request = request;
    return true;
}
