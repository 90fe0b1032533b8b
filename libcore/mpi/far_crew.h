/* Crews of ranks and their stamps: entries of the table in num/device.h, which has their contracts.
 * Private to mpi/. */
#ifndef NP_MPI_FAR_CREW_H
#define NP_MPI_FAR_CREW_H

#include "mpi/post.h"
#include "num/link.h"

enum np_status np_far_crew_new(struct np_crew **out, const struct np_device *device,
                               const struct np_crew_config *config, struct np_error *err);
void np_far_crew_free(struct np_crew *base);
void np_far_crew_run(struct np_crew *base, void (*function)(struct np_team *team, void *argument),
                     void *argument);
void *np_far_crew_fill(struct np_crew *base, void *to, size_t bytes);
void np_far_crew_send(struct np_crew *base, void *to, const void *from, size_t bytes);
void *np_far_crew_reply(struct np_crew *base, void *to, size_t bytes);
void np_far_crew_watch(struct np_crew *base, bool *finite);
uint64_t np_far_crew_mark(struct np_crew *base, struct np_stamp *stamp);
bool np_far_crew_reached(struct np_crew *base, uint64_t mark);
enum np_status np_far_crew_await(struct np_crew *base, uint64_t mark, struct np_error *err);
enum np_status np_far_stamp_new(struct np_stamp **out, struct np_crew *base, struct np_error *err);
void np_far_stamp_free(struct np_stamp *stamp, struct np_crew *base);
void np_far_crew_stamp(struct np_crew *base, struct np_stamp *stamp);
void np_far_crew_after(struct np_crew *base, struct np_stamp *stamp);
enum np_status np_far_stamp_await(struct np_crew *base, struct np_stamp *stamp,
                                  struct np_error *err);

/* Parts from rank `from` to another: the crew is of one of both. */
enum np_status np_far_crew_carry(struct np_crew *base, int from, int to,
                                 const struct np_link_part *parts, int count, struct np_error *err);

#endif
