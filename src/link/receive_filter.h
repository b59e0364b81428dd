// SPDX-License-Identifier: Apache-2.0
// The filters there are: faults on what really arrives (the simulator's, from the same seeded
// source), and captures.
#pragma once

#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "link/faults.h"
#include "link/taps.h"

namespace verbena::link {

// Loses, doubles, delays, reorders and corrupts what arrives.
class FaultFilter final : public ReceiveFilter {
 public:
  explicit FaultFilter(FaultSource& faults) : faults_(faults) {}
  void pass(const Datagram& datagram, Time now, DatagramHandler& next) override;
  [[nodiscard]] Time release(Time now, DatagramHandler& next) override;

 private:
  static constexpr size_t kMaxWaiting = 4096;
  struct Waiting {
    Time due;
    Datagram datagram;
    std::vector<uint8_t> bytes;
  };
  FaultSource& faults_;
  std::deque<Waiting> waiting_;
};

// Writes what leaves and what arrives to a pcap file, as Ethernet frames.
class Capture final : public TransmitTap, public ReceiveFilter {
 public:
  // nullptr when the file cannot be written; errno says why.
  [[nodiscard]] static std::unique_ptr<Capture> open(const std::string& path, uint16_t port,
                                                     uint64_t max_frames);
  ~Capture() override;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void on_transmit(const wire::IcrcFlow& flow, const transport::Path& path,
                   std::span<const uint8_t> packet) override;
  void pass(const Datagram& datagram, Time now, DatagramHandler& next) override;
  [[nodiscard]] Time release(Time now, DatagramHandler& next) override;
  [[nodiscard]] uint64_t frames() const { return frames_; }
  // Whether all of them have reached the file; if not, errno says why.
  [[nodiscard]] bool flush();

 private:
  Capture(FILE* file, uint16_t port, uint64_t max_frames);
  void add(const wire::IcrcFlow& flow, uint8_t traffic_class, uint8_t hop_limit,
           std::span<const uint8_t> packet);

  FILE* file_;
  uint16_t port_;
  uint64_t max_frames_;
  uint64_t frames_ = 0;
};

}  // namespace verbena::link
