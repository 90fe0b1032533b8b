/* Scores of subnets as text, a line each: "2.0313	0.4102	0 3 1 2", the loss, the accuracy and the
 * candidates, with tabulators between the three and blanks within the last. As in files of subnets,
 * a line may be empty, begin with # or end with a carriage return.
 *
 * Errors    reading: NP_EINPUT "scores.tsv:7: ..." for what is no such line, or no subnet; a loss
 *           that is no number or not finite is one, as a run that went wrong has it. NP_EIO.
 * Ownership np_scores_clear releases what np_scores_read filled in.
 */
#ifndef NP_RUN_SCORES_H
#define NP_RUN_SCORES_H

#include <stdio.h>

#include "exec/train.h"
#include "space/sampler.h"

struct np_scores {
    size_t count;
    struct np_score *score; /* [count] */
    uint16_t *choices;      /* [count][blocks] */
    size_t score_capacity, choice_capacity;
};

/* Of subnets of the shape, from a file or pipe; "-" is standard input. */
enum np_status np_scores_read(struct np_scores *scores, const char *path,
                              const struct np_stream_shape *shape, struct np_error *err);
void np_scores_clear(struct np_scores *scores);

/* A line, of which nothing is known to be written before `out` is flushed. */
void np_score_write(FILE *out, struct np_score score, const uint16_t *choices, int blocks);

#endif
