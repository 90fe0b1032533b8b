/* A wire (mpi/wire.h) between ranks that are threads of the test's process. */
#ifndef NP_TEST_THREAD_WIRE_H
#define NP_TEST_THREAD_WIRE_H

#include <stddef.h>

#include "mpi/wire.h"

/* wires[count], one a rank: each is closed by itself, in any order. */
void thread_wires(struct np_wire **wires, int count);
/* Bytes of the longest letter that has been sent by this wire and those made with it. */
size_t thread_wires_longest(struct np_wire *wire);
/* One may be closed as failed, and anything may have been sent in vain. */
void thread_wires_break(struct np_wire *wire);

#endif
