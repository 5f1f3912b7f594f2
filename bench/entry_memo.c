#include "bench/entry_memo.h"

static bool matches(const struct entry_memo *memo, unsigned at, struct str text,
                    struct entry_scan *out_entry)
{
    const struct entry_memo_slot *slot = &memo->slots[at];
    if (slot->len != text.len || memcmp(slot->text, text.p, text.len) != 0)
        return false;
    *out_entry = slot->entry;
    out_entry->room.p = text.p + slot->room_at;
    return true;
}

static void remember(struct entry_memo *memo, struct str text, const struct entry_scan *entry)
{
    struct entry_memo_slot *slot = &memo->slots[memo->next];
    memo->next = (memo->next + 1) % ENTRY_MEMO_SLOTS;
    slot->len = text.len;
    slot->room_at = (size_t)(entry->room.p - text.p);
    slot->entry = *entry;
    memcpy(slot->text, text.p, text.len);
}

bool entry_memo_scan(struct entry_memo *memo, unsigned *guess, struct str text,
                     struct entry_scan *out_entry)
{
    if (text.len == 0 || text.len > ENTRY_MEMO_TEXT_MAX)
        return entry_scan_fast(text, out_entry);
    unsigned newest = (memo->next + ENTRY_MEMO_SLOTS - 1) % ENTRY_MEMO_SLOTS;
    unsigned at = *guess % ENTRY_MEMO_SLOTS;
    if (!matches(memo, at, text, out_entry)) {
        at = newest;
        if (!matches(memo, at, text, out_entry)) {
            if (!entry_scan_fast(text, out_entry))
                return false;
            at = memo->next;
            remember(memo, text, out_entry);
        }
    }
    *guess = (at + 1) % ENTRY_MEMO_SLOTS;
    return true;
}
