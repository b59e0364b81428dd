// SPDX-License-Identifier: Apache-2.0
#include "sim/shared_words.h"

#include <algorithm>
#include <functional>
#include <map>

namespace verbena::sim {

SharedWords::SharedWords(World& world, uint32_t host)
    : world_(world),
      host_(host),
      region_(world.register_region(host, 16, memory::kLocalWrite | memory::kRemoteAtomic)) {}

SharedWords::Attempt SharedWords::attempt() {
  if (world_.chance(60)) return {};
  return {.swap = true, .compare = last_seen_, .value = next_value_++};
}

void SharedWords::found(const Attempt& attempt, uint64_t original) {
  if (!attempt.swap) {
    handed_out_.push_back(original);
    return;
  }
  const bool success = original == attempt.compare;
  if (success) swapped_.push_back(attempt);
  last_seen_ = success ? attempt.value : original;
}

void SharedWords::lost(const Attempt& attempt) {
  if (attempt.swap) {
    lost_swaps_.push_back(attempt);
  } else {
    ++lost_adds_;
  }
}

void SharedWords::check_counter(uint64_t final_value) const {
  std::vector<uint64_t> values = handed_out_;
  std::ranges::sort(values);
  SIM_REQUIRE(std::ranges::adjacent_find(values) == values.end(),
              "FETCH-ADD on a shared word gave the same value twice");
  SIM_REQUIRE(final_value >= values.size() && final_value <= values.size() + lost_adds_,
              "a shared counter stands at %llu after %zu additions (and %llu unknown)",
              static_cast<unsigned long long>(final_value), values.size(),
              static_cast<unsigned long long>(lost_adds_));
  SIM_REQUIRE(values.empty() || values.back() < final_value,
              "FETCH-ADD gave a value never reached");
}

void SharedWords::check_chain(uint64_t final_value) const {
  std::map<uint64_t, uint64_t> next;
  for (const Attempt& swap : swapped_) {
    SIM_REQUIRE(next.emplace(swap.compare, swap.value).second,
                "two COMPARE-SWAPs both replaced the value %llu of a shared word",
                static_cast<unsigned long long>(swap.compare));
  }
  // A swap that is not known to have happened may fill a hole. Values are unique: there are no
  // circles.
  std::multimap<uint64_t, uint64_t> perhaps;
  for (const Attempt& swap : lost_swaps_) perhaps.emplace(swap.compare, swap.value);
  const std::function<bool(uint64_t, size_t)> leads_to_the_end = [&](uint64_t value, size_t used) {
    for (auto link = next.find(value); link != next.end(); link = next.find(value)) {
      value = link->second;
      ++used;
    }
    if (value == final_value && used == swapped_.size()) return true;
    const auto [first, last] = perhaps.equal_range(value);
    return std::any_of(first, last,
                       [&](const auto& link) { return leads_to_the_end(link.second, used); });
  };
  SIM_REQUIRE(leads_to_the_end(0, 0),
              "the COMPARE-SWAPs of a shared word do not form one chain to %llu",
              static_cast<unsigned long long>(final_value));
}

void SharedWords::check() {
  Arena& arena = world_.arena(host_);
  check_counter(arena.word(counter().offset));
  check_chain(arena.word(chain().offset));
  arena.accept(region_.range);
}

}  // namespace verbena::sim
