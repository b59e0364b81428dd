// SPDX-License-Identifier: Apache-2.0
#include "rsocket/settings.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "rsocket/flow.h"
#include "rsocket/protocol.h"

namespace verbena::rsocket {
namespace {

constexpr uint32_t kLeastBytes = 2 * kLowWater;
constexpr uint32_t kMostBytes = 64 << 20;
constexpr uint32_t kLeastPlaces = 16;
// Numbers of messages are compared within 16 bits.
constexpr uint32_t kMostPlaces = 0xfffe;

template <typename T>
void read_number(const char* name, T& to) {
  const UniqueFd file(
      ::open((std::string("/etc/rdma/rsocket/") + name).c_str(), O_RDONLY | O_CLOEXEC));
  char text[24] = {};
  if (!file.valid() || ::read(file.get(), text, sizeof text - 1) <= 0) return;
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text, &end, 10);
  if (end != text) to = static_cast<T>(std::min<unsigned long long>(value, UINT32_MAX));
}

[[nodiscard]] Settings read_settings() {
  Settings read;
  uint32_t polling_us = 10;
  uint32_t iomap_entries = 0;
  read_number("mem_default", read.sizes.receive_bytes);
  read_number("wmem_default", read.sizes.send_bytes);
  read_number("sqsize_default", read.sizes.send_places);
  read_number("rqsize_default", read.sizes.receive_places);
  read_number("inline_default", read.sizes.inline_bytes);
  read_number("iomap_size", iomap_entries);
  read_number("polling_time", polling_us);
  read.sizes.iomap_entries = from_scale(to_scale(iomap_entries));
  read.polling_time = std::chrono::microseconds(polling_us);
  return read;
}

}  // namespace

const Settings& settings() {
  static const Settings kRead = read_settings();
  return kRead;
}

Sizes bounded(const Sizes& wanted, uint32_t most_places) {
  Sizes sizes = wanted;
  const uint32_t most = std::clamp(most_places, kLeastPlaces, kMostPlaces);
  sizes.receive_bytes = std::clamp(wanted.receive_bytes, kLeastBytes, kMostBytes) & ~1U;
  sizes.send_bytes = std::clamp(wanted.send_bytes, kLeastBytes, kMostBytes);
  sizes.send_places = std::clamp(wanted.send_places, kLeastPlaces, most);
  sizes.receive_places = std::clamp(wanted.receive_places, kLeastPlaces, most);
  return sizes;
}

}  // namespace verbena::rsocket
