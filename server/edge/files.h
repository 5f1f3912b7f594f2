/* files.h - the pages that roomd serves, in memory.
 *
 * Built once from two directories: <root>/x.js becomes /client/x.js, <root>/page/x becomes /page/x,
 * and page/index.html is / as well. Only these: what isn't in the table isn't there, so no path
 * that a client makes up ever reaches the file system.
 *
 * For work on the pages a file is read anew when its time or size has changed (reload).
 */
#ifndef EDGE_FILES_H
#define EDGE_FILES_H

#include "base/rd.h"
#include "protocol/str.h"

#include <stdint.h>

struct files;

/* Bytes to be sent, counted: a reply may outlive the table's own copy. */
struct files_blob {
    unsigned refs;
    const char *type; /* a literal */
    char etag[24];    /* quoted; empty: none */
    size_t len;
    char bytes[];
};

/* A blob of other content. Copies body. Returns owned. */
struct files_blob *files_blob_create(const char *type, struct str body);
static inline struct files_blob *files_blob_ref(struct files_blob *blob)
{
    blob->refs++;
    return blob;
}
void files_blob_unref(struct files_blob *blob); /* NULL is fine */

/* root: as installed, or the source tree's client/. NULL: the directories can't be read or there is
 * no page/index.html; errno says why. Returns owned. */
struct files *files_create(const char *root, bool reload);
void files_destroy(struct files *files); /* NULL is fine */

/* The file at a URL path, or NULL. Borrowed until the next call. */
struct files_blob *files_find(struct files *files, struct str path);

#endif
