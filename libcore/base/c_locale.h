/* The "C" locale for a while: printf and strtod follow the thread's, which is the caller's, and may
 * write a comma where files have a point. If the C library cannot give that locale (it can), the
 * thread's own stays. */
#ifndef NP_BASE_C_LOCALE_H
#define NP_BASE_C_LOCALE_H

#include <locale.h>

struct np_c_locale {
    locale_t own, before;
};

static inline struct np_c_locale np_c_locale_enter(void)
{
    struct np_c_locale c = {newlocale(LC_ALL_MASK, "C", (locale_t)0), (locale_t)0};
    c.before = uselocale(c.own);
    return c;
}

static inline void np_c_locale_leave(struct np_c_locale c)
{
    uselocale(c.before);
    if (c.own)
        freelocale(c.own);
}

#endif
