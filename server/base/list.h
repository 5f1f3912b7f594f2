/* list.h - a doubly linked ring whose links live inside its items.
 *
 * Always true: a link is in exactly one list, or points at itself (after list_init or list_remove),
 * so removing twice is harmless. The head is a link that carries no item.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include "base/rd.h"

#include <stdbool.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define LIST_ITEM(link, type, member) RD_CONTAINER(link, type, member)

/* The body may remove the item that `it` is, but no other. */
#define list_for_each_safe(it, after, head)                                                        \
    for (struct list *it = (head)->next, *after = it->next; it != (head);                          \
         it = after, after = it->next)

static inline void list_init(struct list *link)
{
    link->next = link;
    link->prev = link;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_push_back(struct list *head, struct list *link)
{
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void list_remove(struct list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

/* The first link, taken out, or NULL. */
static inline struct list *list_pop_front(struct list *head)
{
    struct list *link = head->next;
    if (link == head)
        return NULL;
    list_remove(link);
    return link;
}

/* Moves all of from to the end of to; from is empty afterwards. */
static inline void list_move_all(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#endif
