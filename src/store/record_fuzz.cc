// SPDX-License-Identifier: Apache-2.0
// Any bytes as records: what decodes encodes to the same bytes, and decodes to the same again.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "store/record.h"
#include "store/record_testing.h"

namespace verbena::store {
namespace {

void take_record(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  std::vector<uint8_t> room(size);
  RecordWriter writer(room);
  RecordReader reader(bytes);
  while (!reader.done()) {
    const size_t before = writer.used();
    const auto record = reader.next();
    if (!record) {
      VERBENA_CHECK(name_of(record.error()) != std::string_view("unknown"));
      return;
    }
    VERBENA_CHECK(write_record(writer, *record));
    const auto written = std::span<const uint8_t>(room).subspan(before, writer.used() - before);
    VERBENA_CHECK(std::ranges::equal(written, bytes.subspan(before, written.size())));
    RecordReader again(written);
    VERBENA_CHECK(again.next() == *record && again.done());
  }
  VERBENA_CHECK(writer.left() == 0);
}

}  // namespace
}  // namespace verbena::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::store::take_record(data, size);
  return 0;
}
