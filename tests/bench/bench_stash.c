/* Bandwidth of the stash: `bench_stash [DIRECTORY [MIB]]`, rows as in row.h. Records of 8 MiB, MIB
 * (256) of them in all, in memory and in a scratch file in DIRECTORY (where this program lies).
 *
 * Beside it, in the same run: for memory a plain copy; for the file direct reads and writes of
 * 8 MiB, one at a time, in another file of that directory. Best of several rounds, after one in
 * which the file system finds the room.
 */
#define _GNU_SOURCE /* O_DIRECT */
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/stash_parts.h"
#include "row.h"
#include "timing.h"

#define RECORD ((size_t)8 << 20)
#define ROUNDS 4
#define MAX_RECORDS 4096

static char *data;
static size_t records = 32;

/* Moves one record. */
typedef bool bench_move(void *arg, size_t record, bool write);

static bool move_copy(void *arg, size_t record, bool write)
{
    char *copies = arg, *copy = copies + record * RECORD;
    memcpy(write ? copy : data, write ? data : copy, RECORD);
    return true;
}

static bool move_plain(void *arg, size_t record, bool write)
{
    off_t offset = (off_t)(record * RECORD);
    ssize_t n = write ? pwrite(*(int *)arg, data, RECORD, offset)
                      : pread(*(int *)arg, data, RECORD, offset);
    return n == (ssize_t)RECORD;
}

static bool move_stash(void *arg, size_t record, bool write)
{
    return (write ? np_stash_put(arg, record, data, NULL)
                  : np_stash_get_part(arg, record, 0, data, RECORD, NULL)) == NP_OK;
}

/* GB/s of a pass over all records; 0 if one failed. */
static double pass(bench_move *move, void *arg, bool write)
{
    double begin = bench_seconds(2);
    for (size_t i = 0; i < records; i++)
        if (!move(arg, i, write))
            return 0;
    return 1e-9 * (double)(records * RECORD) / (bench_seconds(2) - begin);
}

/* The stash beside its limit, by turns. */
static int compare(struct np_stash *stash, bench_move *move, void *arg, const char *limit)
{
    double best[2][2] = {{0}}; /* limit and stash; read and write */
    for (int round = 0; round < ROUNDS; round++)
        for (int write = 1; write >= 0; write--)
            for (int which = 0; which < 2; which++) {
                double speed = which ? pass(move_stash, stash, write) : pass(move, arg, write);
                if (speed <= 0)
                    return 2;
                if (round > 0 && speed > best[which][write])
                    best[which][write] = speed;
            }
    for (int write = 1; write >= 0; write--) {
        char name[80];
        snprintf(name, sizeof name, "stash, %s, %s", write ? "put" : "get", np_stash_means(stash));
        bench_row(name, best[1][write], "GB/s", best[1][write] / best[0][write], limit);
    }
    return 0;
}

static struct np_stash *new_stash(const char *path, struct np_stash_ways ways)
{
    static uint64_t bytes[MAX_RECORDS];
    struct np_stash *stash = NULL;
    struct np_error err;
    for (size_t i = 0; i < records; i++)
        bytes[i] = RECORD;
    if (np_stash_new_ways(&stash, &np_device_host, path, bytes, records, ways, &err) != NP_OK)
        fprintf(stderr, "bench_stash: error: %s\n", err.msg);
    return stash;
}

static int bench_memory(void)
{
    struct np_stash *stash = new_stash(NULL, (struct np_stash_ways){0});
    char *copies = aligned_alloc(NP_STASH_ALIGN, records * RECORD);
    int result = 2;
    if (stash && copies)
        result = compare(stash, move_copy, copies, "memcpy");
    np_stash_free(stash);
    free(copies);
    return result;
}

static int bench_file(const char *directory, struct np_stash_ways ways)
{
    char path[4096], other[4096];
    struct np_stash *stash;
    int fd, result = 2;
    snprintf(path, sizeof path, "%s/bench_stash.%ld", directory, (long)getpid());
    snprintf(other, sizeof other, "%s/bench_plain.%ld", directory, (long)getpid());
    stash = new_stash(path, ways);
    fd = open(other, O_RDWR | O_CREAT | O_EXCL | O_DIRECT, 0600);
    unlink(other);
    if (stash && fd >= 0)
        result = compare(stash, move_plain, &fd, "direct, one request at a time");
    else
        fprintf(stderr, "bench_stash: no direct I/O in '%s'\n", directory);
    if (fd >= 0)
        close(fd);
    np_stash_free(stash);
    return result;
}

int main(int argc, char **argv)
{
    const char *directory = argc > 1 ? argv[1] : dirname(argv[0]);
    int result = 0;
    records = argc > 2 ? strtoul(argv[2], NULL, 10) * ((size_t)1 << 20) / RECORD : records;
    data = aligned_alloc(NP_STASH_ALIGN, RECORD);
    if (!data || records < 1 || records > MAX_RECORDS) {
        fprintf(stderr, "usage: bench_stash [DIRECTORY [MIB]]\n");
        return 2;
    }
    memset(data, 0x5a, RECORD);
    result |= bench_memory();
    result |= bench_file(directory, (struct np_stash_ways){true, true});
    result |= bench_file(directory, (struct np_stash_ways){true, false});
    result |= bench_file(directory, (struct np_stash_ways){false, false});
    free(data);
    return result;
}
