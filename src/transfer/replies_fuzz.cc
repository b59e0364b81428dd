// SPDX-License-Identifier: Apache-2.0
// Any bytes as replies, each behind its length in two bytes: what decodes encodes to the same
// bytes, and a sender with two files takes all of them, whatever they say. Each input also is one
// announcement of either end, and one message of plain mode.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/fuzz_input.h"
#include "transfer/announcement.h"
#include "transfer/plain.h"
#include "transfer/sending.h"

namespace verbena::transfer {
namespace {

void take_reply(std::span<const uint8_t> bytes) {
  const auto reply = decode_reply(bytes);
  if (!reply) {
    VERBENA_CHECK(text_of(reply.error()) != std::string_view("unknown"));
    return;
  }
  if (bytes.size() > kMaxReplyBytes) return;  // no message is longer
  VERBENA_CHECK(std::ranges::equal(encode(*reply), bytes));
}

// Fills and writes as it is told to.
void obey(Sending& machine) {
  for (auto actions = machine.take_actions(); !actions.empty(); actions = machine.take_actions()) {
    for (const auto& action : actions) {
      if (const auto* const small = std::get_if<FillSmall>(&action)) {
        machine.on_filled(small->slot, {.length = 100});
      } else if (const auto* const chunk = std::get_if<FillChunk>(&action)) {
        const bool there = chunk->there == 0U;
        using What = Filled::What;
        machine.on_filled(chunk->slot, {.what = there ? What::kThere : What::kData, .length = 100});
      } else if (const auto* const post = std::get_if<Post>(&action)) {
        VERBENA_CHECK(post->slot < machine.slots());
        machine.on_sent(post->slot);
      }
    }
  }
}

void take_announcement(std::span<const uint8_t> bytes) {
  if (const auto greeting = decode_greeting(bytes)) {
    const auto again = encode(*greeting);
    VERBENA_CHECK(again.size() <= bytes.size() &&
                  std::ranges::equal(again, bytes.first(again.size())));
  }
  if (const auto welcome = decode_welcome(bytes)) {
    const auto again = encode(*welcome);
    VERBENA_CHECK(again.size() <= bytes.size() &&
                  std::ranges::equal(again, bytes.first(again.size())));
  }
}

void take_plain(std::span<const uint8_t> bytes) {
  PlainSending machine("name");
  machine.on_message(bytes);
  machine.on_message(bytes);
  VERBENA_CHECK(!machine.take_actions().empty());
}

}  // namespace
}  // namespace verbena::transfer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace verbena;
  using namespace verbena::transfer;
  take_announcement({data, size});
  take_plain({data, size});
  FuzzInput input(data, size);
  Sending machine({.small_bytes = 100}, {});
  machine.add({.path = "small", .size = 50});
  machine.add({.path = "large", .size = 20'000});
  machine.no_more();
  while (!input.empty()) {
    const auto reply = input.bytes(input.u16());
    take_reply(reply);
    machine.on_reply(reply);
    obey(machine);
  }
  return 0;
}
