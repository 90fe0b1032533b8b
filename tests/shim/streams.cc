/* Streams and events of the shim, and the order of their work. */
#include "shared.h"
#include "state.h"

static bool may_run(struct shim_work *work)
{
    if (!work || (work->waits && work->event->done < work->turn))
        return false;
    return !work->ready || work->ready(work);
}

static void let_go(struct shim_moment *moment)
{
    if (moment && --moment->holders == 0)
        free(moment);
}

static void free_event(cudaEvent_t event)
{
    let_go(event->moment);
    free(event);
}

/* A record, or a wait for one, is through. */
static void pass(cudaStream_t stream, struct shim_work *work)
{
    cudaEvent_t event = work->event;
    if (work->waits && work->moment)
        races_learn(&stream->actor, &work->moment->knows);
    else if (!work->waits)
        work->moment->knows = stream->actor.knows;
    if (!work->waits && work->turn > event->done)
        event->done = work->turn;
    let_go(work->moment);
    if (--event->pending == 0 && event->destroyed)
        free_event(event);
}

/* Does what the stream does next. */
static void run_first(cudaStream_t stream)
{
    struct shim_work *work = stream->first;
    open_memory(work->copies ? -1 : stream->device);
    shim_begin(stream);
    races_as(&stream->actor);
    if (work->run && (!shim.dead || work->ready))
        work->run(work);
    races_end();
    if (work->stays)
        return;
    if (work->event)
        pass(stream, work);
    stream->first = work->next;
    if (!stream->first)
        stream->last = &stream->first;
    free(work);
}

/* Some stream that has something to do that nothing holds up; NULL: none. Mostly the same again, so
 * that one gets far ahead of the others. */
static cudaStream_t any_stream(void)
{
    uint64_t count = 0;
    cudaStream_t found = NULL;
    bool same = draw(64) > 0;
    for (cudaStream_t s = shim.streams; s; s = s->next)
        if (may_run(s->first) && ((same && s == shim.favoured) || draw(++count) == 0)) {
            found = s;
            if (same && s == shim.favoured)
                break;
        }
    shim.favoured = found;
    return found;
}

static void run_some(uint64_t count)
{
    for (cudaStream_t s; count > 0; count--) {
        if (!(s = any_stream())) {
            shim_stuck();
            break;
        }
        run_first(s);
    }
    close_memory();
}

void shim_begin(cudaStream_t stream)
{
    struct shim_work *work = stream->first;
    if (!work->told)
        return;
    races_begin(&stream->actor, work->name, work->told);
    races_end();
    free(work->told);
    work->told = NULL;
}

void shim_queue(cudaStream_t stream, struct shim_work *work)
{
    work->told = races_told();
    *stream->last = work;
    stream->last = &work->next;
    if (draw(16) == 0)
        run_some(draw(16));
}

void shim_post(cudaStream_t stream, struct shim_work *work)
{
    lock();
    if (stream) {
        shim_queue(stream, work);
    } else {
        open_memory(-1);
        races_begin(NULL, work->name, NULL);
        work->run(work);
        races_end();
        close_memory();
        free(work);
    }
    unlock(cudaSuccess);
}

static cudaStream_t stream_new(void)
{
    cudaStream_t stream = (cudaStream_t)calloc(1, sizeof *stream);
    stream->last = &stream->first;
    stream->next = shim.streams;
    stream->device = current;
    races_join(&stream->actor);
    shim.streams = stream;
    return stream;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    lock();
    need_device();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    *stream = stream_new();
    return unlock(cudaSuccess);
}

cudaStream_t shim_thread_stream(void)
{
    static __thread cudaStream_t streams[MOST_DEVICES];
    lock();
    need_device();
    cudaStream_t *stream = &streams[current];
    if (!*stream)
        *stream = stream_new();
    unlock(cudaSuccess);
    return *stream;
}

/* Whoever waits may have what he waits for soon, or late. */
static void begin_waiting(cudaStream_t stream)
{
    shim.favoured = draw(2) ? stream : NULL;
}

/* Runs, of all streams, what must be run before this one has nothing to do. */
void run_out(cudaStream_t stream)
{
    begin_waiting(stream);
    while (stream->first) {
        cudaStream_t any = any_stream();
        if (!any) {
            shim_stuck();
            die("streams wait for each other");
        }
        run_first(any);
    }
    close_memory();
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaStream_t *at = &shim.streams;
    lock();
    run_out(stream);
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free(stream);
    return unlock(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    if (stream && strcmp(shim.skipped, __func__) != 0) {
        run_out(stream);
        races_host_learns(&stream->actor.knows);
    }
    return unlock(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    need_device();
    *event = (cudaEvent_t)calloc(1, sizeof **event);
    (*event)->device = current;
    return unlock(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    lock();
    event->destroyed = true;
    if (event->pending == 0)
        free_event(event);
    return unlock(cudaSuccess);
}

static void post_event(cudaStream_t stream, cudaEvent_t event, bool waits)
{
    struct shim_work *work = (struct shim_work *)calloc(1, sizeof *work);
    lock();
    event->pending++;
    work->event = event;
    work->turn = waits ? event->issued : ++event->issued;
    work->waits = waits;
    if (!waits) {
        let_go(event->moment);
        event->moment = (struct shim_moment *)calloc(1, sizeof *event->moment);
        event->moment->holders = 1;
    }
    work->moment = event->moment;
    if (work->moment)
        work->moment->holders++;
    unlock(cudaSuccess);
    shim_post(stream, work);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    lock();
    bool foreign = stream->device != event->device;
    if (unlock(foreign || refused(__func__) ? cudaErrorInvalidResourceHandle : cudaSuccess) !=
        cudaSuccess)
        return cudaErrorInvalidResourceHandle;
    event->stream = stream;
    post_event(stream, event, false);
    return cudaSuccess;
}

/* All that has been recorded so far is done. */
static void host_learns(cudaEvent_t event)
{
    if (event->moment)
        races_host_learns(&event->moment->knows);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    uint64_t turn = event->issued;
    if (strcmp(shim.skipped, __func__) == 0)
        return unlock(cudaSuccess);
    begin_waiting(event->stream);
    while (event->done < turn) {
        cudaStream_t any = any_stream();
        if (!any)
            die("an event is never reached");
        run_first(any);
    }
    close_memory();
    host_learns(event);
    return unlock(cudaSuccess);
}

/* Time passes for whoever looks again and again. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    lock();
    if (refused(__func__))
        return unlock(cudaErrorUnknown);
    run_some(draw(16));
    bool done = event->done == event->issued || strcmp(shim.skipped, __func__) == 0;
    if (event->done == event->issued)
        host_learns(event);
    return unlock(done ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    lock();
    bool skipped = strcmp(shim.skipped, __func__) == 0;
    if (unlock(refused(__func__) ? cudaErrorUnknown : cudaSuccess) != cudaSuccess)
        return cudaErrorUnknown;
    if (!skipped)
        post_event(stream, event, true);
    return cudaSuccess;
}
