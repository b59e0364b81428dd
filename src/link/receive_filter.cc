// SPDX-License-Identifier: Apache-2.0
#include "link/receive_filter.h"

#include <algorithm>

#include "link/clock.h"
#include "wire/icrc.h"
#include "wire/network.h"
#include "wire/pcap.h"

namespace verbena::link {

void FaultFilter::pass(const Datagram& datagram, Time now, DatagramHandler& next) {
  const Fate fate = faults_.judge(datagram.bytes);
  for (uint32_t i = 0; i < fate.copies; ++i) {
    const Fate::Copy& copy = fate.copy[i];
    if (copy.wait == 0 && !copy.corrupted) {
      next.on_datagram(datagram);
      continue;
    }
    if (waiting_.size() >= kMaxWaiting) continue;  // lost, then
    Waiting entry{now + copy.wait, datagram, {datagram.bytes.begin(), datagram.bytes.end()}};
    if (copy.corrupted) faults_.corrupt(entry.bytes);
    if (copy.wait == 0) {
      entry.datagram.bytes = entry.bytes;
      next.on_datagram(entry.datagram);
    } else {
      waiting_.push_back(std::move(entry));
    }
  }
}

Time FaultFilter::release(Time now, DatagramHandler& next) {
  Time soonest = kNever;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    if (it->due > now) {
      soonest = std::min(soonest, it->due);
      ++it;
      continue;
    }
    Waiting entry = std::move(*it);
    it = waiting_.erase(it);
    entry.datagram.bytes = entry.bytes;
    next.on_datagram(entry.datagram);
  }
  return soonest;
}

std::unique_ptr<Capture> Capture::open(const std::string& path, uint16_t port,
                                       uint64_t max_frames) {
  FILE* const file = std::fopen(path.c_str(), "we");
  if (file == nullptr) return nullptr;
  return std::unique_ptr<Capture>(new Capture(file, port, max_frames));
}

Capture::Capture(FILE* file, uint16_t port, uint64_t max_frames)
    : file_(file), port_(port), max_frames_(max_frames) {
  std::vector<uint8_t> header;
  const wire::PcapWriter writer(header);
  (void)std::fwrite(header.data(), 1, header.size(), file_);
}

Capture::~Capture() { std::fclose(file_); }

void Capture::add(const wire::IcrcFlow& flow, uint8_t traffic_class, uint8_t hop_limit,
                  std::span<const uint8_t> packet) {
  if (frames_ >= max_frames_) return;
  ++frames_;
  std::vector<uint8_t> bytes;
  wire::PcapWriter writer(bytes);
  bytes.clear();  // the file has its header
  writer.add(wall_now(), wire::build_frame_as_is(flow, hop_limit, traffic_class, packet));
  (void)std::fwrite(bytes.data(), 1, bytes.size(), file_);
}

void Capture::on_transmit(const wire::IcrcFlow& flow, const transport::Path& path,
                          std::span<const uint8_t> packet) {
  add(flow, path.class_sent(), path.hops(), packet);
}

void Capture::pass(const Datagram& datagram, Time /*now*/, DatagramHandler& next) {
  wire::IcrcFlow flow{.source = datagram.source,
                      .destination = datagram.destination,
                      .source_port = datagram.source_port,
                      .destination_port = port_};
  // The socket does not show the IPv4 identification; the ICRC tells it.
  flow.ipv4_id = wire::icrc_solve(flow, datagram.bytes).value_or(0);
  add(flow, datagram.traffic_class, datagram.hop_limit, datagram.bytes);
  next.on_datagram(datagram);
}

bool Capture::flush() { return std::fflush(file_) == 0 && std::ferror(file_) == 0; }

Time Capture::release(Time /*now*/, DatagramHandler& /*next*/) { return kNever; }

}  // namespace verbena::link
