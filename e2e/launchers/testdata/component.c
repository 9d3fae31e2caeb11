// A component of PMIx that notes which programs have loaded it.
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

__attribute__((constructor)) static void loaded(void) {
    char name[64] = "", line[80];
    int comm = open("/proc/self/comm", O_RDONLY);
    if (comm >= 0) read(comm, name, sizeof name - 1);
    int notes = open(NOTES, O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (notes >= 0) write(notes, line, snprintf(line, sizeof line, "%s", name));
}
