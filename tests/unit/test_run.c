/* Run directories: sessions, checkpoints, resuming, comparing and checking. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "durable_calls.h"
#include "run/compare.h"
#include "run/fsck.h"
#include "run/session.h"
#include "run/trained.h"
#include "suite.h"
#include "tiny.h"

static const struct tiny_shape sequential = {0, 1, 1, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false};
static const struct tiny_shape two_stages = {2, 2, 4, 1, 1, NP_ISA_SCALAR, 0, 0, 0, 0, false};
static const struct tiny_shape four_stages = {4, 4, 2, 1, 2, NP_ISA_SCALAR, 0, 0, 2, 0, false};

static char *path_in(const char *run, const char *name)
{
    static char path[4][256];
    static int turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s%s%s", tiny_directory, run, name ? "/" : "",
             name ? name : "");
    return out;
}

static uint64_t keep; /* checkpoints; 0: all */
static struct np_session_hooks hooks;
static struct np_inherit *inherited;
static const char *subnets;

/* One session on RUN in the test's directory. */
static enum np_status session(struct tiny *t, const char *run, const struct tiny_shape *shape,
                              uint64_t stop_after, bool resume, struct np_session_result *result)
{
    struct np_plan plan;
    struct np_session_config config = {.run = path_in(run, NULL),
                                       .net = &t->net,
                                       .train_data = t->data,
                                       .kernels = np_kernels_get(shape->isa),
                                       .plan = &plan,
                                       .schedule =
                                           shape->stages ? NP_SESSION_CSP : NP_SESSION_SEQUENTIAL,
                                       .resume = resume,
                                       .ledger_layers = true,
                                       .stop_after = stop_after,
                                       .keep = keep,
                                       .inherit = inherited,
                                       .subnets = subnets,
                                       .provenance = "{}\n",
                                       .hooks = hooks};
    enum np_status status;
    tiny_plan(t, &plan, shape);
    status = np_session_run(result, &config, &t->err);
    np_plan_clear(&plan);
    return status;
}

static void run_whole(struct tiny *t, const char *run, const struct tiny_shape *shape,
                      struct np_session_result *result)
{
    tiny_must(session(t, run, shape, 0, false, result), &t->err);
    ck_assert_uint_eq(result->next, TINY_STEPS);
}

static struct np_comparison compare(const char *a, const char *b)
{
    struct np_comparison r;
    struct np_error err;
    tiny_must(np_compare_runs(&r, path_in(a, NULL), path_in(b, NULL), &err), &err);
    return r;
}

static void remove_run(const char *run)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", path_in(run, NULL));
    ck_assert_int_eq(system(command), 0);
}

static void copy_run(const char *from, const char *to)
{
    char command[600];
    snprintf(command, sizeof command, "cp -r '%s' '%s'", path_in(from, NULL), path_in(to, NULL));
    ck_assert_int_eq(system(command), 0);
}

/* Recipes whose checkpoints hold different things. */
static const char *const variants[][3] = {
    {NULL},
    {"shared={policy: delay, steps: 4}", "train.checkpoint_every=3", NULL},
    {"shared={policy: delay, steps: 9}", NULL},
    {"train.optimizer={kind: sgd, lr: 0.05, momentum: 0.9}", "shared={policy: frozen}", NULL},
    {"train.optimizer={kind: sgd, lr: 0.05}", "sampler={kind: spread, spread: 4}", NULL},
};

START_TEST(stop_and_resume)
{
    struct tiny t;
    struct np_session_result whole, part;
    size_t count = 0;
    if (!tiny_varies(_i))
        return;
    while (variants[_i][count])
        count++;
    tiny_open(&t, TINY_TEXT, variants[_i], count);
    run_whole(&t, "whole", &sequential, &whole);
    tiny_must(session(&t, "parts", &two_stages, 2, false, &part), &t.err);
    ck_assert_uint_eq(part.next, 2);
    tiny_must(session(&t, "parts", &four_stages, 7, true, &part), &t.err);
    ck_assert_uint_eq(part.first, 2);
    tiny_must(session(&t, "parts", &sequential, 0, true, &part), &t.err);
    ck_assert(np_digest_equal(&whole.digest, &part.digest));
    ck_assert(compare("whole", "parts").same);
    remove_run("whole");
    remove_run("parts");
    tiny_close(&t);
}
END_TEST

