/* What GPUs do while a program runs, seen by CUPTI: loaded by CUDA itself where
 * CUDA_INJECTION64_PATH names this library. When the program ends, lines go to the file that
 * $NP_ACTIVITY names. The first: nanoseconds of a window, and of it those in which kernels ran,
 * copies were under way, and either. The window is from the first to the third quarter of the
 * kernels: without what a run begins and ends with. Then, for each kernel that began in it, the
 * nanoseconds that its runs took together, their number, and its name, as the compiler has it.
 *
 * Several GPUs are taken together. Without room for a record, or without kernels, nothing is
 * written.
 */
#include <cupti.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "busy.h"

enum { BUFFER_BYTES = 4 << 20, ALIGNMENT = 8 };

/* The beginning of these records, to their times, is the same in every version. */
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 kernel_record;
typedef CUpti_ActivityMemcpy6 copy_record;
#else
typedef CUpti_ActivityKernel9 kernel_record;
typedef CUpti_ActivityMemcpy5 copy_record;
#endif
typedef CUpti_ActivityMemcpyPtoP4 peer_record;

struct list {
    struct busy *at;
    size_t count, capacity;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list kernels, copies;
static bool incomplete;

static void append(struct list *list, uint64_t begin, uint64_t end, const char *what)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity > 0 ? 2 * list->capacity : 1 << 16;
        struct busy *at = realloc(list->at, capacity * sizeof *at);
        if (!at) {
            incomplete = true;
            return;
        }
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = (struct busy){begin, end, what};
}

static void take(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const kernel_record *kernel = (const void *)record;
        append(&kernels, kernel->start, kernel->end, kernel->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const copy_record *copy = (const void *)record;
        append(&copies, copy->start, copy->end, NULL);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY2) {
        const peer_record *copy = (const void *)record;
        append(&copies, copy->start, copy->end, NULL);
    }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *bytes, size_t *most)
{
    *buffer = aligned_alloc(ALIGNMENT, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0;
    *most = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
                                 size_t used)
{
    CUpti_Activity *record = NULL;
    size_t dropped = 0;
    (void)bytes;
    pthread_mutex_lock(&lock);
    while (cuptiActivityGetNextRecord(buffer, used, &record) == CUPTI_SUCCESS)
        take(record);
    cuptiActivityGetNumDroppedRecords(context, stream, &dropped);
    incomplete = incomplete || dropped > 0;
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static int compare_names(const void *a, const void *b)
{
    const struct busy *x = a, *y = b;
    return strcmp(x->what, y->what);
}

/* Kernels from the first to the last before `end`, each with what its runs took. */
static void write_kernels(FILE *out, struct busy *first, const struct busy *end)
{
    qsort(first, (size_t)(end - first), sizeof *first, compare_names);
    while (first < end) {
        const struct busy *run = first;
        uint64_t took = 0;
        for (; run < end && strcmp(run->what, first->what) == 0; run++)
            took += run->end - run->begin;
        fprintf(out, "%" PRIu64 " %td %s\n", took, run - first, first->what);
        first += run - first;
    }
}

static void write_activity(FILE *out)
{
    struct list all = {0};
    for (size_t i = 0; i < kernels.count; i++)
        append(&all, kernels.at[i].begin, kernels.at[i].end, NULL);
    for (size_t i = 0; i < copies.count; i++)
        append(&all, copies.at[i].begin, copies.at[i].end, NULL);
    busy_sort(kernels.at, kernels.count);
    busy_sort(copies.at, copies.count);
    busy_sort(all.at, all.count);
    if (!incomplete && kernels.count > 0) {
        struct busy *first = kernels.at + kernels.count / 4;
        struct busy *last = kernels.at + kernels.count * 3 / 4;
        struct busy window = {first->begin, last->begin, NULL};
        fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", window.end - window.begin,
                busy_covers(kernels.at, kernels.count, window),
                busy_covers(copies.at, copies.count, window),
                busy_covers(all.at, all.count, window));
        write_kernels(out, first, last);
    }
    free(all.at);
}

static void end(void)
{
    const char *path = getenv("NP_ACTIVITY");
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    pthread_mutex_lock(&lock);
    FILE *out = path ? fopen(path, "w") : NULL;
    if (out) {
        write_activity(out);
        fclose(out);
    }
    pthread_mutex_unlock(&lock);
}

/* CUDA calls it, by this name, when a program first uses it; 1: it goes on. */
int InitializeInjection(void);
int InitializeInjection(void)
{
    static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                               CUPTI_ACTIVITY_KIND_MEMCPY,
                                               CUPTI_ACTIVITY_KIND_MEMCPY2};
    CUptiResult result = cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && result == CUPTI_SUCCESS; i++)
        result = cuptiActivityEnable(kinds[i]);
    if (result != CUPTI_SUCCESS) {
        const char *why = NULL;
        cuptiGetResultString(result, &why);
        fprintf(stderr, "activity: %s\n", why ? why : "CUPTI fails");
        return 1;
    }
    atexit(end);
    return 1;
}
