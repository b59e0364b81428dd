// SPDX-License-Identifier: Apache-2.0
// Requests of a hostile peer, in any order, with everything else that can happen in between.
#include "transport/fuzz_harness.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena::transport::fuzzing;
  Input in(data, size);
  Harness harness(in.u8());
  while (!in.empty()) harness.do_action(in, /*responses=*/false);
  harness.finish();
  return 0;
}