/* Layers of checkpoints that were read and written, and how many are before a stop. */
struct copied {
    size_t layers[2], most[2]; /* most 0: no stop */
};

static void on_checkpoint(void *context, bool writes, size_t done, size_t layers)
{
    struct copied *copied = context;
    ck_assert_uint_eq(done, copied->layers[writes]);
    ck_assert_uint_le(done, layers);
    copied->layers[writes] += done < layers;
}

static bool has_copied(void *context)
{
    const struct copied *copied = context;
    for (int i = 0; i < 2; i++)
        if (copied->most[i] && copied->layers[i] >= copied->most[i])
            return true;
    return false;
}

/* A checkpoint that is read can be stopped, and nothing has changed. */
START_TEST(stop_where_a_checkpoint_is_read)
{
    struct tiny t;
    struct copied copied = {.most = {2, 0}};
    struct np_session_result first, part;
    const char *left = path_in("stopped", "objects/.np-99999999-0"); /* by a killed process */
    tiny_open(&t, TINY_TEXT, NULL, 0);
    hooks = (struct np_session_hooks){.context = &copied, .checkpoint = on_checkpoint};
    tiny_must(session(&t, "stopped", &two_stages, 2, false, &first), &t.err);
    ck_assert_uint_gt(copied.layers[true], 3);
    ck_assert_uint_eq(copied.layers[false], 0);
    hooks.stop = has_copied;
    fclose(fopen(left, "w"));
    ck_assert_int_eq(session(&t, "stopped", &two_stages, 0, true, &part), NP_ESTOP);
    ck_assert_int_ne(access(left, F_OK), 0);
    ck_assert_str_eq(t.err.msg, "stopped on request after step 2");
    ck_assert_uint_eq(copied.layers[false], 2);
    ck_assert_uint_eq(part.next, 2);
    ck_assert(np_digest_equal(&part.digest, &first.digest));
    hooks = (struct np_session_hooks){.stop = NULL};
    tiny_must(session(&t, "stopped", &two_stages, 0, true, &part), &t.err);
    run_whole(&t, "undisturbed", &sequential, &first);
    ck_assert(np_digest_equal(&part.digest, &first.digest));
    tiny_close(&t);
}
END_TEST

/* Neither is there anything of one that was not finished. */
START_TEST(stop_where_weights_are_inherited)
{
    struct tiny t, heir;
    struct copied copied = {.most = {0, 2}};
    struct np_session_result old, part, whole;
    char init[NP_DIGEST_HEX + 16];
    const char *sets[] = {init};
    tiny_open(&t, TINY_TEXT, NULL, 0);
    run_whole(&t, "old", &sequential, &old);
    snprintf(init, sizeof init, "train.init=%s", np_digest_hex(&old.digest).s);
    tiny_open(&heir, TINY_TEXT, sets, 1);
    tiny_must(np_inherit_open(&inherited, path_in("old", NULL), NP_LATEST, &heir.net, &heir.err),
              &heir.err);
    hooks = (struct np_session_hooks){&copied, .checkpoint = on_checkpoint, .stop = has_copied};
    ck_assert_int_eq(session(&heir, "heir", &two_stages, 0, false, &part), NP_ESTOP);
    ck_assert_str_eq(heir.err.msg, "stopped on request before the first step");
    ck_assert(!part.has_digest);
    ck_assert_uint_eq(copied.layers[true], 2);
    ck_assert_uint_eq(copied.layers[false], 0);
    hooks = (struct np_session_hooks){.stop = NULL};
    tiny_must(session(&heir, "heir", &two_stages, 0, true, &part), &heir.err);
    run_whole(&heir, "whole", &sequential, &whole);
    ck_assert(part.has_digest);
    ck_assert(np_digest_equal(&part.digest, &whole.digest));
    ck_assert(!np_digest_equal(&part.digest, &old.digest));
    np_inherit_free(inherited);
    inherited = NULL;
    remove_run("old");
    remove_run("heir");
    remove_run("whole");
    tiny_close(&heir);
    tiny_close(&t);
}
END_TEST

/* What is noted where WHAT is done to the run's NAME; and where that was. */
static const char *did_call(const char *what, const char *name)
{
    static char call[300];
    snprintf(call, sizeof call, "%s %s; ", what, path_in("run", name));
    return call;
}

