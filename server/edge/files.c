#include "edge/files.h"

#include "base/strmap.h"
#include "base/xalloc.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 4 << 20, FILES_MAX = 256 };

struct file {
    char *url;  /* the key */
    char *path; /* where it is read from */
    const char *type;
    struct timespec changed;
    struct files_blob *blob;
    struct file *next;
};

struct files {
    bool reload;
    struct strmap by_url;
    struct file *all;
    size_t count;
};

static const struct {
    const char *suffix;
    const char *type;
} TYPES[] = {
    {".css", "text/css; charset=utf-8"},
    {".html", "text/html; charset=utf-8"},
    {".ico", "image/x-icon"},
    {".js", "text/javascript; charset=utf-8"},
    {".json", "application/json"},
    {".png", "image/png"},
    {".svg", "image/svg+xml"},
    {".txt", "text/plain; charset=utf-8"},
    {".webmanifest", "application/manifest+json"},
    {".woff2", "font/woff2"},
};

/* --- blobs ---------------------------------------------------------------------------------- */

static struct files_blob *blob_alloc(const char *type, size_t len)
{
    struct files_blob *blob = xalloc(sizeof(*blob) + len);
    blob->refs = 1;
    blob->type = type;
    blob->etag[0] = '\0';
    blob->len = len;
    return blob;
}

struct files_blob *files_blob_create(const char *type, struct str body)
{
    struct files_blob *blob = blob_alloc(type, body.len);
    if (body.len != 0)
        memcpy(blob->bytes, body.p, body.len);
    return blob;
}

void files_blob_unref(struct files_blob *blob)
{
    if (blob != NULL && --blob->refs == 0)
        free(blob);
}

/* FNV-1a: an ETag has to differ from the one before, not to withstand an attack. */
static void set_etag(struct files_blob *blob)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < blob->len; i++)
        hash = (hash ^ (unsigned char)blob->bytes[i]) * 0x100000001b3u;
    (void)snprintf(blob->etag, sizeof(blob->etag), "\"%016llx\"", (unsigned long long)hash);
}

/* --- reading -------------------------------------------------------------------------------- */

static bool read_all(int fd, char *dst, size_t len)
{
    for (size_t got = 0; got < len;) {
        ssize_t n = read(fd, dst + got, len - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false; /* it became shorter meanwhile */
        got += (size_t)n;
    }
    return true;
}

/* False: the file's blob is as it was. */
static bool load(struct file *file)
{
    struct stat st;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool ok = false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX) {
        struct files_blob *blob = blob_alloc(file->type, (size_t)st.st_size);
        ok = read_all(fd, blob->bytes, blob->len);
        if (ok) {
            set_etag(blob);
            files_blob_unref(file->blob);
            file->blob = blob;
            file->changed = st.st_mtim;
        } else {
            files_blob_unref(blob);
        }
    }
    (void)close(fd);
    return ok;
}

static bool has_changed(const struct file *file)
{
    struct stat st;
    return stat(file->path, &st) == 0 &&
           (st.st_mtim.tv_sec != file->changed.tv_sec ||
            st.st_mtim.tv_nsec != file->changed.tv_nsec || (size_t)st.st_size != file->blob->len);
}

/* --- the table ------------------------------------------------------------------------------ */

static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot != NULL && i < sizeof(TYPES) / sizeof(TYPES[0]); i++)
        if (strcmp(dot, TYPES[i].suffix) == 0)
            return TYPES[i].type;
    return NULL;
}

static void add(struct files *files, const char *url_dir, const char *dir, const char *name)
{
    char url[PATH_MAX], path[PATH_MAX];
    int url_len = snprintf(url, sizeof(url), "%s%s", url_dir, name);
    int path_len = snprintf(path, sizeof(path), "%s/%s", dir, name);
    if (url_len >= PATH_MAX || path_len >= PATH_MAX || files->count == FILES_MAX)
        return;

    struct file *file = xalloc_zero(sizeof(*file));
    file->type = type_of(name);
    file->path = xalloc_str(str_from(path));
    if (!load(file)) {
        free(file->path);
        free(file);
        return;
    }
    file->url = xalloc_str(str_from(url));
    file->next = files->all;
    files->all = file;
    files->count++;
    strmap_put(&files->by_url, str_from(file->url), file);
}

static bool scan(struct files *files, const char *url_dir, const char *dir, const char *only_suffix)
{
    DIR *d = opendir(dir);
    if (d == NULL)
        return false;
    for (const struct dirent *entry; (entry = readdir(d)) != NULL;) {
        const char *dot = strrchr(entry->d_name, '.');
        if (entry->d_name[0] == '.' || type_of(entry->d_name) == NULL)
            continue;
        if (only_suffix == NULL || strcmp(dot, only_suffix) == 0)
            add(files, url_dir, dir, entry->d_name);
    }
    (void)closedir(d);
    return true;
}

struct files *files_create(const char *root, bool reload)
{
    char page[PATH_MAX];
    if (snprintf(page, sizeof(page), "%s/page", root) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    struct files *files = xalloc_zero(sizeof(*files));
    files->reload = reload;
    /* The keys are our own: nothing to defend the buckets against. */
    strmap_init(&files->by_url, 0, 0);

    bool ok = scan(files, "/client/", root, ".js") && scan(files, "/page/", page, NULL);
    if (ok && strmap_find(&files->by_url, STR("/page/index.html")) == NULL) {
        errno = ENOENT;
        ok = false;
    }
    if (!ok) {
        int why = errno;
        files_destroy(files);
        errno = why;
        return NULL;
    }
    return files;
}

void files_destroy(struct files *files)
{
    if (files == NULL)
        return;
    for (struct file *file = files->all, *next; file != NULL; file = next) {
        next = file->next;
        files_blob_unref(file->blob);
        free(file->url);
        free(file->path);
        free(file);
    }
    strmap_fini(&files->by_url);
    free(files);
}

struct files_blob *files_find(struct files *files, struct str path)
{
    if (str_eq(path, STR("/")))
        path = STR("/page/index.html");
    struct file *file = strmap_find(&files->by_url, path);
    if (file == NULL)
        return NULL;
    /* A file that is gone or half written goes on as it was. */
    if (files->reload && has_changed(file))
        (void)load(file);
    return file->blob;
}
