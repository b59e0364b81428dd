// SPDX-License-Identifier: Apache-2.0
#include "sim/rc_pair.h"

#include <algorithm>

namespace verbena::sim {

using transport::Completion;
using transport::QpState;
using transport::QpType;
using transport::WcStatus;

namespace {

// How far the PSNs of a new life are from those of the last: what is still on its way then is
// neither in the window nor a believable duplicate of something useful. (A device draws them at
// random and waits.)
constexpr uint32_t kPsnLeap = 1u << 22;
constexpr uint64_t kLivesPerQueuePair = 3;

}  // namespace

RcPair::RcPair(World& world, const RcPairSpec& spec, SharedWords* shared)
    : world_(world), spec_(spec) {
  for (uint32_t end : {0u, 1u}) {
    ends_[end].host = spec.host[end];
    if (spec.shared_pool[end] == nullptr) {
      pools_[end] = std::make_unique<RecvPool>(world, spec.host[end], spec.pool);
    }
    create(end);
  }
  for (uint32_t end : {0u, 1u}) {
    lanes_[end] = std::make_unique<Lane>(world, ends_[end], ends_[1 - end], spec.lane, shared);
  }
  lanes_[0]->set_reverse(*lanes_[1]);
  lanes_[1]->set_reverse(*lanes_[0]);
}

void RcPair::create(uint32_t end) {
  link::SimulatedNode& node = world_.node(ends_[end].host);
  transport::QpInit init;
  init.type = QpType::kRc;
  init.pd = world_.host(ends_[end].host).pd;
  init.send_cq = node.send_cq();
  init.recv_cq = node.recv_cq();
  init.srq = spec_.srq[end];
  init.send = {spec_.lane.depth, spec_.lane.max_sge, spec_.lane.max_inline};
  init.max_recv_entries = spec_.pool.slots;
  init.max_recv_sge = spec_.pool.max_sge;
  init.signal_all = spec_.lane.signal_all;
  ends_[end].qpn = node.endpoint().create_qp(init).value();
  world_.own(ends_[end].host, ends_[end].qpn, *this, end);
  if (pools_[end] != nullptr) pools_[end]->use_qp(ends_[end].qpn);
}

void RcPair::connect_ends() {
  ++life_;
  for (uint32_t end : {0u, 1u}) {
    connect(world_, ends_[end], QpType::kRc, ends_[1 - end], spec_.terms[end]);
    if (pools_[end] != nullptr) pools_[end]->start();
    sqd_[end] = Sqd::kNo;
    failed_[end] = false;
    last_posted_[end] = false;
  }
  state_ = State::kRunning;
}

void RcPair::start() {
  connect_ends();
  for (uint32_t end : {0u, 1u}) {
    budget_[end] = spec_.budget;
    world_.after(static_cast<Duration>(world_.draw(0, 100'000)), [this, end] { tick(end); });
  }
}

void RcPair::finish(uint32_t more) {
  finishing_ = true;
  for (uint32_t end : {0u, 1u}) {
    budget_[end] += more;
    if (pools_[end] != nullptr) pools_[end]->be_prompt();
  }
  for (uint32_t end : {0u, 1u}) tick(end);
}

void RcPair::tick(uint32_t end) {
  if (state_ == State::kRunning && !failed_[0] && !failed_[1]) {
    // Whether the other is there can be asked at any time, and changes nothing.
    (void)world_.node(ends_[end].host).endpoint().ping(ends_[end].qpn);
    const uint64_t burst = world_.draw(1, 4);
    for (uint64_t i = 0; i < burst && budget_[end] > 0; ++i) {
      if (lanes_[end]->post_random()) --budget_[end];
    }
    // A lane may post at its reverse (windows), so that the last comes when both are spent.
    if (finishing_ && budget_spent() && !last_posted_[end]) {
      last_posted_[end] = lanes_[end]->post_last();
    }
  }
  const bool more = budget_[end] > 0 || (finishing_ && !last_posted_[end]);
  if (!more) return;
  world_.after(static_cast<Duration>(world_.draw(1, static_cast<uint64_t>(spec_.pace))),
               [this, end] { tick(end); });
}

bool RcPair::budget_spent() const { return budget_[0] == 0 && budget_[1] == 0; }

bool RcPair::done() const {
  return state_ == State::kRunning && budget_spent() && last_posted_[0] && last_posted_[1] &&
         lanes_[0]->outstanding() == 0 && lanes_[1]->outstanding() == 0 && sqd_[0] == Sqd::kNo &&
         sqd_[1] == Sqd::kNo;
}

void RcPair::on_send_done(uint32_t end, const Completion& completion) {
  SIM_REQUIRE(sqd_[end] != Sqd::kDrained || completion.status != WcStatus::kSuccess,
              "a request completed on a send queue that said it was drained");
  if (lanes_[end]->on_send_done(completion)) return;
  SIM_REQUIRE(!spec_.sturdy, "a sturdy connection failed: wr 0x%llx: %s",
              static_cast<unsigned long long>(completion.wr_id),
              transport::to_string(completion.status));
  if (!failed_[end] && state_ == State::kRunning) {
    SIM_REQUIRE(completion.status == WcStatus::kRetryExceeded ||
                    completion.status == WcStatus::kRnrRetryExceeded,
                "wr 0x%llx failed for a reason nobody gave it: %s",
                static_cast<unsigned long long>(completion.wr_id),
                transport::to_string(completion.status));
    failed_[end] = true;
    fall_apart();
  } else {
    SIM_REQUIRE(completion.status == WcStatus::kFlushed || !failed_[end],
                "wr 0x%llx ended with %s, and not flushed, after its connection failed",
                static_cast<unsigned long long>(completion.wr_id),
                transport::to_string(completion.status));
    if (completion.status != WcStatus::kFlushed) failed_[end] = true;
  }
}

void RcPair::on_receive_done(uint32_t end, const Completion& completion) {
  if (completion.status == WcStatus::kFlushed) {
    SIM_REQUIRE(!spec_.sturdy, "a receive of a sturdy connection was flushed");
    const uint32_t slot = pool(end).completed(completion.wr_id);
    if (!pool(end).shared()) return;
    world_.arena(ends_[end].host).accept(pool(end).range(slot));
    pool(end).done_with(slot);
    return;
  }
  lanes_[1 - end]->on_receive_done(completion, pool(end));
}

void RcPair::on_event(uint32_t end, transport::Event event) {
  switch (event) {
    case transport::Event::kSqDrained:
      SIM_REQUIRE(sqd_[end] == Sqd::kDraining, "a send queue says it is drained and was not asked");
      sqd_[end] = Sqd::kDrained;
      world_.after(static_cast<Duration>(world_.draw(1, 300'000)), [this, end, life = life_] {
        if (life != life_ || state_ != State::kRunning || failed_[end]) return;
        sqd_[end] = Sqd::kNo;
        move_to(world_, ends_[end], QpState::kRts);
      });
      return;
    case transport::Event::kQpLastWqeReached:
    case transport::Event::kCommunicationEstablished: return;
    default:
      violate("event %u on a connection that did nothing wrong", static_cast<unsigned>(event));
  }
}

void RcPair::drain(uint32_t end) {
  if (state_ != State::kRunning || failed_[end] || sqd_[end] != Sqd::kNo) return;
  world_.scenes().add(Scene::kDrain);
  sqd_[end] = Sqd::kDraining;
  move_to(world_, ends_[end], QpState::kSqd);
  world_.dispatch();
}

void RcPair::break_off() {
  if (spec_.sturdy || state_ != State::kRunning) return;
  fall_apart();
}

// One end is gone; in a while a program notices and takes both down.
void RcPair::fall_apart() {
  world_.scenes().add(Scene::kBreak);
  state_ = State::kBreaking;
  world_.after(static_cast<Duration>(world_.draw(1, 2'000'000)), [this] {
    take_down(0);
    take_down(1);
    for (auto& lane : lanes_) lane->abandon();
    world_.after(static_cast<Duration>(world_.draw(1, 2'000'000)), [this] { start_again(); });
  });
}

void RcPair::take_down(uint32_t end) {
  const bool shared = pool(end).shared();
  if (shared || world_.chance(60)) {
    move_to(world_, ends_[end], QpState::kErr);
    world_.dispatch();
    lanes_[end]->all_flushed();
    SIM_REQUIRE(shared || pool(end).posted() == 0,
                "a queue pair in error did not flush all its receives");
  }
  move_to(world_, ends_[end], QpState::kReset);
  world_.dispatch();
  if (!shared) pools_[end]->stop();
}

void RcPair::start_again() {
  for (uint32_t end : {0u, 1u}) {
    const wire::Psn psn = spec_.terms[end].send_psn + kPsnLeap;
    spec_.terms[end].send_psn = psn;
    spec_.terms[1 - end].recv_psn = psn;
    if (life_ % kLivesPerQueuePair != 0) continue;
    const auto gone = world_.endpoint(ends_[end].host).destroy_qp(ends_[end].qpn);
    SIM_REQUIRE(gone.has_value(), "a queue pair could not be destroyed");
    world_.disown(ends_[end].host, ends_[end].qpn);
    create(end);
  }
  lanes_[0]->set_ends(ends_[0], ends_[1]);
  lanes_[1]->set_ends(ends_[1], ends_[0]);
  connect_ends();
  for (uint32_t end : {0u, 1u}) {
    if (finishing_) tick(end);
  }
}

}  // namespace verbena::sim
