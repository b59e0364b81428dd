// SPDX-License-Identifier: Apache-2.0
#include "members_sim/letters.h"

#include <algorithm>
#include <cstring>

#include "link/steering.h"

namespace verbena::members_sim {
namespace {

constexpr size_t kNumberAt = 8;
constexpr uint64_t kMark = 0x4c45'5454'0000'0000;  // a probe has its key there

}  // namespace

Letters::Bytes Letters::post(const Letter& letter, uint8_t slot) {
  letters_.push_back(letter);
  letters_.back().counted = true;
  on_the_way_[letter.to] += letter.cost;
  Bytes bytes{};
  bytes[link::kSlotByte] = slot;
  const uint64_t number = kMark | letters_.size();
  std::memcpy(bytes.data() + kNumberAt, &number, sizeof number);
  return bytes;
}

Letters::Letter* Letters::find(std::span<const uint8_t> bytes) {
  uint64_t number = 0;
  std::memcpy(&number, bytes.data() + kNumberAt, sizeof number);
  const uint64_t index = number - kMark - 1;
  return index < letters_.size() ? &letters_[index] : nullptr;
}

void Letters::uncount(Letter& letter) {
  if (!letter.counted) return;
  letter.counted = false;
  on_the_way_[letter.to] -= letter.cost;
}

bool Letters::are_on_the_way_from(uint32_t process) const {
  return std::ranges::any_of(letters_, [process](const Letter& letter) {
    return letter.counted && letter.from == process;
  });
}

}  // namespace verbena::members_sim