static const char *did(const char *what, const char *name)
{
    const char *call = did_call(what, name), *at = strstr(durable_calls, call);
    ck_assert_msg(at != NULL, "never: %s", call);
    return at;
}

/* When the manifest has its name, all that it speaks of is on the disk: so whatever a machine loses
 * with its power, the checkpoint is whole or not there. */
START_TEST(the_manifest_comes_last)
{
    struct tiny t;
    struct np_session_result result;
    const char *manifest, *object, *next;
    char chosen[256];
    tiny_open(&t, TINY_TEXT, NULL, 0);
    snprintf(chosen, sizeof chosen, "%s/chosen", tiny_directory);
    suite_write(chosen, "0 1 2 3 4 5\n1 2 3 4 5 6\n");
    subnets = chosen;
    durable_calls[0] = '\0';
    tiny_must(session(&t, "run", &two_stages, 1, false, &result), &t.err);
    subnets = NULL;
    manifest = did("rename", "checkpoints/0000000001.manifest");
    const char *names = strstr(did("rename", "run.json"), did_call("sync", NULL)); /* of ledgers */
    ck_assert(names && names < manifest);
    ck_assert(did("sync", "ledger.tsv") < manifest);
    ck_assert(did("sync", "layers.tsv") < manifest);
    ck_assert(did("sync", "subnets.txt") < manifest);
    ck_assert(did("sync", "objects") < manifest);
    ck_assert(did("sync", "checkpoints") > manifest);
    object =
        strstr(durable_calls, "; rename "); /* the last one, whose directory is synced after it */
    while ((next = strstr(object + 1, "; rename ")) && next + 2 < manifest)
        object = next;
    next = strstr(object, "; sync ");
    ck_assert(next && next < manifest && strstr(next, "/objects/") < manifest);
    remove_run("run");
    tiny_close(&t);
}
END_TEST

/* Nothing is computed by other numerics than the recipe's. */
START_TEST(processors_have_portable_numerics_alone)
{
    static const char *const fast[] = {"numerics=fast/sm_90-tf32"};
    struct np_session_result result;
    struct tiny t;
    tiny_open(&t, TINY_TEXT, fast, 1);
    ck_assert_int_eq(session(&t, "fast", &sequential, 0, false, &result), NP_EINPUT);
    ck_assert_str_eq(t.err.msg, "--set numerics=fast/sm_90-tf32: numerics fast/sm_90-tf32 are "
                                "computed on GPUs alone");
    tiny_close(&t);
}
END_TEST

/* Steps after the last checkpoint are trained again; their ledger lines are not doubled. */
START_TEST(resume_after_a_crash)
{
    struct tiny t;
    struct np_session_result result;
    FILE *ledger;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    run_whole(&t, "whole", &sequential, &result);
    tiny_must(session(&t, "crashed", &two_stages, 5, false, &result), &t.err);
    ledger = fopen(path_in("crashed", "ledger.tsv"), "a");
    ck_assert_ptr_nonnull(ledger);
    fputs("5\tnot what step 5 gives\n6\tcut off", ledger);
    fclose(ledger);
    tiny_must(session(&t, "crashed", &two_stages, 0, true, &result), &t.err);
    ck_assert(compare("whole", "crashed").same);
    remove_run("whole");
    remove_run("crashed");
    tiny_close(&t);
}
END_TEST

START_TEST(refusals)
{
    const char *const other_seed[] = {"seed=12"};
    struct tiny t, other;
    struct np_session_result result;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    tiny_open(&other, TINY_TEXT, other_seed, 1);
    tiny_must(session(&t, "run", &two_stages, 1, false, &result), &t.err);
    ck_assert_int_eq(session(&t, "run", &two_stages, 1, false, &result), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "exists"));
    ck_assert_int_eq(session(&other, "run", &two_stages, 0, true, &result), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(other.err.msg, "another recipe"));
    ck_assert_int_ne(session(&t, "none", &two_stages, 0, true, &result), NP_OK);
    remove_run("run");
    tiny_close(&other);
    tiny_close(&t);
}
END_TEST

/* flock of this program: a run that is set here is taken up by another the moment before. */
static const char *taken_up;
static int taken_fd, taken_lock;

int flock(int fd, int operation)
{
    if (taken_up) {
        taken_fd = open(taken_up, taken_lock);
        taken_up = NULL;
        ck_assert_int_eq((int)syscall(SYS_flock, taken_fd, operation), 0);
    }
    return (int)syscall(SYS_flock, fd, operation);
}

