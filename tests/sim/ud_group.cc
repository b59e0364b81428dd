// SPDX-License-Identifier: Apache-2.0
#include "sim/ud_group.h"

#include <algorithm>
#include <cstring>

#include "link/framing.h"
#include "transport/datagram.h"

namespace verbena::sim {

using transport::Completion;
using transport::QpState;
using transport::QpType;
using transport::WcStatus;

UdGroup::UdGroup(World& world, const UdSpec& spec)
    : world_(world), spec_(spec), members_(world.hosts()) {
  for (uint32_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    // Sometimes receives too short for the longest datagrams.
    const uint32_t room =
        world.chance(spec.short_receive_percent) ? spec.max_payload / 2 : spec.max_payload;
    member.pool = std::make_unique<RecvPool>(world, i,
                                             PoolSpec{.slots = 6,
                                                      .slot_bytes = 40 + room,
                                                      .max_sge = 3,
                                                      .late_percent = 40,
                                                      .bad_percent = 3});
    member.local = world.register_region(i, size_t{spec.max_payload} * 2, memory::kLocalWrite);
    link::SimulatedNode& node = world.node(i);
    transport::QpInit init;
    init.type = QpType::kUd;
    init.pd = world.host(i).pd;
    init.send_cq = node.send_cq();
    init.recv_cq = node.recv_cq();
    init.send = {8, 2, 32};
    init.max_recv_entries = 6;
    init.max_recv_sge = 3;
    member.end = {i, node.endpoint().create_qp(init).value()};
    member.pool->use_qp(member.end.qpn);
    world.own(i, member.end.qpn, *this, i);
  }
}

void UdGroup::start() {
  for (uint32_t i = 0; i < members_.size(); ++i) {
    Terms terms;
    terms.qkey = kQkey;
    terms.send_psn = wire::Psn(static_cast<uint32_t>(world_.random().next()));
    connect(world_, members_[i].end, QpType::kUd, members_[i].end, terms);
    members_[i].pool->start();
    members_[i].budget = spec_.budget;
    tick(i);
  }
}

void UdGroup::finish() {
  for (Member& member : members_) member.pool->no_bad_ones();
}

void UdGroup::tick(uint32_t i) {
  Member& member = members_[i];
  if (member.budget > 0 && !member.stopped && member.outstanding.size() < 8) {
    --member.budget;
    post(i);
    world_.dispatch();
  }
  if (member.budget == 0) return;
  world_.after(static_cast<Duration>(world_.draw(1, static_cast<uint64_t>(spec_.pace))),
               [this, i] { tick(i); });
}

void UdGroup::post(uint32_t i) {
  Member& member = members_[i];
  const auto to =
      static_cast<uint32_t>((i + world_.draw(1, members_.size() - 1)) % members_.size());
  const auto length =
      static_cast<uint32_t>(world_.chance(10) ? 0 : world_.draw(1, spec_.max_payload));
  Arena& arena = world_.arena(i);
  // The memory is free again as soon as the request completes, which on an idle link is at once;
  // another that waits must not be overwritten.
  if (!member.outstanding.empty()) return;
  const Range local{member.local.range.offset + world_.draw(0, member.local.range.length - length),
                    length};
  arena.fill(local, world_.random());

  Datagram datagram;
  datagram.from = i;
  datagram.to = to;
  datagram.payload.assign(arena.real(local.offset), arena.real(local.offset) + length);
  datagram.good_key = !world_.chance(8);
  transport::SendRequest request;
  request.wr_id = next_id_++;
  request.op = transport::SendOp::kSendImm;
  request.flags = transport::kSignaled;
  request.imm = next_name_++;
  request.path.source = world_.node(i).address();
  request.path.destination = world_.node(to).address();
  request.path.source_port = static_cast<uint16_t>(0xc000 + world_.draw(0, 100));
  request.remote_qpn = members_[to].end.qpn;
  request.remote_qkey = datagram.good_key ? kQkey : kQkey + 1;
  // The queue pair's own key stands in for one with the top bit set.
  if (datagram.good_key && world_.chance(20)) request.remote_qkey = 0x80000001;
  memory::Sge sge{member.local.addr(local.offset), length, member.local.keys.lkey};
  const bool bad_local = length > 0 && world_.chance(4);
  if (bad_local) sge.lkey = LKey(sge.lkey.value ^ 0x33);
  request.list = {&sge, 1};
  datagrams_.emplace(request.imm, std::move(datagram));
  member.outstanding.push_back({request.wr_id, bad_local});
  ++posted_;
  const auto posted = world_.endpoint(i).post_send(member.end.qpn, request, world_.now());
  SIM_REQUIRE(posted.has_value(), "UD post_send refused: %s", transport::to_string(posted.error()));
}

void UdGroup::on_send_done(uint32_t i, const Completion& completion) {
  Member& member = members_[i];
  SIM_REQUIRE(!member.outstanding.empty() && member.outstanding.front().id == completion.wr_id,
              "UD requests completed out of order or twice");
  const bool bad = member.outstanding.front().bad_local;
  member.outstanding.pop_front();
  const WcStatus wanted = bad ? WcStatus::kLocalProtection : WcStatus::kSuccess;
  SIM_REQUIRE(completion.status == wanted, "a datagram's send ended with: %s",
              transport::to_string(completion.status));
  if (!bad) return;
  member.stopped = true;
  SIM_REQUIRE(world_.endpoint(i).query_qp(member.end.qpn)->state == QpState::kSqe,
              "a failed send did not stop the UD send queue");
  world_.after(static_cast<Duration>(world_.draw(1, 100'000)), [this, i] {
    members_[i].stopped = false;
    move_to(world_, members_[i].end, QpState::kRts);
  });
}

void UdGroup::on_receive_done(uint32_t i, const Completion& completion) {
  Member& member = members_[i];
  const uint32_t slot = member.pool->completed(completion.wr_id);
  Arena& arena = world_.arena(i);
  if (member.pool->is_bad(slot)) {
    SIM_REQUIRE(completion.status == WcStatus::kLocalProtection,
                "a receive with a bad key gave: %s", transport::to_string(completion.status));
    member.pool->done_with(slot);
    return;
  }
  SIM_REQUIRE(completion.status == WcStatus::kSuccess, "a datagram's receive failed: %s",
              transport::to_string(completion.status));
  const auto named = datagrams_.find(completion.imm_or_rkey);
  SIM_REQUIRE(named != datagrams_.end(), "a datagram arrived that nobody sent");
  Datagram& datagram = named->second;
  SIM_REQUIRE(datagram.to == i && datagram.good_key,
              "a datagram reached a queue pair it should not");
  SIM_REQUIRE(completion.source_qpn == members_[datagram.from].end.qpn,
              "a datagram names the wrong source");
  SIM_REQUIRE((completion.flags & transport::kWcGrh) != 0 &&
                  completion.byte_len == transport::datagram::kGrhBytes + datagram.payload.size(),
              "a datagram of %zu bytes arrived with %u", datagram.payload.size(),
              completion.byte_len);
  SIM_REQUIRE(++datagram.received <= datagram.carried,
              "a datagram arrived more often than the network carried it");
  world_.scenes().add(Scene::kUdDelivered);
  const size_t at = member.pool->range(slot).offset;
  const uint8_t* const grh = arena.real(at);
  SIM_REQUIRE(std::memcmp(grh + 8, world_.node(datagram.from).address().bytes.data(), 16) == 0 &&
                  std::memcmp(grh + 24, world_.node(i).address().bytes.data(), 16) == 0,
              "a datagram's GRH names the wrong addresses");
  arena.accept({at, transport::datagram::kGrhBytes});
  arena.expect(at + transport::datagram::kGrhBytes, datagram.payload);
  SIM_REQUIRE(arena.as_expected(member.pool->range(slot)), "a datagram is not what was sent");
  member.pool->done_with(slot);
}

void UdGroup::on_frame(const link::FrameEvent& event) {
  if (event.kind == link::FrameEvent::Kind::kArrived) count_delivery(event.bytes);
}

void UdGroup::count_delivery(std::span<const uint8_t> frame) {
  // The opcode's place is fixed: look before taking the whole frame apart.
  const size_t bth = 14 + (frame.size() > 14 && frame[14] >> 4 == 6 ? 40 : 20) + 8;
  if (frame.size() <= bth ||
      frame[bth] != wire::opcode_byte(wire::Service::kUd, wire::Op::kSendOnlyImm))
    return;
  const auto packet = link::open_frame(frame);
  if (!packet) return;
  const auto named = datagrams_.find(packet->view.imm().value);
  if (named != datagrams_.end()) ++named->second.carried;
}

bool UdGroup::done() const {
  return std::ranges::all_of(members_, [](const Member& member) {
    return member.budget == 0 && member.outstanding.empty() && !member.stopped;
  });
}

void UdGroup::check() {
  for (Member& member : members_) member.pool->accept_memory();
}

}  // namespace verbena::sim
