// SPDX-License-Identifier: Apache-2.0
// Responses of a hostile peer to an endpoint that has sends, READs and atomics under way.
#include "transport/fuzz_harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::transport::fuzzing;
  Input in(data, size);
  Harness harness(in.u8());
  while (!in.empty()) harness.do_action(in, /*responses=*/true);
  harness.finish();
  return 0;
}
