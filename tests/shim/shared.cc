#include "shared.h"

#include <stdio.h>
#include <string.h>

#include "inside.h"

static const unsigned WORD = 4, WARP = 32;
static const size_t STATIC_MOST = 48 << 10; /* bytes of a kernel's own arrays */
enum { MOST_ALLOWED = 1024 };
/* Readers that are more than one thread: lanes of a warp, with its first; of several warps. */
static const unsigned LANES = 1024, WARPS = 2 * LANES;
static const uint16_t NOBODY = UINT16_MAX; /* no writer: a word of no array */

/* Who wrote a word last, and who has read it since, each with the time: the number of meetings
 * before. */
struct word {
    uint32_t written, read;
    uint16_t writer, reader;
};

static struct {
    struct {
        char *at;
        size_t bytes;
    } array[SHARED_ARRAYS];
    const void *kernel;
    unsigned arrays, laid; /* laid: how many have their words since the kernel began */
    size_t used, most;     /* most: bytes of all arrays */
    uint32_t meetings, block_met, warp_met[LANES / WARP];
    struct word words[SHARED_ROOM / WORD];
} shared;

/* The thread that runs, and when its block and its warp met last. */
static struct {
    unsigned thread;
    uint32_t block_met, warp_met;
} now;

char shared_room[SHARED_ROOM] __attribute__((aligned(128)));
uintptr_t shared_seen;

/* --- arrays --------------------------------------------------------------------------------- */

static void set_words(size_t from, size_t bytes, struct word word)
{
    for (size_t i = from / WORD; i < (from + bytes + WORD - 1) / WORD; i++)
        shared.words[i] = word;
}

/* The arrays of another kernel begin. */
static void forget(const void *kernel)
{
    size_t end = sizeof shared_room;
    if (shared.laid > 0)
        end = (size_t)(shared.array[shared.laid - 1].at - shared_room) +
              shared.array[shared.laid - 1].bytes;
    set_words(0, end, {0, 0, NOBODY, 0});
    shared.kernel = kernel;
    shared.laid = 0;
}

/* From block to block of a kernel, arrays mostly are where they were. */
static void *take(size_t bytes)
{
    char *at = shared_room + shared.used;
    unsigned i = shared.arrays++;
    if (i == SHARED_ARRAYS || shared.used + bytes + SHARED_GAP > sizeof shared_room)
        shim_fail("too much shared memory");
    if (i >= shared.laid || shared.array[i].bytes != bytes) {
        set_words(shared.used, bytes, {});
        shared.laid = i + 1;
    }
    shared.array[i] = {at, bytes};
    shared.used += (bytes + 2 * SHARED_GAP - 1) / SHARED_GAP * SHARED_GAP;
    memset(at, 0xff, bytes); /* NaN, as an index far out */
    return at;
}

/* Kernels that share a place in the table are looked at less. */
static bool is_turn(uintptr_t kernel)
{
    static unsigned turns[4096];
    unsigned turn = turns[kernel / 16 % (sizeof turns / sizeof *turns)]++;
    return turn < 16 || turn % 13 == 0;
}

static struct {
    const void *kernel;
    int device;
    size_t bytes;
} allowances[MOST_ALLOWED];

void shared_allow(const void *kernel, int device, size_t bytes)
{
    int i = 0;
    while (i < MOST_ALLOWED && allowances[i].kernel &&
           (allowances[i].kernel != kernel || allowances[i].device != device))
        i++;
    if (i == MOST_ALLOWED)
        shim_die("too many kernels");
    allowances[i] = {kernel, device, bytes};
}

size_t shared_allowed(const void *kernel, int device)
{
    for (int i = 0; i < MOST_ALLOWED && allowances[i].kernel; i++)
        if (allowances[i].kernel == kernel && allowances[i].device == device)
            return allowances[i].bytes;
    return 0;
}

