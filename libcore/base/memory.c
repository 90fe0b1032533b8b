#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* out_pointer is the address of any object pointer; memcpy keeps the aliasing rules. */
static void store(void *out_pointer, void *value)
{
    memcpy(out_pointer, &value, sizeof value);
}

static enum np_status too_much(struct np_error *err, size_t count, size_t size)
{
    return np_fail(err, NP_EMEM, "cannot allocate %zu x %zu bytes", count, size);
}

void np_want_huge_pages(void *block, size_t bytes)
{
    madvise(block, bytes, MADV_HUGEPAGE);
}

enum np_status np_alloc(void *out_pointer, size_t count, size_t size, struct np_error *err)
{
    size_t bytes, align;
    void *p;
    if (!np_mul_size(&bytes, count, size) || !np_add_size(&bytes, bytes, NP_ALIGN))
        return too_much(err, count, size);
    align = bytes < NP_HUGE_PAGE ? NP_ALIGN : NP_HUGE_PAGE;
    if (posix_memalign(&p, align, bytes))
        return too_much(err, count, size);
    if (align == NP_HUGE_PAGE)
        np_want_huge_pages(p, bytes);
    store(out_pointer, p);
    return NP_OK;
}

enum np_status np_zalloc(void *out_pointer, size_t count, size_t size, struct np_error *err)
{
    size_t bytes;
    void *p;
    if (!np_mul_size(&bytes, count, size))
        return too_much(err, count, size);
    p = calloc(bytes ? bytes : 1, 1);
    if (!p)
        return too_much(err, count, size);
    store(out_pointer, p);
    return NP_OK;
}

enum np_status np_grow(void *array, size_t *capacity, size_t used, size_t size,
                       struct np_error *err)
{
    size_t wanted, bytes;
    void *old, *grown;
    if (used < *capacity)
        return NP_OK;
    if (!np_mul_size(&wanted, *capacity ? *capacity : 8, 2) || !np_mul_size(&bytes, wanted, size))
        return too_much(err, *capacity, size);
    memcpy(&old, array, sizeof old);
    grown = realloc(old, bytes);
    if (!grown)
        return too_much(err, wanted, size);
    store(array, grown);
    *capacity = wanted;
    return NP_OK;
}

enum np_status np_strdup(char **out, const char *text, struct np_error *err)
{
    size_t length = strlen(text) + 1;
    char *copy = malloc(length);
    if (!copy)
        return too_much(err, length, 1);
    memcpy(copy, text, length);
    *out = copy;
    return NP_OK;
}
