#include "races.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "inside.h"
#include "shared.h"

enum { WORD = 4, STEPS = 64 };
static const uint32_t SET = 1u << 31;      /* of a reader: the number of a set of them */
static const uint32_t CLOSED = UINT32_MAX; /* no reader: memory that nobody may touch */

struct operation {
    const char *name;
    uint32_t actor, tick;
};

/* What is known of a word; 0: nobody. */
struct word {
    uint32_t writer, reader;
};

/* Operations that have read a word and did not know of each other: the last, and the others. */
struct readers {
    uint32_t last, others;
};

/* What readers have become by an operation that reads as well: for the words that come next. */
struct step {
    uint32_t was, by, is;
};

static struct {
    uintptr_t from;
    size_t bytes;
    struct word *words;
    struct actor host;
    bool over;
    uint32_t actors, operations, sets, room, set_room;
    struct operation *operation;
    struct readers *set;
    struct step steps[STEPS];
} races = {.actors = 1};

static __thread struct actor *now;

static void *grow(void *table, uint32_t *room, uint32_t used, size_t each)
{
    if (used < *room)
        return table;
    *room = *room ? 2 * *room : 1024;
    table = realloc(table, *room * each);
    if (!table)
        shim_die("out of memory");
    return table;
}

void races_watch(const void *from, size_t bytes)
{
    races.words =
        (struct word *)mmap(NULL, bytes / WORD * sizeof *races.words, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (races.words == MAP_FAILED)
        shim_die("cannot watch for races");
    races.from = (uintptr_t)from;
    races.bytes = bytes;
}

void races_stop(void)
{
    races.over = true;
}

/* Of the words that begin there; memory that is taken begins at one. */
static void set_readers(const void *at, size_t bytes, uint32_t reader)
{
    size_t from = ((uintptr_t)at - races.from + WORD - 1) / WORD;
    size_t end = ((uintptr_t)at - races.from + bytes + WORD - 1) / WORD;
    for (size_t i = from; i < end; i++)
        races.words[i].reader = reader;
}

void races_open(const void *at, size_t bytes)
{
    set_readers(at, bytes, 0);
}

void races_close(const void *at, size_t bytes)
{
    set_readers(at, bytes, CLOSED);
}

/* --- what is known -------------------------------------------------------------------------- */

void races_join(struct actor *actor)
{
    if (races.actors == MOST_ACTORS)
        shim_die("too many streams");
    actor->number = (int)races.actors++;
}

struct clock *races_told(void)
{
    struct clock *told = (struct clock *)malloc(sizeof *told);
    *told = races.host.knows;
    return told;
}

void races_learn(struct actor *actor, const struct clock *clock)
{
    for (uint32_t i = 0; i < races.actors; i++)
        if (actor->knows.at[i] < clock->at[i])
            actor->knows.at[i] = clock->at[i];
}

void races_learn_before(struct actor *actor, const struct actor *other)
{
    struct clock before = other->knows;
    before.at[other->number]--;
    races_learn(actor, &before);
}

void races_host_learns(const struct clock *clock)
{
    races_learn(&races.host, clock);
}

void races_begin(struct actor *actor, const char *name, const struct clock *told)
{
    actor = actor ? actor : &races.host;
    if (told)
        races_learn(actor, told);
    if (++races.operations == SET)
        shim_die("too many operations");
    races.operation = (struct operation *)grow(races.operation, &races.room, races.operations,
                                               sizeof *races.operation);
    actor->operation = races.operations;
    races.operation[actor->operation] = {name, (uint32_t)actor->number,
                                         ++actor->knows.at[actor->number]};
    now = actor;
}

void races_as(struct actor *actor)
{
    now = actor;
}

void races_end(void)
{
    now = NULL;
}

/* --- words ---------------------------------------------------------------------------------- */

static bool is_known(uint32_t operation)
{
    const struct operation *o = &races.operation[operation];
    return now->knows.at[o->actor] >= o->tick;
}

static const char *actor_text(char *out, size_t bytes, uint32_t operation)
{
    uint32_t actor = races.operation[operation].actor;
    if (actor)
        snprintf(out, bytes, "stream %u", actor);
    else
        snprintf(out, bytes, "the host");
    return out;
}

static void report(const struct word *w, const char *does, uint32_t other, const char *did)
{
    if (races.over)
        return;
    char where[128], mine[32], others[32];
    shim_where((const char *)races.from + (size_t)(w - races.words) * WORD, where, sizeof where);
    fprintf(stderr, "shim: race: %s: '%s' of %s %s it, '%s' of %s %s it, in no order\n", where,
            races.operation[now->operation].name, actor_text(mine, sizeof mine, now->operation),
            does, races.operation[other].name, actor_text(others, sizeof others, other), did);
    abort();
}

static void report_closed(const struct word *w, const char *does)
{
    if (races.over)
        return;
    char where[128], mine[32];
    shim_where((const char *)races.from + (size_t)(w - races.words) * WORD, where, sizeof where);
    fprintf(stderr, "shim: out of bounds: %s: '%s' of %s %s it\n", where,
            races.operation[now->operation].name, actor_text(mine, sizeof mine, now->operation),
            does);
    abort();
}

static struct readers readers_of(uint32_t readers)
{
    struct readers one = {readers, 0};
    return readers & SET ? races.set[readers & ~SET] : one;
}

static uint32_t join(uint32_t last, uint32_t others)
{
    if (!others)
        return last;
    races.set = (struct readers *)grow(races.set, &races.set_room, races.sets, sizeof *races.set);
    races.set[races.sets] = {last, others};
    return SET | races.sets++;
}

/* The current operation reads as well as those that do not come before it. */
static uint32_t add_reader(uint32_t readers)
{
    uint32_t me = now->operation, others = 0;
    struct step *step = &races.steps[(readers + me) % STEPS];
    if (step->was == readers && step->by == me)
        return step->is;
    for (uint32_t left = readers; left; left = readers_of(left).others)
        if (!is_known(readers_of(left).last))
            others = join(readers_of(left).last, others);
    *step = {readers, me, join(me, others)};
    return step->is;
}

static void read_word(struct word *w)
{
    uint32_t me = now->operation;
    if (w->reader == CLOSED)
        return report_closed(w, "reads");
    if (w->writer == me || readers_of(w->reader).last == me)
        return;
    if (w->writer && !is_known(w->writer))
        report(w, "reads", w->writer, "writes");
    w->reader = w->reader ? add_reader(w->reader) : me;
}

static void write_word(struct word *w)
{
    uint32_t me = now->operation;
    if (w->writer == me && !w->reader)
        return;
    if (w->reader == CLOSED)
        return report_closed(w, "writes");
    if (w->writer && !is_known(w->writer))
        report(w, "writes", w->writer, "writes");
    for (uint32_t left = w->reader; left; left = readers_of(left).others)
        if (!is_known(readers_of(left).last))
            report(w, "writes", readers_of(left).last, "reads");
    *w = {me, 0};
}

static bool is_watched(const void *at)
{
    return (uintptr_t)at - races.from < races.bytes;
}

static inline void each_word(void (*touch)(struct word *), const void *at, size_t bytes)
{
    size_t from = ((uintptr_t)at - races.from) / WORD;
    size_t end = ((uintptr_t)at - races.from + bytes + WORD - 1) / WORD;
    for (size_t i = from; i < end; i++)
        touch(&races.words[i]);
}

void races_read(const void *at, size_t bytes)
{
    if (is_watched(at))
        each_word(read_word, at, bytes);
}

void races_write(const void *at, size_t bytes)
{
    if (is_watched(at))
        each_word(write_word, at, bytes);
}

void races_host_writes(const char *name, const void *at, size_t bytes)
{
    races_begin(NULL, name, NULL);
    races_write(at, bytes);
    races_end();
}

/* --- what the compiler has put before each access ------------------------------------------- */

/* Of a kernel, for it is done with the lock held, or of the host. Not inline: what most calls do is
 * to look at the address. */
static void __attribute__((noinline))
see(void (*touch)(struct word *), const void *at, size_t bytes)
{
    if (now) {
        each_word(touch, at, bytes);
        return;
    }
    shim_lock();
    races_begin(NULL, "code", NULL);
    each_word(touch, at, bytes);
    races_end();
    shim_unlock();
}

#define SEE_RANGE(name, does)                                                                      \
    extern "C" void __tsan_##name(const void *at, size_t bytes);                                   \
    void __tsan_##name(const void *at, size_t bytes)                                               \
    {                                                                                              \
        if (is_watched(at))                                                                        \
            see(does##_word, at, bytes);                                                           \
        else if (shared_has(at))                                                                   \
            shared_##does(at, bytes);                                                              \
    }
#define SEE(name, does, bytes)                                                                     \
    extern "C" void __tsan_##name(const void *at);                                                 \
    void __tsan_##name(const void *at)                                                             \
    {                                                                                              \
        __tsan_##does##_range(at, bytes);                                                          \
    }
#define SEE_NOTHING(name)                                                                          \
    extern "C" void __tsan_##name(void);                                                           \
    void __tsan_##name(void)                                                                       \
    {                                                                                              \
    }

SEE_RANGE(read_range, read)
SEE_RANGE(write_range, write)
SEE(read1, read, 1)
SEE(read2, read, 2)
SEE(read4, read, 4)
SEE(read8, read, 8)
SEE(read16, read, 16)
SEE(write1, write, 1)
SEE(write2, write, 2)
SEE(write4, write, 4)
SEE(write8, write, 8)
SEE(write16, write, 16)
SEE(unaligned_read2, read, 2)
SEE(unaligned_read4, read, 4)
SEE(unaligned_read8, read, 8)
SEE(unaligned_read16, read, 16)
SEE(unaligned_write2, write, 2)
SEE(unaligned_write4, write, 4)
SEE(unaligned_write8, write, 8)
SEE(unaligned_write16, write, 16)
SEE_NOTHING(init)
SEE_NOTHING(func_entry)
SEE_NOTHING(func_exit)

/* The host's, which tell a GPU once how much memory a kernel has. */
extern "C" uint64_t __tsan_atomic64_load(const uint64_t *at, int);
uint64_t __tsan_atomic64_load(const uint64_t *at, int)
{
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}

extern "C" uint64_t __tsan_atomic64_fetch_or(uint64_t *at, uint64_t bits, int);
uint64_t __tsan_atomic64_fetch_or(uint64_t *at, uint64_t bits, int)
{
    return __atomic_fetch_or(at, bits, __ATOMIC_SEQ_CST);
}
