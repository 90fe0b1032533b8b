/* run.json: where, when and how a run was made. It stands outside everything that is digested. */
#include <jansson.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/text.h"
#include "train_report.h"

static json_t *plan_json(const struct np_plan *plan)
{
    json_t *cut = json_array();
    for (int k = 0; k <= plan->stages; k++)
        json_array_append_new(cut, json_integer(plan->stage_first[k]));
    return json_pack("{si si si si si si si sb so}", "replicas", np_plan_replicas(plan), "stages",
                     plan->stages, "micro_batches", plan->micro_batches, "window", plan->window,
                     "unit", plan->unit, "reach", plan->reach, "threads", plan->threads,
                     "recompute", plan->recompute != NULL, "stage_first", cut);
}

/* What decides the copies of layers; null where there are none. */
static json_t *copies_json(const struct np_plan *plan, const struct train_options *options)
{
    if (!np_plan_swaps(plan))
        return json_null();
    return json_pack("{sI ss si ss}", "device_memory", (json_int_t)plan->device_bytes, "prefetch",
                     np_context_policy_name(prefetch_policy(&options->prefetch)), "lookahead",
                     plan->lookahead, "stash", options->stash ? "file" : "memory");
}

static json_t *argv_json(int argc, char **argv)
{
    json_t *list = json_array();
    for (int i = 0; i < argc; i++) {
        json_t *word = json_string(argv[i]); /* NULL when it is not UTF-8 */
        json_array_append_new(list, word ? word : json_null());
    }
    return list;
}

enum np_status train_provenance(char **out, const struct np_supernet *net,
                                const struct np_plan *plan, const struct train_options *options,
                                int argc, char **argv, struct np_error *err)
{
    char host[256] = "", when[32];
    time_t now = time(NULL);
    struct np_buf text = {NULL, 0, 0};
    struct tm utc;
    json_t *root;
    char *json;
    enum np_status status;
    gethostname(host, sizeof host - 1);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    root = json_pack("{ss ss ss ss ss ss ss ss? ss so so so}", "tool", "np-train", "version",
                     NP_VERSION, "host", np_text_safe(host).s, "started", when, "backend",
                     backend_name(&options->backend), "transport",
                     options->backend.link ? options->backend.link->ops->name : "memory", "isa",
                     options->plan.request.kernels->name, "gpu",
                     options->backend.opened ? options->backend.name : NULL, "recipe",
                     np_digest_hex(&net->recipe->digest).s, "plan", plan_json(plan), "copies",
                     copies_json(plan, options), "argv", argv_json(argc, argv));
    json = root ? json_dumps(root, JSON_INDENT(2)) : NULL;
    json_decref(root);
    if (!json)
        return np_fail(err, NP_EMEM, "cannot write the provenance: out of memory");
    status = np_buf_printf(&text, err, "%s\n", json);
    free(json);
    *out = text.text;
    return status;
}
