// SPDX-License-Identifier: Apache-2.0
// What the simulator's own programs did: a long run must have played each scene, as it must have
// reached each counter of the transport.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena::sim {

enum class Scene : uint8_t {
  kDrain,
  kBreak,
  kSrqLimit,
  kWindowBound,
  kWindowUsed,
  kRemoteInvalidate,
  kFence,
  kInline,
  kZeroLength,
  kSharedAtomic,
  kLongMessage,
  kUcDelivered,
  kUdDelivered,
  kCount,
};
inline constexpr size_t kScenes = static_cast<size_t>(Scene::kCount);

inline constexpr std::array<const char*, kScenes> kSceneText = {
    "send queues drained and resumed",
    "connections broken off and made again",
    "SRQ limit events",
    "memory windows bound",
    "requests through a window",
    "windows invalidated by the peer",
    "fenced requests",
    "inline requests",
    "requests of length zero",
    "atomics on words that connections share",
    "messages of more than 32 packets",
    "UC messages delivered",
    "datagrams delivered",
};

class Scenes {
 public:
  void add(Scene scene, uint64_t n = 1) { values_[static_cast<size_t>(scene)] += n; }
  [[nodiscard]] uint64_t at(size_t i) const { return values_[i]; }

 private:
  std::array<uint64_t, kScenes> values_{};
};

}  // namespace verbena::sim
