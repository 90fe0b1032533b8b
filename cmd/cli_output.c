/* Files that options write, complete or not at all, and what is written as it comes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cli.h"
#include "run/directory.h"

/* Whether a path names what is written into, a pipe or a device: a file in its place would be the
 * end of /dev/null. */
static bool is_written_into(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
}

/* Begins the file to replace, or to make: what a link leads to, not the link. */
static enum np_status begin_file(struct cli_output *out, const char *path, struct np_error *err)
{
    struct stat there;
    bool link = lstat(path, &there) == 0 && S_ISLNK(there.st_mode);
    char *target = link ? np_file_target(path) : NULL;
    enum np_status status;
    if (link && !target)
        return np_fail_errno(err, "cannot create '%s'", np_text_safe(path).s);
    status = np_file_out_init(&out->file, target ? target : path, err);
    free(target);
    return status;
}

static enum np_status not_written(const struct cli_output *out, struct np_error *err)
{
    if (out->into == stdout)
        return np_fail_errno(err, "cannot write standard output");
    return np_fail_errno(err, "cannot write '%s'", np_text_safe(out->path).s);
}

enum np_status cli_output_open(struct cli_output *out, const char *path, struct np_error *err)
{
    struct stat there;
    enum np_status status;
    *out = (struct cli_output){.path = path};
    if (!path || cli_is_standard(path)) {
        out->into = stdout;
        return NP_OK;
    }
    if (is_written_into(path)) {
        out->into = fopen(path, "we");
        return out->into ? NP_OK : np_fail_errno(err, "cannot open '%s'", np_text_safe(path).s);
    }
    status = begin_file(out, path, err);
    if (status != NP_OK || stat(path, &there) != 0 || !S_ISDIR(there.st_mode))
        return status;
    np_file_out_abort(&out->file);
    errno = EISDIR;
    return not_written(out, err);
}

enum np_status cli_output_write(struct cli_output *out, const void *bytes, size_t n,
                                struct np_error *err)
{
    if (!out->into)
        return np_file_out_write(&out->file, bytes, n, err);
    return fwrite(bytes, 1, n, out->into) == n ? NP_OK : not_written(out, err);
}

enum np_status cli_output_close(struct cli_output *out, struct np_error *err)
{
    FILE *into = out->into;
    if (!into)
        return np_file_out_commit(&out->file, err);
    if (into == stdout) /* cli_finish closes it */
        return NP_OK;
    out->into = NULL;
    return fclose(into) == 0 ? NP_OK : not_written(out, err);
}

void cli_output_abort(struct cli_output *out)
{
    np_file_out_abort(&out->file);
    if (out->into && out->into != stdout)
        fclose(out->into);
    *out = (struct cli_output){.path = NULL};
}

enum np_status cli_write(const char *path, const char *text, size_t bytes, struct np_error *err)
{
    struct cli_output out;
    enum np_status status;
    NP_TRY(cli_output_open(&out, path, err));
    NP_TRY(cli_output_write(&out, text, bytes, err));
    NP_TRY(cli_output_close(&out, err));
out:
    cli_output_abort(&out);
    return status;
}

enum np_status cli_spares_run(const char *run, const char *option, const char *path,
                              struct np_error *err)
{
    if (!path || !np_run_dir_keeps(run, path))
        return NP_OK;
    return np_fail(err, NP_EINPUT, "--%s '%s' would overwrite what the run keeps there", option,
                   np_text_safe(path).s);
}

enum np_status cli_can_write(const char *path, struct np_error *err)
{
    struct cli_output out = {.path = path};
    enum np_status status = NP_OK;
    if (!cli_is_standard(path) && !is_written_into(path))
        status = cli_output_open(&out, path, err);
    cli_output_abort(&out);
    return status;
}
