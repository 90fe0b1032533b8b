#include "run/scoring.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* So many scores may wait, for each worker, until those before them have been told. */
#define WAITING 16

struct scored {
    bool is;
    struct np_score score;
};

struct worker {
    struct scoring *scoring;
    struct np_trained *trained;
    struct np_train_config train; /* the evaluator's */
    struct np_evaluator *evaluator;
    pthread_t thread;
};

struct scoring {
    const struct np_scoring_config *config;
    struct np_plan plan;
    struct worker *workers; /* [jobs] */
    size_t blocks, room;    /* subnets that may be under way, or wait to be told */
    uint16_t *choices;      /* [room][blocks] */
    struct scored *scored;  /* [room] */
    pthread_mutex_t turn;   /* of who asks for the next subnet */
    bool ended;             /* there is none; under the turn */

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t told;
    uint64_t taken, done;  /* subnets that were taken, and told */
    bool quit, mute;       /* nothing more is taken; nor told */
    enum np_status status; /* the first failure */
    struct np_error err;
};

static uint16_t *choices_of(const struct scoring *s, uint64_t subnet)
{
    return s->choices + (size_t)(subnet % s->room) * s->blocks;
}

static void fail(struct scoring *s, enum np_status status, const struct np_error *err)
{
    pthread_mutex_lock(&s->lock);
    if (s->status == NP_OK) {
        s->status = status;
        s->err = *err;
    }
    s->quit = true;
    pthread_cond_broadcast(&s->told);
    pthread_mutex_unlock(&s->lock);
}

static bool on_stop(void *context)
{
    const struct scoring *s = context;
    const struct np_scoring_hooks *hooks = &s->config->hooks;
    return hooks->stop && hooks->stop(hooks->context);
}

static bool gives_up(void *context)
{
    struct scoring *s = context;
    bool quit;
    pthread_mutex_lock(&s->lock);
    quit = s->quit;
    pthread_mutex_unlock(&s->lock);
    return quit || on_stop(s);
}

/* The number of the next subnet, once there is room for it; false: there is none to take. */
static bool take(struct scoring *s, uint64_t *subnet)
{
    const struct np_scoring_hooks *hooks = &s->config->hooks;
    struct np_error err;
    enum np_status status = NP_OK;
    bool more = false;
    pthread_mutex_lock(&s->turn);
    pthread_mutex_lock(&s->lock);
    while (!s->quit && s->taken - s->done == s->room)
        pthread_cond_wait(&s->told, &s->lock);
    bool quit = s->quit || s->ended;
    *subnet = s->taken;
    pthread_mutex_unlock(&s->lock);
    if (!quit)
        status = hooks->next(hooks->context, choices_of(s, *subnet), &more, gives_up, s, &err);
    more = more && status == NP_OK;
    s->ended = !more;
    if (more) {
        pthread_mutex_lock(&s->lock);
        s->taken++;
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&s->turn);
    if (status != NP_OK)
        fail(s, status, &err);
    return more;
}

static enum np_status score(struct worker *w, uint64_t subnet, struct np_score *out,
                            struct np_error *err)
{
    struct scoring *s = w->scoring;
    struct np_evaluation evaluation = {.data = s->config->data,
                                       .choices = choices_of(s, subnet),
                                       .count = 1,
                                       .batches = s->config->batches};
    enum np_status status;
    NP_TRY(np_trained_bring(w->trained, evaluation.choices, err));
    status = np_evaluate(out, w->evaluator, &evaluation, err);
    np_trained_leave(w->trained, evaluation.choices);
out:
    return status;
}

/* Tells all scores that none before them keeps waiting. */
static void tell(struct scoring *s, uint64_t subnet, struct np_score score)
{
    const struct np_scoring_hooks *hooks = &s->config->hooks;
    struct np_error err;
    enum np_status status = NP_OK;
    pthread_mutex_lock(&s->lock);
    s->scored[subnet % s->room] = (struct scored){true, score};
    while (!s->mute && s->scored[s->done % s->room].is) {
        struct scored *next = &s->scored[s->done % s->room];
        status = hooks->scored(hooks->context, choices_of(s, s->done), next->score, &err);
        s->mute = status != NP_OK;
        next->is = false;
        s->done++;
    }
    pthread_cond_broadcast(&s->told);
    pthread_mutex_unlock(&s->lock);
    if (status != NP_OK)
        fail(s, status, &err);
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    struct np_score found;
    struct np_error err;
    uint64_t subnet;
    while (take(w->scoring, &subnet)) {
        enum np_status status = score(w, subnet, &found, &err);
        if (status == NP_OK)
            tell(w->scoring, subnet, found);
        else
            fail(w->scoring, status, &err);
    }
    return NULL;
}

static enum np_status worker_init(struct worker *w, struct scoring *s, int device,
                                  struct np_error *err)
{
    const struct np_scoring_config *config = s->config;
    w->scoring = s;
    w->trained = config->trained[device];
    w->train = (struct np_train_config){.net = config->net,
                                        .data = config->train_data,
                                        .kernels = config->kernels,
                                        .devices = &config->devices[device],
                                        .device_count = 1,
                                        .plan = &s->plan,
                                        .hooks = {.context = s, .stop = on_stop}};
    return np_evaluator_new(&w->evaluator, &w->train, np_trained_state(w->trained), NULL, err);
}

static enum np_status scoring_init(struct scoring *s, const struct np_scoring_config *config,
                                   struct np_error *err)
{
    enum np_status status;
    *s = (struct scoring){
        .config = config,
        .plan = {.stages = 1, .threads = config->threads, .scratch = config->scratch},
        .blocks = (size_t)config->net->positions - 2,
        .room = WAITING * (size_t)config->jobs};
    pthread_mutex_init(&s->turn, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->told, NULL);
    NP_TRY(np_zalloc(&s->choices, s->room, s->blocks * sizeof *s->choices, err));
    NP_TRY(np_zalloc(&s->scored, s->room, sizeof *s->scored, err));
    NP_TRY(np_zalloc(&s->workers, (size_t)config->jobs, sizeof *s->workers, err));
    for (int i = 0; i < config->count; i++)
        np_trained_give_up(config->trained[i], on_stop, s);
    for (int i = 0; i < config->jobs; i++)
        NP_TRY(worker_init(&s->workers[i], s, i % config->count, err));
out:
    return status;
}

static void scoring_clear(struct scoring *s)
{
    for (int i = 0; i < s->config->count; i++)
        np_trained_give_up(s->config->trained[i], NULL, NULL);
    for (int i = 0; s->workers && i < s->config->jobs; i++)
        np_evaluator_free(s->workers[i].evaluator);
    free(s->workers);
    free(s->scored);
    free(s->choices);
    pthread_cond_destroy(&s->told);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->turn);
}

/* The caller's thread is the first worker's. */
enum np_status np_scoring_run(const struct np_scoring_config *config, struct np_error *err)
{
    struct scoring s;
    struct np_error why;
    int started = 1;
    enum np_status status;
    NP_TRY(scoring_init(&s, config, err));
    for (; started < config->jobs; started++) {
        errno = pthread_create(&s.workers[started].thread, NULL, worker_main, &s.workers[started]);
        if (errno) {
            fail(&s, np_fail_errno(&why, "cannot start the thread of job %d", started), &why);
            break;
        }
    }
    worker_main(&s.workers[0]);
    for (int i = 1; i < started; i++)
        pthread_join(s.workers[i].thread, NULL);
    status = s.status == NP_OK ? NP_OK : np_fail(err, s.status, "%s", s.err.msg);
out:
    scoring_clear(&s);
    return status;
}