START_TEST(taken_up_by_another)
{
    struct tiny t;
    struct np_session_result result;
    struct stat info;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    taken_up = path_in("run", NULL);
    taken_lock = O_RDONLY | O_DIRECTORY;
    ck_assert_int_eq(session(&t, "run", &two_stages, 1, false, &result), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "in use"));
    ck_assert_int_eq(stat(path_in("run", NULL), &info), 0); /* it is the other's */
    ck_assert_int_eq(close(taken_fd), 0);

    tiny_must(session(&t, "run", &two_stages, 1, true, &result), &t.err);
    taken_up = path_in("run", "run.json");
    taken_lock = O_RDWR;
    ck_assert_int_eq(session(&t, "run", &two_stages, 0, true, &result), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(t.err.msg, "in use"));
    ck_assert_int_eq(close(taken_fd), 0);
    tiny_must(session(&t, "run", &two_stages, 0, true, &result), &t.err);
    remove_run("run");
    tiny_close(&t);
}
END_TEST

static void poke(const char *path, long offset)
{
    FILE *f = fopen(path, "r+");
    int byte;
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, offset, offset < 0 ? SEEK_END : SEEK_SET), 0);
    byte = fgetc(f);
    ck_assert_int_ne(byte, EOF);
    ck_assert_int_eq(fseek(f, -1, SEEK_CUR), 0);
    fputc(byte ^ 1, f);
    fclose(f);
}

static size_t problems;

static void count_problem(void *context, const char *message)
{
    (void)context;
    ck_assert(message[0] != '\0');
    problems++;
}

static size_t fsck(const char *run)
{
    struct np_fsck check = {.problem = count_problem};
    struct np_error err;
    problems = 0;
    tiny_must(np_fsck_run(&check, path_in(run, NULL), &err), &err);
    ck_assert_uint_eq(problems, check.problems);
    return problems;
}

/* Every single damage is found, and a damaged checkpoint is not resumed from. */
/* What a machine loses with its power, no manifest that is left names: the new checkpoint is whole
 * before an old one goes, and that has gone for good before anything it consists of does. */
START_TEST(old_checkpoints_go_before_their_objects)
{
    struct tiny t;
    struct np_session_result result;
    char removes[300];
    const char *gone, *synced, *next;
    int objects = 0;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    tiny_must(session(&t, "run", &two_stages, 3, false, &result), &t.err);
    durable_calls[0] = '\0';
    keep = 1;
    tiny_must(session(&t, "run", &two_stages, 6, true, &result), &t.err);
    keep = 0;
    gone = did("unlink", "checkpoints/0000000003.manifest");
    synced =
        strstr(did("rename", "checkpoints/0000000006.manifest"), did_call("sync", "checkpoints"));
    ck_assert(synced && synced < gone);
    synced = strstr(gone, did_call("sync", "checkpoints"));
    ck_assert_ptr_nonnull(synced);
    snprintf(removes, sizeof removes, "unlink %s/", path_in("run", "objects"));
    for (next = durable_calls; (next = strstr(next, removes)); next++, objects++)
        ck_assert(next > synced);
    ck_assert_int_gt(objects, 3);
    ck_assert_uint_eq(fsck("run"), 0);
    remove_run("run");
    tiny_close(&t);
}
END_TEST

