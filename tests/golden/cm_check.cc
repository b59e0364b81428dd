// SPDX-License-Identifier: Apache-2.0
// Every message of connection management in a capture is taken apart and put together again; the
// bytes must be the same. A capture named cm-* holds some.
#include <algorithm>
#include <cstdio>

#include "cm/mad.h"
#include "golden/checks.h"
#include "wire/network.h"
#include "wire/packet.h"

namespace verbena::golden {
namespace {

constexpr uint32_t kGsiQkey = 0x80010000;

void check_mad(const Capture& capture, size_t number, const wire::PacketView& packet,
               Report& report) {
  if (packet.deth().qkey != kGsiQkey || packet.deth().source_qp != kGsiQpn) {
    report.fail(capture.name, number, "to QP1, but not from QP1 with its Q_Key");
  }
  const auto mad = cm::decode(packet.payload);
  if (!mad) {
    report.fail(capture.name, number, cm::to_string(mad.error()));
    return;
  }
  cm::MadBuffer again;
  cm::encode(*mad, again);
  const auto at = std::ranges::mismatch(packet.payload, again).in2 - again.begin();
  if (at != static_cast<ptrdiff_t>(again.size())) {
    report.fail(capture.name, number,
                "the message encodes differently from byte " + std::to_string(at));
  }
}

}  // namespace

void check_cm(const Capture& capture, Report& report) {
  size_t mads = 0;
  for (const CapturedFrame& captured : capture.frames) {
    const auto frame = wire::dissect(captured.bytes);
    if (!frame) continue;
    const auto packet = wire::parse(frame->transport);
    if (!packet || packet->bth.dest_qp != kGsiQpn || !packet->info->has(wire::kDeth)) continue;
    ++mads;
    check_mad(capture, captured.number, *packet, report);
  }
  report.mads += mads;
  if (capture.name.starts_with("cm-") && mads == 0) {
    report.fail(capture.name, 0, "holds no message of connection management");
  }
}

}  // namespace verbena::golden
