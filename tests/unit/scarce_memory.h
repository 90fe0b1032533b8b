/* malloc and its kin of the test program that includes this: the one that is `scarce_left` away
 * finds no memory, and what is in use is counted. The library is linked statically, and others ask
 * the program first. Sanitizers have their own. */
#ifndef NP_TEST_SCARCE_MEMORY_H
#define NP_TEST_SCARCE_MEMORY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SCARCE 1

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long scarce_left;   /* calls until one fails; 0: none does */
static bool scarce_failed; /* it has */
static long scarce_blocks; /* in use */

static void *scarce_count(void *block)
{
    if (block)
        scarce_blocks++;
    else
        errno = ENOMEM;
    return block;
}

static bool scarce_fails(void)
{
    if (scarce_left == 0 || --scarce_left > 0)
        return false;
    scarce_failed = true;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t n)
{
    return scarce_fails() ? NULL : scarce_count(__libc_malloc(n));
}

void *calloc(size_t count, size_t n)
{
    return scarce_fails() ? NULL : scarce_count(__libc_calloc(count, n));
}

void *realloc(void *block, size_t n)
{
    void *grown = scarce_fails() ? NULL : __libc_realloc(block, n);
    return block ? grown : scarce_count(grown);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    void *block = scarce_fails() ? NULL : scarce_count(__libc_memalign(align, n));
    if (!block)
        return ENOMEM;
    *out = block;
    return 0;
}

void free(void *block)
{
    if (block)
        scarce_blocks--;
    __libc_free(block);
}
#endif

#endif
