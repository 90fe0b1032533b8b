/* What every program and script of the benchmark prints, one line a figure: name, value, unit,
 * ratio and reference with tabs between them. The ratio says how many times as good as the
 * reference the value is (speed, or the part of a limit): above 1 is better, whatever the unit.
 * Both are empty where there is no reference. Lines that begin with '#' are headings. `make bench`
 * shows the lines as a table (tests/bench/table) and collects them in $BUILD/bench.tsv.
 */
#ifndef NP_BENCH_ROW_H
#define NP_BENCH_ROW_H

#include <stdio.h>

/* of: NULL for a figure without a reference. */
static inline void bench_row(const char *name, double value, const char *unit, double ratio,
                             const char *of)
{
    printf("%s\t%.*f\t%s\t", name, value < 10 ? 3 : value < 1000 ? 1 : 0, value, unit);
    if (of)
        printf("%.3f\t%s\n", ratio, of);
    else
        printf("\t\n");
    fflush(stdout);
}

#endif
