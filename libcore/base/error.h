/* Errors: one idiom for the whole library.
 *
 * A function that can fail returns enum np_status and takes a struct np_error as its last argument.
 * Whoever sees the failure first writes the message, once, with np_fail(); callers forward it with
 * NP_TRY(). A message is one line: lower case, no full stop, the subject quoted, the place first
 * ("recipe.yaml:14:9: unknown op 'mah' (did you mean 'mha'?)").
 *
 * Errors:    `err` is untouched on success and may be NULL.
 * Ownership: the caller's stack.
 * Threads:   every thread uses its own struct np_error.
 */
#ifndef NP_BASE_ERROR_H
#define NP_BASE_ERROR_H

enum np_status {
    NP_OK = 0,
    NP_ENO,    /* done, and the answer is no: bits differ, does not fit, not the expected digest */
    NP_EINPUT, /* the user's input is wrong: a file, an option, a stream */
    NP_EIO,    /* the system refused: open, read, write, fsync, thread */
    NP_EMEM,   /* out of memory, or a size that overflows */
    NP_EDATA,  /* stored bytes are damaged: truncated, wrong digest */
    NP_ENAN,   /* a loss or gradient is not finite */
    NP_ESTOP   /* stopped on request */
};

struct np_error {
    enum np_status code;
    char msg[512];
};

/* Writes the message (printf style) into err if it is not NULL; returns code. */
enum np_status np_fail(struct np_error *err, enum np_status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As np_fail, and appends ": <strerror(errno)>"; the code is NP_EMEM for ENOMEM, else NP_EIO. */
enum np_status np_fail_errno(struct np_error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Forwards a failure to the one `out:` label; needs `enum np_status status` in scope. */
#define NP_TRY(call)                                                                               \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != NP_OK)                                                                       \
            goto out;                                                                              \
    } while (0)

#endif
