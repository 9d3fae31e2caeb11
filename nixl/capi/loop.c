// The timed part: post, poll, stamp.
#define _GNU_SOURCE
#include "papi.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// For how long a wait without any progress keeps the processor for itself. Long enough for
// small transfers, short enough for hosts with more ranks than cores.
enum { SPIN_NS = 50 * 1000 };

// How many rounds of polling lie between two looks at the clock. A round costs at least as
// much as a look, so this keeps the looks below a tenth.
enum { ROUNDS_PER_LOOK = 16 };

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int64_t papi_now(void) { return now(); }

papi_batch *papi_batch_new(papi_agent *a, int64_t count, int64_t room) {
    papi_batch *b = calloc(1, sizeof *b);
    if (!b) return NULL;
    b->agent = a;
    b->count = count;
    b->room = room;
    if (room) b->weight = calloc(count ? count : 1, sizeof *b->weight);
    b->reqs = calloc(count ? count : 1, sizeof *b->reqs);
    b->order = calloc(count ? count : 1, sizeof *b->order);
    b->done = calloc(count ? count : 1, sizeof *b->done);
    if (b->reqs && b->order && b->done && (b->weight || !room)) return b;
    papi_batch_free(b);
    return NULL;
}

void papi_batch_free(papi_batch *b) {
    free(b->reqs);
    free(b->order);
    free(b->done);
    free(b->weight);
    free(b);
}

// post_more posts the next requests, as many as there is room for. It returns a status of
// the library, and in *last when it saw the last one complete that was so at once.
static int post_more(papi_batch *b, int64_t *last) {
    const papi *api = b->agent->api;
    void *agent = b->agent->agent;
    for (int64_t i = b->next; i < b->count; i++) {
        if (b->weight && b->taken + b->weight[i] > b->room) break;
        int status = api->post_xfer_req(agent, b->reqs[i], NULL);
        if (status < 0) {
            b->failed = i;
            return status;
        }
        b->next = i + 1;
        if (status == PAPI_IN_PROGRESS) {
            b->order[b->left++] = i;
            if (b->weight) b->taken += b->weight[i];
        } else {
            b->done[i] = *last = now();
        }
    }
    return 0;
}

// post is papi_post from a known time on.
static int post(papi_batch *b, int64_t start) {
    int64_t last = start;
    b->start = start;
    b->left = b->taken = b->next = 0;
    int status = post_more(b, &last);
    if (status < 0) return status;
    // A transfer that was complete when post returned has just been stamped.
    b->posted = b->left ? now() : last;
    b->end = last;
    return 0;
}

int papi_post(papi_batch *b) {
    papi_enter(b->agent);
    return post(b, now());
}

// poll is papi_poll; it returns the number of requests that it saw complete.
static int poll(papi_batch *b) {
    const papi *api = b->agent->api;
    void *agent = b->agent->agent;
    int completed = 0;
    for (int64_t k = 0; k < b->left;) {
        uint32_t i = b->order[k];
        int status = api->get_xfer_status(agent, b->reqs[i]);
        if (status == PAPI_IN_PROGRESS) {
            k++;
            continue;
        }
        if (status < 0) {
            b->failed = i;
            return status;
        }
        b->done[i] = b->end = now();
        b->order[k] = b->order[--b->left];
        if (b->weight) b->taken -= b->weight[i];
        completed++;
    }
    if (completed && b->next < b->count) {
        int status = post_more(b, &b->end);
        if (status < 0) return status;
    }
    return completed;
}

int papi_poll(papi_batch *b) {
    papi_enter(b->agent);
    int status = poll(b);
    return status < 0 ? status : 0;
}

static bool aborted(const uint32_t *abort) {
    return abort && __atomic_load_n(abort, __ATOMIC_RELAXED);
}

// wait is papi_wait without the context.
static int wait(papi_batch *b, int64_t deadline, const uint32_t *abort) {
    int64_t idle_since = 0;
    bool yield = false;
    for (unsigned round = 1; b->left; round++) {
        int completed = poll(b);
        if (completed < 0) return completed;
        if (b->left == 0) break;
        if (aborted(abort)) return PAPI_ABORTED;
        if (completed) {
            idle_since = 0;
            yield = false;
        }
        if (yield) sched_yield();
        if (!yield && round % ROUNDS_PER_LOOK) continue;
        int64_t t = now();
        if (deadline && t >= deadline) return PAPI_LATE;
        if (!idle_since) idle_since = t;
        yield = t - idle_since > SPIN_NS;
    }
    return 0;
}

int papi_wait(papi_batch *b, int64_t deadline, const uint32_t *abort) {
    papi_enter(b->agent);
    return wait(b, deadline, abort);
}

// nothing_done makes all requests ones that were not posted, for a run that is not begun any more.
static int nothing_done(papi_batch *b, int why) {
    b->left = b->next = 0;
    return why;
}

int papi_run(papi_batch *b, int64_t n, int64_t deadline, const uint32_t *abort, int64_t *stamps) {
    papi_enter(b->agent);
    for (int64_t run = 0; run < n; run++) {
        int64_t start = now();
        if (aborted(abort)) return nothing_done(b, PAPI_ABORTED);
        if (deadline && start >= deadline) return nothing_done(b, PAPI_LATE);
        int status = post(b, start);
        if (status == 0) status = wait(b, deadline, abort);
        if (status != 0) return status;
        if (!stamps) continue;
        int64_t *s = stamps + run * (3 + b->count);
        s[0] = b->start;
        s[1] = b->posted;
        s[2] = b->end;
        memcpy(s + 3, b->done, b->count * sizeof *b->done);
    }
    return 0;
}
