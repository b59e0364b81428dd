/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Indirect memory registration: an arbitrary list of buffers, of any length and alignment and from
 * any number of regions, as one memory region. verbena-indirect(3).
 *
 * Link with -lverbena, and with whichever libibverbs is there: on a device that is not Verbena's
 * every call says EOPNOTSUPP.
 *
 * A region is made free and cannot be used. Registered, at once or by a work request, it is the
 * bytes of its list one after the other. IBV_WR_LOCAL_INV (and from the peer, if it was made so,
 * IBV_WR_SEND_WITH_INV) makes it free again. The entries' own regions are checked at every use.
 */
#ifndef VERBENA_INDIRECT_H
#define VERBENA_INDIRECT_H

#include <infiniband/verbs.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(readability-identifier-naming): names as C has them. */

/* A list of buffers, filled in by the program; what is registered is copied from it. */
struct verbena_indirect_list {
  struct ibv_sge* entries;
  uint32_t max_entries;
};

/* NULL and errno: EINVAL for no entries, ENOMEM. */
struct verbena_indirect_list* verbena_alloc_indirect_list(uint32_t max_entries);
void verbena_free_indirect_list(struct verbena_indirect_list* list);

enum verbena_indirect_mr_flags {
  VERBENA_INDIRECT_REMOTE_INVALIDATE = 1 << 0, /* a peer may make it free */
};

struct verbena_indirect_mr_attr {
  uint32_t max_entries; /* of the lists that it will be registered with */
  uint32_t flags;
};

struct verbena_indirect_mr {
  uint32_t lkey;
  uint32_t rkey;
};

/* NULL and errno. The protection domain outlives it, and those of the entries are the same. */
struct verbena_indirect_mr* verbena_create_indirect_mr(struct ibv_pd* pd,
                                                       const struct verbena_indirect_mr_attr* attr);
/* 0 or an errno, as the following. */
int verbena_destroy_indirect_mr(struct verbena_indirect_mr* mr);

/* The region's address range [iova_start, iova_start + length) becomes the first `length` bytes of
 * the first `list_len` entries. */
struct verbena_indirect_reg {
  uint64_t iova_start;
  const struct verbena_indirect_list* list;
  uint32_t list_len;
  uint64_t length;
  unsigned int
      access_flags; /* IBV_ACCESS_LOCAL_WRITE, _REMOTE_WRITE, _REMOTE_READ, _REMOTE_ATOMIC */
};

/* At once. EINVAL: a length that the list does not have, unknown access; ENOMEM: too long a list.
 */
int verbena_reg_indirect_mr(struct verbena_indirect_mr* mr, const struct verbena_indirect_reg* reg);

/* By a work request, in order with the queue pair's others: those that are posted after it see it.
 * Completes with IBV_WC_DRIVER1. `list` may be used again when the call returns. */
struct verbena_indirect_reg_wr {
  uint64_t wr_id;
  unsigned int send_flags; /* IBV_SEND_SIGNALED, IBV_SEND_FENCE, IBV_SEND_SOLICITED */
  struct verbena_indirect_mr* mr;
  struct verbena_indirect_reg reg;
};
int verbena_post_reg_indirect_mr(struct ibv_qp* qp, const struct verbena_indirect_reg_wr* wr);

/* NOLINTEND(readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
