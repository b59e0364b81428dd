// SPDX-License-Identifier: Apache-2.0
// Every RoCE frame of a capture is taken apart into values and put together again from them alone;
// the bytes must be the same. Its ICRC must be right with the identification in its header, and
// icrc_solve, which does not look at that, must find the same one.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "golden/checks.h"
#include "wire/describe.h"
#include "wire/encode.h"
#include "wire/icrc.h"
#include "wire/network.h"
#include "wire/packet.h"

namespace verbena::golden {
namespace {

bool is_other_protocol(wire::DissectError error) {
  return error == wire::DissectError::kNotIp || error == wire::DissectError::kNotUdp ||
         error == wire::DissectError::kNotRoce;
}

// The whole frame again, from decoded values and a computed ICRC.
std::vector<uint8_t> rebuild(const wire::Frame& frame, const wire::PacketView& packet) {
  std::vector<uint8_t> transport = wire::encode(wire::decode(packet), packet.payload);
  const uint32_t icrc = wire::icrc(frame.flow, transport);
  transport.resize(transport.size() + wire::kIcrcBytes);
  wire::store_icrc(transport.data() + transport.size() - wire::kIcrcBytes, icrc);

  wire::Frame again = frame;
  again.transport = transport;
  std::vector<uint8_t> bytes(again.bytes());
  wire::write_frame(again, bytes);
  return bytes;
}

std::string first_difference(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  const auto at = std::ranges::mismatch(a, b).in1 - a.begin();
  return "encodes to " + std::to_string(b.size()) + " bytes for " + std::to_string(a.size()) +
         ", different from byte " + std::to_string(at);
}

// True when the frame is a refused one.
bool check_frame(const Capture& capture, const CapturedFrame& captured, const wire::Frame& frame,
                 Report& report) {
  const auto fail = [&](const std::string& what) {
    report.fail(capture.name, captured.number, what);
    return false;
  };
  const auto packet = wire::parse(frame.transport);
  if (!packet) return fail(to_string(packet.error()));
  const std::string words = describe(*packet);
  if (report.show_packets) {
    std::printf("%s %zu: %s > %s %s\n", capture.name.c_str(), captured.number,
                to_string(frame.flow.source).c_str(), to_string(frame.flow.destination).c_str(),
                words.c_str());
  }

  const auto covered = frame.transport.first(frame.transport.size() - wire::kIcrcBytes);
  const bool icrc_right =
      wire::icrc(frame.flow, covered) == wire::load_icrc(covered.data() + covered.size());
  const std::optional<uint16_t> solved = wire::icrc_solve(frame.flow, frame.transport);
  if (!icrc_right) {
    if (!capture.has_corrupt_frame()) return fail("ICRC wrong: " + words);
    if (solved) return fail("ICRC wrong, but a receiver would take it: " + words);
    return true;
  }
  const std::vector<uint8_t> again = rebuild(frame, *packet);
  if (!std::ranges::equal(captured.bytes, again)) {
    return fail(first_difference(captured.bytes, again) + ": " + words);
  }
  const uint16_t id = frame.flow.is_ipv4() ? frame.flow.ipv4_id : 0;
  if (solved != id) {
    return fail("identification " + std::to_string(id) + " solved as " +
                (solved ? std::to_string(*solved) : "none") + ": " + words);
  }
  return false;
}

// What relay.py did to the first frame behind the point of capture: one bit of the last byte before
// the ICRC. True when a receiver would refuse the result, whatever identification it assumes.
bool refuses_when_corrupted(const CapturedFrame& captured) {
  std::vector<uint8_t> bytes(captured.bytes.begin(), captured.bytes.end());
  const auto frame = wire::dissect(bytes);
  if (!frame || frame->transport.size() <= wire::kIcrcBytes) return false;
  const size_t end = frame->header_bytes() + frame->transport.size();
  bytes[end - wire::kIcrcBytes - 1] ^= 1;
  return !wire::icrc_solve(frame->flow, frame->transport);
}

}  // namespace

void check_decode(const Capture& capture, Report& report) {
  size_t roce = 0;
  size_t corrupt = 0;
  for (const CapturedFrame& captured : capture.frames) {
    if (captured.original_bytes > captured.bytes.size()) {
      report.fail(capture.name, captured.number,
                  "cut by the capture (tcpdump -s 0 keeps it whole)");
      continue;
    }
    const auto frame = wire::dissect(captured.bytes);
    if (frame) {
      ++roce;
      if (check_frame(capture, captured, *frame, report)) ++corrupt;
    } else if (is_other_protocol(frame.error())) {
      ++report.other_frames;
    } else {
      report.fail(capture.name, captured.number, to_string(frame.error()));
    }
  }
  // Taken before the fault, the capture shows the frame still whole: do to it what happened then.
  if (capture.has_corrupt_frame() && corrupt == 0 && roce != 0 &&
      refuses_when_corrupted(capture.frames.front())) {
    corrupt = 1;
  }
  report.frames += roce;
  report.corrupt += corrupt;
  if (roce == 0) report.fail(capture.name, 0, "holds no RoCE frame");
  if (capture.has_corrupt_frame() && corrupt != 1) {
    report.fail(capture.name, 0,
                "one frame should be refused as corrupt, not " + std::to_string(corrupt));
  }
}

}  // namespace verbena::golden
