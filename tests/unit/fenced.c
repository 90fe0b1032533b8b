#include "fenced.h"

#include <check.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

/* A page for this, a page of the fence, the floats' own, a page of the fence. */
struct fenced {
    size_t pages, bytes;
};

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

float *fenced(size_t count, bool behind)
{
    const size_t page = page_bytes(), size = count * sizeof(float);
    const size_t inside = (size > 0 ? size + page - 1 : page) / page * page;
    const struct fenced f = {.pages = inside, .bytes = inside + 3 * page};
    char *all = mmap(NULL, f.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(all, MAP_FAILED);
    *(struct fenced *)(void *)all = f;
    ck_assert_int_eq(mprotect(all + page, page, PROT_NONE), 0);
    ck_assert_int_eq(mprotect(all + 2 * page + inside, page, PROT_NONE), 0);
    return (float *)(void *)(all + 2 * page + (behind && size > 0 ? inside - size : 0));
}

float *fenced_pages(float *x, size_t *count)
{
    const size_t page = page_bytes();
    char *first = (char *)((uintptr_t)x / page * page);
    *count = ((struct fenced *)(void *)(first - 2 * page))->pages / sizeof(float);
    return (float *)(void *)first;
}

void fenced_free(float *x)
{
    size_t count;
    char *all = (char *)fenced_pages(x, &count) - 2 * page_bytes();
    ck_assert_int_eq(munmap(all, ((struct fenced *)(void *)all)->bytes), 0);
}
