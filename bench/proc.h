/* proc.h - what a process has used, from /proc: CPU time and memory. */
#ifndef BENCH_PROC_H
#define BENCH_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_cpu {
    uint64_t total_ns;  /* of all its threads; from schedstat where the kernel has it, else user +
                           system */
    uint64_t user_ns;   /* in clock ticks, usually 10 ms */
    uint64_t system_ns; /* the same */
};

/* False where the process is gone or may not be looked at. */
bool proc_read_cpu(pid_t pid, struct proc_cpu *out_cpu);

/* The proportional set size: memory of its own, and its share of what is shared. */
bool proc_read_pss_kib(pid_t pid, uint64_t *out_kib);

#endif
