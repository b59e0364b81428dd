// SPDX-License-Identifier: Apache-2.0
#include "members_sim/member.h"

#include <array>

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/credits.h"
#include "link/udp_transmitter.h"

namespace verbena::members_sim {
namespace {

constexpr uint32_t kRounds = 6;
constexpr uint64_t kMostLetters = 60;
constexpr uint32_t kPorts = 3;  // that all want
constexpr Duration kAsksAgain = 100 * kMillisecond;
const wire::Gid kHere = wire::Gid::from_ipv4(127, 0, 0, 1);
constexpr uint32_t kCost = link::datagram_cost(Letters::kBytes, Letters::kBytes);
// Longer than anybody is stopped.
constexpr Duration kSlotRest = 50 * kMillisecond;

}  // namespace

Member::Member(const MemberParts& parts, uint32_t process)
    : parts_(parts),
      process_(process),
      random_(parts.scheduler.random().next()),
      nudge_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      rounds_(kRounds) {}

Member::~Member() = default;

void Member::bury() {
  if (membership_ == nullptr) return;
  membership_->before_fork();
  membership_->abandon_in_child();
  membership_.reset();
}

void Member::nudge() {
  const uint64_t one = 1;
  (void)!::write(nudge_.get(), &one, sizeof one);
}

void Member::ask_to_leave() {
  leaving_ = true;
  nudge();
}

std::string Member::describe() {
  return name() + (membership_ == nullptr ? "is no member" : "slot " + std::to_string(slot_)) +
         ", rounds left " + std::to_string(rounds_) + ", letters left " + std::to_string(left_) +
         " to slot " + std::to_string(to_.slot) + (polling_ ? ", polls" : "") +
         (membership_ == nullptr
              ? ""
              : ", credits " +
                    std::to_string(membership_->table().inboxes[slot_].outstanding.load())) +
         (ports_done_ ? "" : ", wants ports");
}

// --- the thread that has the membership

void Member::run() {
  link::MembershipOptions options;
  options.group = parts_.group;
  options.slot_rest = kSlotRest;
  options.this_host_if_taken = false;
  const Time began = parts_.scheduler.now();
  const auto calm = parts_.others.calm();
  auto joined = link::Membership::join(options, random_);
  if (!joined) return parts_.others.violation(name() + "cannot join: " + joined.error().what);
  if (calm && parts_.others.calm() == calm) {
    parts_.others.joined(process_, parts_.scheduler.now() - began);
  }
  slot_ = (*joined)->slot();
  membership_ = std::move(*joined);
  next_ = parts_.scheduler.now();
  while (!leaving_ || !ports_done_) step();
  // The object goes last: others look at it.
  membership_->settle();
  std::unique_ptr<link::Membership> gone = std::move(membership_);
  gone.reset();
  left_group_ = true;
}

void Member::step() {
  const std::array<int, 3> fds{membership_->fd(), membership_->ipv4()->receive.get(), nudge_.get()};
  const bool may_sleep = !membership_->awaits_empty();
  (void)parts_.scheduler.sleep(fds, may_sleep ? next_ : parts_.scheduler.now());
  uint64_t nudges = 0;
  (void)!::read(nudge_.get(), &nudges, sizeof nudges);
  membership_->on_ready(*this);
  receive();
  send();
  membership_->settle();
}

void Member::receive() {
  constexpr int kMostBatches = 16;
  const int fd = membership_->ipv4()->receive.get();
  for (int i = 0; i < kMostBatches; ++i) {
    if (receiver_.receive(fd, link::Family::kIpv4, *this, link::UdpReceiver::Ask::kBatch) != 0) {
      continue;
    }
    membership_->found_empty(parts_.scheduler.now());
    return;
  }
}

void Member::on_consumed(const link::Datagram& datagram, uint32_t cost) {
  membership_->consumed(datagram, cost);
}

// As Intake has it.
void Member::on_datagram(const link::Datagram& datagram) {
  Letters::Letter* const letter = parts_.letters.find(datagram.bytes);
  if (letter != nullptr) letter->in_hand = process_;
  if (!membership_->admits(datagram)) {
    if (letter != nullptr) letter->refused = true;
    return;
  }
  if (!membership_->route(datagram) || letter == nullptr) return;
  if (letter->to != process_) return;  // the one that it was for had our slot before
  if (letter->taken) parts_.others.violation(name() + "a datagram came twice");
  letter->taken = true;
}

void Member::begin_round() {
  const auto to = parts_.others.anybody();
  if (!to) return;
  --rounds_;
  to_ = *to;
  left_ = 1 + draw(draw(2) == 0 ? kMostLetters : uint64_t{3});
  polling_ = draw(3) == 0;
  membership_->set_polling(polling_);
}

void Member::send() {
  if (left_ == 0) {
    if (rounds_ == 0) {
      next_ = kNever;
      return;
    }
    if (parts_.scheduler.now() < next_) return;
    begin_round();
  }
  const Qpn qpn(uint32_t{to_.slot} << 16 | 1);
  bool refused = false;
  for (; left_ != 0 && !refused; --left_) {
    refused = !membership_->available(kHere, qpn);
    if (refused) break;
    membership_->spend(kHere, qpn, kCost);
    const auto bytes =
        parts_.letters.post({.from = process_, .to = to_.process, .cost = kCost}, to_.slot);
    if (parts_.others.stays(to_.process) && !membership_->is_unresponsive(kHere, qpn) &&
        parts_.letters.on_the_way_to(to_.process) > link::receive_budget(Kernel::kReceiveBuffer)) {
      parts_.others.violation(name() + "more is on its way than there is room for");
    }
    (void)::sendto(membership_->ipv4()->send.get(), bytes.data(), bytes.size(), 0, nullptr, 0);
  }
  const Time now = parts_.scheduler.now();
  if (refused) {
    ++refusals_;
    if (refused_since_ == 0) refused_since_ = now;
    // It is told when there is room, or asks again and again. Where room was lost with somebody it
    // has to ask as well, for the receiver may sleep.
    next_ = now + (polling_ ? 200 * kMicrosecond : kAsksAgain);
    return;
  }
  if (refused_since_ != 0 && now - refused_since_ >= kAsksAgain && parts_.others.is_whole()) {
    parts_.others.violation(name() + "was not told that there is room");
  }
  refused_since_ = 0;
  if (polling_) membership_->set_polling(polling_ = false);
  next_ = now + static_cast<Duration>(draw(draw(2) == 0 ? 200 * kMicrosecond : 20 * kMillisecond));
}

// --- the other

void Member::use_ports() {
  for (uint32_t i = 0; i < kPorts && !leaving_; ++i) {
    parts_.scheduler.sleep_until(parts_.scheduler.now() +
                                 static_cast<Duration>(draw(10 * kMillisecond)));
    if (membership_ == nullptr) continue;
    const link::Port port{.service_id = 1 + draw(kPorts), .address = kHere};
    const int error = membership_->add_port(port, link::Ports::Kind::kBound);
    if (error == 0) {
      parts_.others.port_taken(process_, port.service_id);
      parts_.scheduler.sleep_until(parts_.scheduler.now() +
                                   static_cast<Duration>(draw(2 * kMillisecond)));
      parts_.others.port_given_back(process_, port.service_id);
      membership_->remove_port(port, link::Ports::Kind::kBound);
    } else if (error != EADDRINUSE) {
      parts_.others.violation(name() + "a port cannot be had: errno " + std::to_string(error));
    }
  }
  ports_done_ = true;
  nudge();
}

}  // namespace verbena::members_sim
