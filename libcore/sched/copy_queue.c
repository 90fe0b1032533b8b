#include "sched/copy_queue.h"

int np_copy_queue_start(struct np_copy_queue *queue, double now)
{
    struct np_copy copy;
    uint64_t bytes;
    int i = 0;
    while (i < NP_COPIERS && queue->copier[i].bytes)
        i++;
    if (i == NP_COPIERS || !np_context_next(queue->context, &copy))
        return -1;
    bytes = np_context_bytes(queue->context, copy.layer);
    queue->copier[i] = (struct np_copy_span){copy, queue->stage, i, bytes, now, now};
    return i;
}

struct np_copy_span np_copy_queue_end(struct np_copy_queue *queue, int copier, double now)
{
    struct np_copy_span span = queue->copier[copier];
    span.end = now;
    queue->copier[copier].bytes = 0;
    np_context_copied(queue->context, &span.copy);
    return span;
}
