/* SPDX-License-Identifier: Apache-2.0 */
/* A program outside of the source tree, linked as libverbena.pc says. On Verbena's device it makes
 * a region of two pieces; elsewhere it is told that there is no such thing. */
#include <errno.h>
#include <stdio.h>
#include <verbena/indirect.h>

static char memory[64];

static int register_pieces(struct ibv_pd* pd) {
  const struct verbena_indirect_mr_attr attr = {2, VERBENA_INDIRECT_REMOTE_INVALIDATE};
  struct verbena_indirect_mr* mr = verbena_create_indirect_mr(pd, &attr);
  if (mr == NULL) return errno;
  struct ibv_mr* region = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  struct verbena_indirect_list* list = verbena_alloc_indirect_list(2);
  if (region == NULL || list == NULL) return ENOMEM;
  for (int i = 0; i < 2; ++i) {
    list->entries[i].addr = (uintptr_t)&memory[i * 32];
    list->entries[i].length = 6;
    list->entries[i].lkey = region->lkey;
  }
  const struct verbena_indirect_reg reg = {0, list, 2, 12, IBV_ACCESS_LOCAL_WRITE};
  int error = verbena_reg_indirect_mr(mr, &reg);
  verbena_free_indirect_list(list);
  if (error == 0) error = verbena_destroy_indirect_mr(mr);
  if (error == 0) error = ibv_dereg_mr(region);
  return error;
}

int main(void) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  struct ibv_context* device =
      devices != NULL && devices[0] != NULL ? ibv_open_device(devices[0]) : NULL;
  struct ibv_pd* pd = device != NULL ? ibv_alloc_pd(device) : NULL;
  const int error = register_pieces(pd);
  if (error == EOPNOTSUPP) {
    puts("not on this device");
    return 0;
  }
  if (error != 0) return 1;
  printf("registered on %s\n", ibv_get_device_name(devices[0]));
  ibv_dealloc_pd(pd);
  ibv_close_device(device);
  ibv_free_device_list(devices);
  return 0;
}
