// SPDX-License-Identifier: Apache-2.0
#include "sim/tcp_flow.h"

#include <algorithm>

namespace verbena::sim {
namespace {

constexpr uint64_t kDuplicates = 3;
constexpr Duration kLeastTimeout = 200 * kMillisecond;

}  // namespace

Time TcpFlow::next_event() const {
  const Time ack = acks_.empty() ? kNever : acks_.front().acked_at;
  // Before the start nothing is sent; the timeout begins with it.
  const Time sends = next_number_ == 0 ? kNever : may_send_at();
  return std::min({ack, timeout_at_, sends});
}

void TcpFlow::run(Time now) {
  if (now < start_) return;
  while (!acks_.empty() && acks_.front().acked_at <= now) {
    const Sent segment = acks_.front();
    acks_.pop_front();
    take_ack(segment, now);
  }
  if (timeout_at_ <= now) {
    if (!out_.empty()) {
      out_.clear();
      acks_.clear();
      recover_ = next_number_;
      on_timeout(now);
    }
    timeout_at_ = now + std::max(kLeastTimeout, 2 * smoothed_);
  }
  send(now);
}

void TcpFlow::send(Time now) {
  while (may_send_at() <= now) {
    if (out_.empty()) delivered_at_ = began_at_ = now;
    const auto passage = way_.queue->pass(kFrameBytes, false, now);
    const bool lost =
        passage.dropped || (way_.loss_ppm != 0 && way_.random->chance_ppm(way_.loss_ppm));
    const Sent sent{.number = next_number_++,
                    .at = now,
                    .acked_at = lost ? kNever : passage.arrival + way_.ack_delay,
                    .delivered = delivered_,
                    .delivered_at = delivered_at_,
                    .began_at = began_at_};
    out_.push_back(sent);
    if (!lost) acks_.push_back(sent);
    on_sent(now);
  }
}

void TcpFlow::take_ack(const Sent& segment, Time now) {
  const auto at = std::ranges::lower_bound(out_, segment.number, {}, &Sent::number);
  if (at == out_.end() || at->number != segment.number) return;
  out_.erase(at);
  ++delivered_;
  delivered_at_ = now;
  began_at_ = segment.at;
  const Duration round_trip = now - segment.at;
  smoothed_ = smoothed_ == 0 ? round_trip : smoothed_ + (round_trip - smoothed_) / 8;
  timeout_at_ = now + std::max(kLeastTimeout, 2 * smoothed_);
  on_ack(segment, now);
  find_losses(segment.number, now);
}

void TcpFlow::find_losses(uint64_t acked, Time now) {
  while (!out_.empty() && out_.front().number + kDuplicates <= acked) {
    const bool first = out_.front().number >= recover_;
    out_.pop_front();
    if (!first) continue;
    recover_ = next_number_;
    on_loss(now);
  }
}

}  // namespace verbena::sim
