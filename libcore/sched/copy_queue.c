#include "sched/copy_queue.h"

int np_copy_queue_start(struct np_copy_queue *queue, double now)
{
    struct np_copy copy;
    double length = 0;
    uint64_t bytes;
    int i = 0;
    while (i < NP_COPIERS && queue->copier[i].bytes)
        i++;
    if (i == NP_COPIERS || !np_context_next(queue->context, &copy))
        return -1;
    bytes = np_context_bytes(queue->context, copy.layer);
    if (copy.kind == NP_COPY_FETCH)
        length = queue->speed.latency + queue->speed.fetch_per_byte * (double)bytes;
    if (copy.kind == NP_COPY_WRITE)
        length = queue->speed.latency + queue->speed.write_per_byte * (double)bytes;
    queue->copier[i] = (struct np_copy_span){copy, queue->stage, i, bytes, now, now + length};
    return i;
}

void np_copy_queue_end(struct np_copy_queue *queue, int copier)
{
    queue->copier[copier].bytes = 0;
    np_context_copied(queue->context, &queue->copier[copier].copy);
}
