#include "run/log_file.h"

#include <stdlib.h>
#include <unistd.h>

#include "io/file.h"

enum np_status np_log_open(struct np_log *log, const char *run, const char *name, long end,
                           bool make, struct np_error *err)
{
    bool there;
    enum np_status status;
    NP_TRY(np_file_join(&log->path, run, name, err));
    NP_TRY(np_file_exists(&there, log->path, err));
    if (!there && !make)
        return NP_OK;
    if (there) {
        NP_TRY(np_file_own(log->path, err));
        NP_TRY(np_file_open(&log->stream, log->path, true, err));
    } else if (!(log->stream = fopen(log->path, "w+x"))) {
        status = np_fail_errno(err, "cannot create '%s'", log->path);
        goto out;
    } else {
        NP_TRY(np_file_sync_dir(run, err));
    }
    if (fseek(log->stream, end, SEEK_SET) != 0 || ftruncate(fileno(log->stream), end) != 0)
        status = np_fail_errno(err, "cannot cut '%s'", log->path);
out:
    return status;
}

enum np_status np_log_check(const struct np_log *log, struct np_error *err)
{
    return ferror(log->stream) ? np_fail_errno(err, "cannot write '%s'", log->path) : NP_OK;
}

enum np_status np_log_sync(const struct np_log *log, struct np_error *err)
{
    if (!log->stream)
        return NP_OK;
    if (fflush(log->stream) != 0 || np_file_sync(fileno(log->stream)) != 0)
        return np_fail_errno(err, "cannot write '%s'", log->path);
    return NP_OK;
}

void np_log_close(struct np_log *log)
{
    if (log->stream)
        fclose(log->stream);
    free(log->path);
    *log = (struct np_log){NULL, NULL};
}
