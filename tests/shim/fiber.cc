#include "fiber.h"

#include <stdint.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#else
static void __sanitizer_start_switch_fiber(void **, const void *, size_t)
{
}
static void __sanitizer_finish_switch_fiber(void *, const void **, size_t *)
{
}
#endif

/* Keeps where the caller is at *from, and goes on where `to` was left. */
#if defined(__x86_64__)
extern "C" void fiber_switch(void **from, void *to);
enum { SAVED = 6 }; /* registers that a call preserves */
asm(".text\n.globl fiber_switch\n.type fiber_switch,@function\nfiber_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size fiber_switch,.-fiber_switch\n.section .note.GNU-stack,\"\",@progbits\n.text\n");

/* The function's address is where the switch returns to; above it the stack is aligned as after a
 * call. */
static void prepare(struct fiber *f, void (*function)(void))
{
    uintptr_t *top = (uintptr_t *)((char *)f->stack + FIBER_STACK) - 2;
    *top = (uintptr_t)function;
    top[1] = 0;
    f->place = top - SAVED;
}
#else
#include <ucontext.h>

/* The slower way, for other machines: the context is at the stack's end. */
static void prepare(struct fiber *f, void (*function)(void))
{
    size_t room = FIBER_STACK - (sizeof(ucontext_t) + 63) / 64 * 64;
    ucontext_t *context = (ucontext_t *)((char *)f->stack + room);
    getcontext(context);
    context->uc_stack.ss_sp = f->stack;
    context->uc_stack.ss_size = room;
    context->uc_link = nullptr;
    makecontext(context, function, 0);
    f->place = context;
}

static void fiber_switch(void **from, void *to)
{
    static ucontext_t home;
    ucontext_t *here = *from ? (ucontext_t *)*from : &home;
    *from = here;
    swapcontext(here, (ucontext_t *)to);
}
#endif

void fiber_init(struct fiber *f, void (*function)(void))
{
    f->fake = nullptr;
    prepare(f, function);
}

void fiber_run(struct fiber_home *home, struct fiber *f)
{
    home->now = f;
    __sanitizer_start_switch_fiber(&home->fake, f->stack, FIBER_STACK);
    fiber_switch(&home->place, f->place);
    __sanitizer_finish_switch_fiber(home->fake, nullptr, nullptr);
}

void fiber_entered(struct fiber_home *home)
{
    __sanitizer_finish_switch_fiber(nullptr, &home->stack, &home->stack_bytes);
}

void fiber_yield(struct fiber_home *home, bool last)
{
    struct fiber *f = home->now;
    __sanitizer_start_switch_fiber(last ? nullptr : &f->fake, home->stack, home->stack_bytes);
    fiber_switch(&f->place, home->place);
    __sanitizer_finish_switch_fiber(f->fake, &home->stack, &home->stack_bytes);
}
