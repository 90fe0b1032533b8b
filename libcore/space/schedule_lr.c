#include <math.h>

#include "num/elementary.h"
#include "space/recipe.h"

/* How far from the end of the warm-up (0) to the last step's end (1). */
static double progress(const struct np_recipe *recipe, uint64_t step)
{
    if (step >= recipe->steps)
        return 1.0;
    return (double)(step - recipe->warmup) / (double)(recipe->steps - recipe->warmup);
}

/* Half a period of the cosine, from 1 to 0. */
static double cosine(double x)
{
    return 0.5 * (1.0 + (double)np_cos2pif((float)(0.5 * x)));
}

/* From 1 to what is left in the end, as x goes from 1 to 0. */
static double fall(const struct np_recipe *recipe, double x)
{
    return recipe->final + (1.0 - recipe->final) * x;
}

/* What is left after the milestones up to the step. */
static double left_after(const struct np_recipe *recipe, uint64_t step)
{
    double left = 1.0;
    for (int i = 0; i < recipe->milestone_count && recipe->milestones[i] <= step; i++)
        left *= recipe->gamma;
    return left;
}

/* gamma to the power k, by squares. */
static double power(double gamma, uint64_t k)
{
    double left = 1.0;
    for (; k > 0; k >>= 1, gamma *= gamma)
        if (k & 1)
            left *= gamma;
    return left;
}

float np_recipe_lr(const struct np_recipe *recipe, uint64_t step)
{
    double factor = 1.0, now = (double)(step + 1), warmup = (double)recipe->warmup;
    if (step < recipe->warmup)
        factor = now / warmup;
    else if (recipe->schedule == NP_LR_LINEAR)
        factor = fall(recipe, 1.0 - progress(recipe, step));
    else if (recipe->schedule == NP_LR_COSINE)
        factor = fall(recipe, cosine(progress(recipe, step)));
    else if (recipe->schedule == NP_LR_INVERSE_SQRT)
        factor = sqrt(warmup / now);
    else if (recipe->schedule == NP_LR_MULTISTEP)
        factor = left_after(recipe, step);
    else if (recipe->schedule == NP_LR_STEP)
        factor = power(recipe->gamma, step / recipe->every);
    return (float)(recipe->optimizer.lr * factor);
}