START_TEST(damage)
{
    const char *const spoil[] = {"truncate -s -1 checkpoints/*6.manifest",
                                 "truncate -s -1 ledger.tsv",
                                 "rm $(find objects -type f | sort | head -n 1)",
                                 "truncate -s 20 $(find objects -type f | sort | tail -n 1)",
                                 "sed -i 's/^step 6/step 5/' checkpoints/*6.manifest",
                                 "sed -i '5s/^./g/' checkpoints/*6.manifest",
                                 "sed -i '6d;5{h;d};7{p;x}' checkpoints/*6.manifest",
                                 "sed -i 's/^seed: 11/seed: 12/' recipe.yaml",
                                 "sed -i 3d ledger.tsv"};
    char command[600];
    struct tiny t;
    struct np_session_result result;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    tiny_must(session(&t, "sound", &two_stages, 6, false, &result), &t.err);
    ck_assert_uint_eq(fsck("sound"), 0);
    for (size_t i = 0; i < sizeof spoil / sizeof *spoil; i++) {
        copy_run("sound", "spoilt");
        snprintf(command, sizeof command, "cd '%s' && %s", path_in("spoilt", NULL), spoil[i]);
        ck_assert_int_eq(system(command), 0);
        ck_assert_msg(fsck("spoilt") > 0, "not found: %s", spoil[i]);
        remove_run("spoilt");
    }
    copy_run("sound", "spoilt"); /* what needs no recipe is looked at without one, too */
    ck_assert_int_eq(unlink(path_in("spoilt", "recipe.yaml")), 0);
    ck_assert_uint_eq(fsck("spoilt"), 1);
    snprintf(command, sizeof command, "cd '%s' && %s", path_in("spoilt", NULL), spoil[2]);
    ck_assert_int_eq(system(command), 0);
    ck_assert_uint_gt(fsck("spoilt"), 1);
    remove_run("spoilt");
    copy_run("sound", "spoilt");
    poke(path_in("spoilt", "checkpoints/0000000006.manifest"), 200);
    ck_assert_int_ne(session(&t, "spoilt", &two_stages, 0, true, &result), NP_OK);
    remove_run("spoilt");
    remove_run("sound");
    tiny_close(&t);
}
END_TEST

/* Trains with another decay from a step on: a difference planted at a known place. */
START_TEST(localise)
{
    const char *const warm[] = {"train.schedule={kind: constant, warmup: 0}"};
    struct tiny t;
    struct np_session_result result;
    struct np_comparison r;
    tiny_open(&t, TINY_TEXT, warm, 1);
    tiny_must(session(&t, "a", &two_stages, 4, false, &result), &t.err);
    copy_run("a", "b");
    tiny_must(session(&t, "a", &two_stages, 0, true, &result), &t.err);
    t.recipe.optimizer.weight_decay += 1; /* not what the digest says: stands for broken hardware */
    tiny_must(session(&t, "b", &two_stages, 0, true, &result), &t.err);
    r = compare("a", "b");
    ck_assert(!r.same);
    ck_assert(r.step_differs);
    ck_assert_uint_eq(r.step, 4);
    ck_assert_str_eq(r.step_layer, "stem");
    ck_assert(r.layer_differs);
    ck_assert_str_eq(r.layer, "stem");
    ck_assert(r.element_differs);
    ck_assert_str_eq(r.part, "weights");
    ck_assert(memcmp(&r.value_a, &r.value_b, sizeof(float)) != 0);
    remove_run("a");
    remove_run("b");
    tiny_close(&t);
}
END_TEST

START_TEST(different_recipes)
{
    const char *const other_seed[] = {"seed=12"};
    struct tiny t, other;
    struct np_session_result result;
    struct np_comparison r;
    struct np_error err;
    tiny_open(&t, TINY_TEXT, NULL, 0);
    tiny_open(&other, TINY_TEXT, other_seed, 1);
    tiny_must(session(&t, "a", &two_stages, 1, false, &result), &t.err);
    tiny_must(session(&other, "b", &two_stages, 1, false, &result), &other.err);
    ck_assert_int_eq(np_compare_runs(&r, path_in("a", NULL), path_in("b", NULL), &err), NP_EINPUT);
    ck_assert_ptr_nonnull(strstr(err.msg, "different recipes"));
    remove_run("a");
    remove_run("b");
    tiny_close(&other);
    tiny_close(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("run");
    TCase *tests = suite_case(suite, "run");
    tcase_add_unchecked_fixture(tests, tiny_make_files, tiny_remove_files);
    tcase_add_test(tests, processors_have_portable_numerics_alone);
    tcase_add_test(tests, stop_where_a_checkpoint_is_read);
    tcase_add_test(tests, stop_where_weights_are_inherited);
    tcase_add_loop_test(tests, stop_and_resume, 0, (int)(sizeof variants / sizeof *variants));
    tcase_add_test(tests, the_manifest_comes_last);
    tcase_add_test(tests, old_checkpoints_go_before_their_objects);
    tcase_add_test(tests, resume_after_a_crash);
    tcase_add_test(tests, refusals);
    tcase_add_test(tests, taken_up_by_another);
    tcase_add_test(tests, damage);
    tcase_add_test(tests, localise);
    tcase_add_test(tests, different_recipes);
    return suite_run(suite);
}
