#include "bench/proc.h"

#include "bench/clock.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The first line of a file; false where there is none. */
static bool read_line(const char *path, char *out, int cap)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool ok = fgets(out, cap, f) != NULL;
    fclose(f);
    return ok;
}

/* Nanoseconds on a CPU, summed over the threads; 0 where the kernel doesn't count them. */
static uint64_t read_schedstat(pid_t pid)
{
    char dir_path[64];
    snprintf(dir_path, sizeof(dir_path), "/proc/%d/task", (int)pid);
    DIR *dir = opendir(dir_path);
    if (dir == NULL)
        return 0;
    uint64_t total = 0;
    struct dirent *task;
    while ((task = readdir(dir)) != NULL) {
        char path[384];
        char line[128];
        uint64_t ns;
        if (task->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s/schedstat", dir_path, task->d_name);
        if (read_line(path, line, sizeof(line)) && sscanf(line, "%" SCNu64, &ns) == 1)
            total += ns;
    }
    closedir(dir);
    return total;
}

bool proc_read_cpu(pid_t pid, struct proc_cpu *out_cpu)
{
    char path[64];
    char line[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (!read_line(path, line, sizeof(line)))
        return false;
    /* The program's name, in brackets, may hold anything: count fields from the last bracket. */
    const char *after_name = strrchr(line, ')');
    uint64_t user;
    uint64_t system;
    if (after_name == NULL ||
        sscanf(after_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64,
               &user, &system) != 2)
        return false;
    uint64_t tick_ns = CLOCK_SECOND / (uint64_t)sysconf(_SC_CLK_TCK);
    struct proc_cpu cpu = {.user_ns = user * tick_ns, .system_ns = system * tick_ns};
    cpu.total_ns = read_schedstat(pid);
    if (cpu.total_ns == 0)
        cpu.total_ns = cpu.user_ns + cpu.system_ns;
    *out_cpu = cpu;
    return true;
}

bool proc_read_pss_kib(pid_t pid, uint64_t *out_kib)
{
    char path[64];
    char line[256];
    snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return false;
    bool found = false;
    while (!found && fgets(line, sizeof(line), f) != NULL)
        found = sscanf(line, "Pss: %" SCNu64, out_kib) == 1;
    fclose(f);
    return found;
}
