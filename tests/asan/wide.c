/* The address sanitizer's checks of whole vectors. Its library's own go through a region byte by
 * byte, three fifths of what sanitized training took; here eight bytes of shadow are looked at at
 * once, and the library is asked, and reports, where they are not all zero. The linker puts these
 * in the place of the library's (--wrap). */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

void __asan_get_shadow_mapping(size_t *scale, size_t *offset);
void *__asan_region_is_poisoned(void *begin, size_t size);
void __asan_report_load_n(uintptr_t address, size_t size);
void __asan_report_store_n(uintptr_t address, size_t size);

void __wrap___asan_loadN(uintptr_t address, size_t size);
void __wrap___asan_storeN(uintptr_t address, size_t size);

static size_t scale, shadow;

__attribute__((constructor)) static void find_shadow(void)
{
    __asan_get_shadow_mapping(&scale, &shadow);
}

static bool poisoned(uintptr_t address, size_t size)
{
    const uintptr_t first = address >> scale, last = (address + size - 1) >> scale;
    if (last - first < sizeof(uint64_t)) {
        uint64_t bytes;
        memcpy(&bytes, (const void *)(first + shadow), sizeof bytes);
        if (!(bytes << 8 * (sizeof bytes - 1 - (last - first))))
            return false;
    }
    return __asan_region_is_poisoned((void *)address, size) != NULL;
}

void __wrap___asan_loadN(uintptr_t address, size_t size)
{
    if (poisoned(address, size))
        __asan_report_load_n(address, size);
}

void __wrap___asan_storeN(uintptr_t address, size_t size)
{
    if (poisoned(address, size))
        __asan_report_store_n(address, size);
}
