// What ends a process that the library crashes: one line and an exit code, in the place of the dump
// of Go's runtime, whose exit code 2 means a wrong command line. Any GOTRACEBACK brings the dump
// back.
#define _GNU_SOURCE
#include "papi.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

static const struct {
    int number;
    const char *line;
} deaths[] = {
    {SIGBUS, "perigee: NIXL, or what it has loaded, crashed: memory that it shares has lost its file's room "
             "(SIGBUS); is /dev/shm full, or was a file in it cut off?\n"},
    {SIGSEGV, "perigee: NIXL, or what it has loaded, crashed (SIGSEGV); GOTRACEBACK=all shows more\n"},
    {SIGFPE, "perigee: NIXL, or what it has loaded, crashed (SIGFPE); GOTRACEBACK=all shows more\n"},
    {SIGILL, "perigee: NIXL, or what it has loaded, crashed (SIGILL): is it built for another CPU?\n"},
    {SIGABRT, "perigee: NIXL, or what it has loaded, gave up (SIGABRT); what it says of that is above\n"},
};

enum { DEATHS = sizeof deaths / sizeof *deaths };

static struct sigaction before[DEATHS];
static int code;

// The bounds of the program: Go's code, and perigee's C.
extern const char __executable_start[], etext[];

static bool in_program(void *context) {
#if defined(__x86_64__)
    uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    uintptr_t pc = (uintptr_t)((ucontext_t *)context)->uc_mcontext.pc;
#else
    uintptr_t pc = (uintptr_t)etext - 1;
#endif
    return pc >= (uintptr_t)__executable_start && pc < (uintptr_t)etext;
}

// own reports whether the process has caused the signal itself: kill -SEGV, for one, is not a crash.
static bool own(const siginfo_t *info) {
    return info->si_code > 0 || (info->si_code == SI_TKILL && info->si_pid == getpid());
}

// on_crash runs on whatever stack there is and calls only what is safe in a handler.
static void on_crash(int number, siginfo_t *info, void *context) {
    for (int i = 0; i < DEATHS; i++) {
        if (deaths[i].number != number) continue;
        if (own(info) && !in_program(context)) {
            ssize_t ignored = write(STDERR_FILENO, deaths[i].line, strlen(deaths[i].line));
            (void)ignored;
            _exit(code);
        }
        // Go makes a panic of a fault in its code, and a dump of what it cannot explain.
        if (before[i].sa_flags & SA_SIGINFO)
            before[i].sa_sigaction(number, info, context);
        else
            sigaction(number, &before[i], NULL);
    }
}

void papi_catch_crashes(int exit_code) {
    static int caught;
    if (__atomic_exchange_n(&caught, 1, __ATOMIC_RELAXED)) return;
    code = exit_code;
    for (int i = 0; i < DEATHS; i++) {
        struct sigaction action;
        if (sigaction(deaths[i].number, NULL, &before[i]) != 0) continue;
        action = before[i]; // its mask, and Go's stack for handlers
        action.sa_sigaction = on_crash;
        action.sa_flags |= SA_SIGINFO | SA_ONSTACK;
        sigaction(deaths[i].number, &action, NULL);
    }
}
