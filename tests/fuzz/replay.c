/* replay.c - runs saved inputs through a fuzz target under any compiler, libFuzzer not needed.
 *
 * Each argument is a file or a folder of files. An input lies in a block of exactly its size, so
 * that one byte too far is caught by the sanitizers. Running nothing is an error.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void die(const char *what, const char *path)
{
    fprintf(stderr, "replay: %s: ", path);
    perror(what);
    exit(EXIT_FAILURE);
}

static void replay_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    if (file == NULL || data == NULL)
        die("can't open", path);
    if (fread(data, 1, size, file) != size)
        die("can't read", path);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
}

static int replay(const char *path);

static int replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    if (folder == NULL)
        die("can't open", path);
    for (struct dirent *item = readdir(folder); item != NULL; item = readdir(folder)) {
        char inner[4096];
        if (item->d_name[0] == '.')
            continue;
        if (snprintf(inner, sizeof(inner), "%s/%s", path, item->d_name) >= (int)sizeof(inner))
            die("too long", path);
        count += replay(inner);
    }
    closedir(folder);
    return count;
}

/* Returns how many inputs were run. */
static int replay(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        die("can't stat", path);
    if (S_ISDIR(st.st_mode))
        return replay_folder(path);
    replay_file(path, (size_t)st.st_size);
    return 1;
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += replay(argv[i]);
    printf("%d inputs\n", count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
