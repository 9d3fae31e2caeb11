// What one process can do without any library: memcpy between two buffers of this process,
// and process_vm_writev into the memory of another process. It is what perigee's shm engine is
// measured against.
//
// Reads lines "copy|attach BYTES COUNT" and answers each with the median of COUNT runs
// in nanoseconds.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64 << 20, MAX_COUNT = 100000 };

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static char *allocate(void) {
    char *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) _exit(1);
    memset(p, 1, SIZE);
    return p;
}

int main(void) {
    static int64_t took[MAX_COUNT];
    int hold[2];
    char *from = allocate(), *to = allocate();
    if (pipe(hold)) return 1;
    pid_t child = fork();
    if (child == 0) {
        char c;
        memset(to, 2, SIZE); // separate pages at the same address
        close(hold[1]);
        if (read(hold[0], &c, 1) < 0) _exit(1); // until the parent ends
        _exit(0);
    }
    char what[16];
    size_t size;
    int count;
    while (scanf("%15s %zu %d", what, &size, &count) == 3) {
        if (size == 0 || size > SIZE || count < 1 || count > MAX_COUNT) return 1;
        struct iovec here = {from, size}, there = {to, size};
        for (int i = 0; i < count; i++) {
            int64_t start = now();
            if (what[0] == 'c')
                memcpy(to, from, size);
            else if (process_vm_writev(child, &here, 1, &there, 1, 0) != (ssize_t)size)
                return 1;
            took[i] = now() - start;
            __asm__ volatile("" ::: "memory"); // the copies shall happen
        }
        qsort(took, count, sizeof *took, compare);
        printf("%lld\n", (long long)took[count / 2]);
        fflush(stdout);
    }
    return 0;
}
