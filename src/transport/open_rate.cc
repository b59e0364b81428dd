// SPDX-License-Identifier: Apache-2.0
#include "transport/open_rate.h"

#include <algorithm>

namespace verbena::transport {
namespace {

constexpr Duration kSpan = 10 * kMillisecond;  // for which a rate is measured
constexpr Duration kOneCut = kMillisecond;     // marks within it count once
constexpr Duration kStep = 5 * kMillisecond;   // of recovery
constexpr uint32_t kHalvingSteps = 5;          // then it grows by a share
constexpr double kGrowth = 1.05;
constexpr double kAsGoodAsNone = 2;             // of the rate before the cut
constexpr double kLeastRate = 125e3 / kSecond;  // 1 Mbit/s
constexpr Duration kLong = kSecond;             // after a mark, each has recovered
constexpr Duration kBurst = kMillisecond;       // a timer may come so late

}  // namespace

OpenRate::Sent& OpenRate::sent_to(const wire::Gid& to) {
  const auto words = to.words();
  const uint64_t mixed = (words[0] ^ words[1]) * 0x9e3779b97f4a7c15;
  return sent_[mixed >> 56];
}

double OpenRate::measured(Time now) const {
  const Duration passed = std::max(now - span_since_, kOneCut);
  const double present = static_cast<double>(span_cost_) / static_cast<double>(passed);
  return std::max(present, last_span_);
}

OpenRate::Hosts::iterator OpenRate::look_at(const wire::Gid& to, Time now) {
  const auto at = slow_.find(to);
  if (at == slow_.end()) return at;
  Slow& slow = at->second;
  while (now >= slow.grown_at + kStep) {
    slow.grown_at += kStep;
    slow.rate = ++slow.steps <= kHalvingSteps ? (slow.rate + slow.before) / 2 : slow.rate * kGrowth;
    if (slow.rate < kAsGoodAsNone * slow.before) continue;
    slow_.erase(at);
    return slow_.end();
  }
  return at;
}

Time OpenRate::allows_at(const wire::Gid& to, Time now) {
  if (slow_.empty()) return 0;
  const auto at = look_at(to, now);
  return at == slow_.end() ? 0 : at->second.paced_until - kBurst;
}

void OpenRate::on_sent(const wire::Gid& to, bool ect, uint64_t cost, Time now) {
  if (now >= span_since_ + kSpan) {
    last_span_ = now >= span_since_ + 2 * kSpan
                     ? 0
                     : static_cast<double>(span_cost_) / static_cast<double>(now - span_since_);
    span_cost_ = 0;
    span_since_ = now;
  }
  span_cost_ += cost;
  if (ect) sent_to(to) = {.to = to, .at = now};
  if (slow_.empty()) return;
  const auto at = look_at(to, now);
  if (at == slow_.end()) return;
  Slow& slow = at->second;
  slow.paced_until = std::max(slow.paced_until, now) +
                     static_cast<Duration>(static_cast<double>(cost) / slow.rate);
}

bool OpenRate::on_mark(const wire::Gid& to, Time now) {
  const Sent& sent = sent_to(to);
  if (sent.to != to || now > sent.at + kLong) return false;
  auto at = look_at(to, now);
  if (at == slow_.end()) {
    const double rate = measured(now);
    if (rate == 0) return true;
    if (slow_.size() >= kMaxHosts) {
      std::erase_if(slow_, [now](const auto& host) { return now > host.second.marked_at + kLong; });
      if (slow_.size() >= kMaxHosts) return true;
    }
    at = slow_.emplace(to, Slow{.rate = rate}).first;
  } else if (now < at->second.marked_at + kOneCut) {
    return true;
  }
  Slow& slow = at->second;
  slow.before = slow.rate;
  slow.rate = std::max(slow.rate / 2, kLeastRate);
  slow.steps = 0;
  slow.marked_at = slow.grown_at = now;
  return true;
}

}  // namespace verbena::transport