void shared_begin(const void *kernel, size_t dynamic, size_t allowed)
{
    shared_seen = is_turn((uintptr_t)kernel) ? (uintptr_t)shared_room : 0;
    shared.most = dynamic <= allowed ? (size_t)SHARED_MOST : STATIC_MOST;
    if (dynamic > shared.most)
        shim_fail("more shared memory than the kernel has been allowed");
    if (kernel != shared.kernel || dynamic != shared.array[0].bytes)
        forget(kernel);
    shared.used = SHARED_GAP;
    shared.arrays = 0;
    take(dynamic);
    shared_met();
}

void *shared_array(unsigned number, size_t bytes)
{
    size_t sum = bytes;
    if (number < shared.arrays) {
        if (shared.array[number].bytes != bytes)
            shim_fail("threads declare different shared arrays");
        return shared.array[number].at;
    }
    for (unsigned i = 1; i < shared.arrays; i++)
        sum += shared.array[i].bytes;
    if (sum > STATIC_MOST || sum + shared.array[0].bytes > shared.most)
        shim_fail("too much shared memory");
    return take(bytes);
}

void *shared_dynamic(void)
{
    return shared.array[0].at;
}

/* --- races ---------------------------------------------------------------------------------- */

static uint32_t meet(void)
{
    if (++shared.meetings == 0)
        shim_die("too many barriers");
    return shared.meetings;
}

void shared_met(void)
{
    shared.block_met = meet();
}

void shared_warp_met(unsigned thread)
{
    shared.warp_met[thread / WARP] = meet();
}

void shared_as(unsigned thread)
{
    now = {thread, shared.block_met, shared.warp_met[thread / WARP]};
}

static void report(const struct word *w, const char *does, unsigned who, const char *did)
{
    char what[160], other[32] = "several warps";
    const char *at = shared_room + (size_t)(w - shared.words) * WORD;
    unsigned array = shared.arrays - 1;
    while (array > 0 && at < shared.array[array].at)
        array--;
    if (who < WARPS)
        snprintf(other, sizeof other, "%s %u", who < LANES ? "thread" : "lanes of warp",
                 who < LANES ? who : who % LANES / WARP);
    if (who == NOBODY)
        snprintf(what, sizeof what, "out of bounds: it %s byte %td of shared array %u of %zu bytes",
                 does, at - shared.array[array].at, array, shared.array[array].bytes);
    else
        snprintf(what, sizeof what,
                 "race: it %s byte %td of shared array %u, %s %s it, with no barrier between", does,
                 at - shared.array[array].at, array, other, did);
    shim_fail(what);
}

static bool is_mine(unsigned who)
{
    return who < WARPS && who % LANES / WARP == now.thread / WARP;
}

/* Whether what was done then, by one thread or several, comes before what this one does. */
static bool comes_before(uint32_t time, unsigned who)
{
    return time < now.block_met || who == now.thread || (time < now.warp_met && is_mine(who));
}

/* Of readers only the last ones of a warp need be known: with the others of it they have met. Where
 * several warps have read it, nobody has written it since the block met. */
static inline void read_word(struct word *w)
{
    if (w->reader == WARPS && w->read >= now.block_met)
        return;
    if (w->writer == NOBODY || !comes_before(w->written, w->writer))
        report(w, "reads", w->writer, "writes");
    if (comes_before(w->read, w->reader))
        w->reader = (uint16_t)now.thread;
    else
        w->reader = (uint16_t)(is_mine(w->reader) ? LANES + now.thread / WARP * WARP : WARPS);
    w->read = shared.meetings;
}

static inline void write_word(struct word *w)
{
    if (w->writer == NOBODY || !comes_before(w->written, w->writer))
        report(w, "writes", w->writer, "writes");
    if (!comes_before(w->read, w->reader))
        report(w, "writes", w->reader, "reads");
    *w = {shared.meetings, 0, (uint16_t)now.thread, 0};
}

static inline void each_word(void (*touch)(struct word *), const void *at, size_t bytes)
{
    size_t from = (uintptr_t)at - (uintptr_t)shared_room;
    for (size_t i = from / WORD; i < (from + bytes + WORD - 1) / WORD; i++)
        touch(&shared.words[i]);
}

void shared_read(const void *at, size_t bytes)
{
    each_word(read_word, at, bytes);
}

void shared_write(const void *at, size_t bytes)
{
    each_word(write_word, at, bytes);
}
