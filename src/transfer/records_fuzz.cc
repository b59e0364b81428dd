// SPDX-License-Identifier: Apache-2.0
// Any bytes as a frame in a slot, first as they are, then with its CRC put right. What decodes
// encodes to the same bytes; a receiver takes it, again in the next slot, and its jobs end.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/block_sums.h"
#include "base/check.h"
#include "base/endian.h"
#include "transfer/path.h"
#include "transfer/receiving.h"

namespace verbena::transfer {
namespace {

constexpr ReceiveLimits kFuzzLimits{.chunk_bytes = 4096,
                                    .slots = 2,
                                    .max_file_bytes = 1u << 20,
                                    .max_open = 4,
                                    .max_open_chunks = 512};

[[nodiscard]] bool has_long_path(const Frame& frame) {
  return std::ranges::any_of(frame.records, [](const Record& record) {
    return std::visit(
        []<typename R>(const R& r) {
          if constexpr (requires { r.path; }) return r.path.size() > kMaxPathBytes;
          return false;
        },
        record);
  });
}

void take_frame(std::span<const uint8_t> bytes) {
  const auto frame = decode_frame(bytes);
  if (!frame) {
    VERBENA_CHECK(text_of(frame.error()) != std::string_view("unknown"));
    return;
  }
  if (has_long_path(*frame)) return;  // nobody sends it
  std::vector<uint8_t> again(bytes.size());
  FrameWriter writer(again);
  for (const Record& record : frame->records) VERBENA_CHECK(writer.add(record));
  auto to = writer.data();
  for (const auto data : frame->data) {
    std::ranges::copy(data, to.begin());
    to = to.subspan(data.size());
  }
  const size_t length = writer.finish();
  VERBENA_CHECK(std::ranges::equal(std::span(again).first(length), bytes.first(length)));
}

// All jobs end well, until there are no more.
void finish_jobs(Receiving& machine) {
  for (auto actions = machine.take_actions(); !actions.empty(); actions = machine.take_actions()) {
    for (const auto& action : actions) {
      std::visit(
          [&](const auto& one) {
            if constexpr (requires { one.job; }) machine.on_done(one.job, {});
            if constexpr (requires { one.job, one.path; }) {
              VERBENA_CHECK(wrong_with_path(one.path) == nullptr);
            }
          },
          action);
    }
  }
}

void receive(std::span<const uint8_t> bytes) {
  Receiving machine(kFuzzLimits, {});
  machine.start(1, 2);
  std::vector<uint8_t> slot(machine.slot_bytes());
  std::copy_n(bytes.begin(), std::min(bytes.size(), slot.size()), slot.begin());
  machine.on_frame(0, slot);
  machine.on_frame(1, slot);
  finish_jobs(machine);
  VERBENA_CHECK(machine.jobs() == 0);
}

}  // namespace
}  // namespace verbena::transfer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena;
  using namespace verbena::transfer;
  take_frame({data, size});
  if (size < kFrameHeadBytes) return 0;
  std::vector<uint8_t> frame(data, data + size);
  const size_t fields = std::min<size_t>(load_be32(&frame[4]), size - kFrameHeadBytes);
  const uint32_t head = crc32_msb_update(kCrc32Start, std::span(frame).first(12));
  store_be32(&frame[12], crc32_finish(crc32_msb_update(
                             head, std::span(frame).subspan(kFrameHeadBytes, fields))));
  take_frame(frame);
  receive(frame);
  return 0;
}
