// SPDX-License-Identifier: Apache-2.0
// The ABI of version 1: what programs were compiled with stays where it is. New members come behind
// the last, and then the sizes here are those of the first version, found by its last member.
#include <cstddef>

#include "c_client/fixture.h"

namespace verbena::c_client {
namespace {

#define VERBENA_LAST(type, member, offset_bytes, size_bytes)     \
  static_assert(offsetof(type, member) == (offset_bytes));       \
  static_assert(sizeof(type) >= (size_bytes)); /* it may grow */ \
  static_assert(offsetof(type, size) == 0)
VERBENA_LAST(verbena_options, passive_wait, 54, 56);
VERBENA_LAST(verbena_options, fabric, 56, 64);
VERBENA_LAST(verbena_limits, window, 20, 24);
VERBENA_LAST(verbena_ping, rdma_max_ns, 48, 56);
VERBENA_LAST(verbena_info, name, 64, 1072);
VERBENA_LAST(verbena_clone_options, name, 40, 48);
VERBENA_LAST(verbena_list_options, limit, 40, 48);
VERBENA_LAST(verbena_io_options, crc, 12, 16);
VERBENA_LAST(verbena_transfer, crc, 32, 40);
VERBENA_LAST(verbena_completion, error, 80, 336);
VERBENA_LAST(verbena_request, context, 152, 160);
#undef VERBENA_LAST
// Passed by value.
static_assert(sizeof(verbena_id) == 16);
static_assert(sizeof(verbena_object) == 24 && offsetof(verbena_object, id) == 8);

TEST(CAbi, InitFillsInTheSize) {
  EXPECT_EQ(verbena_options_init().size, sizeof(verbena_options));
  EXPECT_EQ(verbena_request_init().size, sizeof(verbena_request));
  EXPECT_EQ(verbena_request_init().callback, nullptr);
  EXPECT_EQ(verbena_client_version() >> 16, 1U);
}

}  // namespace
}  // namespace verbena::c_client
