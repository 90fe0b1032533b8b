#include "run/scores.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "io/file.h"

struct reader {
    struct np_scores *scores;
    const struct np_stream_shape *shape;
    struct np_safe name;
    FILE *in;
    unsigned long long line;
};

static enum np_status refuse(const struct reader *r, const char *why, const char *what,
                             struct np_error *err)
{
    return np_fail(err, NP_EINPUT, "%s:%llu: %s%s", r->name.s, r->line, why,
                   what ? np_text_safe(what).s : "");
}

/* What is not finite is NAN. */
static bool parse_score(double *out, const char *text)
{
    static const char *const words[] = {"nan", "-nan", "inf", "-inf"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = NAN;
            return true;
        }
    return np_text_parse_double(out, text);
}

static enum np_status read_choices(const struct reader *r, uint16_t *choices, char *text,
                                   struct np_error *err)
{
    int blocks = r->shape->blocks, count = 0;
    for (const char *word; (word = strsep(&text, " ")); count++) {
        struct np_error why;
        uint64_t candidate;
        if (!np_text_parse_uint64(&candidate, word, 0, NP_MAX_CHOICES))
            return refuse(r, "no candidate: ", word, err);
        if (count < blocks &&
            np_stream_choose(choices, r->shape, count, (int)candidate, &why) != NP_OK)
            return refuse(r, why.msg, NULL, err);
    }
    if (count == blocks)
        return NP_OK;
    return np_fail(err, NP_EINPUT, "%s:%llu: %d candidates, not %d", r->name.s, r->line, count,
                   blocks);
}

static enum np_status read_line(struct reader *r, char *line, struct np_error *err)
{
    struct np_scores *s = r->scores;
    size_t blocks = (size_t)r->shape->blocks;
    const char *loss = strsep(&line, "\t"), *accuracy = strsep(&line, "\t");
    struct np_score score;
    enum np_status status;
    if (!line)
        return refuse(r, "no loss, accuracy and candidates with tabulators between them", NULL,
                      err);
    if (!parse_score(&score.loss, loss) || !parse_score(&score.accuracy, accuracy))
        return refuse(r, "no number: ", parse_score(&score.loss, loss) ? accuracy : loss, err);
    NP_TRY(np_grow(&s->score, &s->score_capacity, s->count, sizeof *s->score, err));
    NP_TRY(np_grow(&s->choices, &s->choice_capacity, s->count, blocks * sizeof *s->choices, err));
    NP_TRY(read_choices(r, s->choices + s->count * blocks, line, err));
    s->score[s->count++] = score;
out:
    return status;
}

static enum np_status read_lines(struct reader *r, struct np_error *err)
{
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    enum np_status status = NP_OK;
    while ((length = np_file_line(&line, &capacity, r->in)) > 0) {
        r->line++;
        if (line[length - 1] == '\n')
            line[--length] = '\0';
        else if (!feof(r->in))
            NP_TRY(refuse(r, "the line is too long", NULL, err));
        if (strlen(line) < (size_t)length)
            NP_TRY(refuse(r, "there is a NUL byte", NULL, err));
        if (length > 0 && line[length - 1] == '\r')
            line[--length] = '\0';
        if (length > 0 && line[0] != '#')
            NP_TRY(read_line(r, line, err));
    }
    if (length < -1)
        status = np_fail_errno(err, "cannot read '%s'", r->name.s);
out:
    free(line);
    return status;
}

enum np_status np_scores_read(struct np_scores *scores, const char *path,
                              const struct np_stream_shape *shape, struct np_error *err)
{
    bool standard = strcmp(path, "-") == 0;
    struct reader r = {.scores = scores,
                       .shape = shape,
                       .name = np_text_safe(standard ? "<stdin>" : path),
                       .in = standard ? stdin : NULL};
    enum np_status status;
    *scores = (struct np_scores){.count = 0};
    if (!standard && !(r.in = fopen(path, "re")))
        NP_TRY(np_fail_errno(err, "cannot open '%s'", r.name.s));
    NP_TRY(read_lines(&r, err));
out:
    if (r.in && !standard)
        fclose(r.in);
    if (status != NP_OK)
        np_scores_clear(scores);
    return status;
}

void np_scores_clear(struct np_scores *scores)
{
    free(scores->score);
    free(scores->choices);
    *scores = (struct np_scores){.count = 0};
}

void np_score_write(FILE *out, struct np_score score, const uint16_t *choices, int blocks)
{
    fprintf(out, "%s\t%s\t", np_text_double(score.loss).s, np_text_double(score.accuracy).s);
    for (int b = 0; b < blocks; b++)
        fprintf(out, b ? " %d" : "%d", choices[b]);
    putc('\n', out);
}
