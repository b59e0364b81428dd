// SPDX-License-Identifier: Apache-2.0
// The queue pairs of a station, and what goes over them.
#include <algorithm>

#include "base/endian.h"
#include "cm_storm/station.h"

namespace verbena::cm_storm {
namespace {

using transport::QpState;
using transport::QpType;

constexpr Qpn kGsi(1);
constexpr uint32_t kGsiQkey = 0x80010000;
constexpr uint32_t kGsiReceives = 128;
constexpr uint32_t kGsiSends = 256;
constexpr size_t kGrhBytes = 40;
constexpr size_t kGsiSlot = 320;  // GRH and message, rounded up
constexpr uint32_t kSlots = 512;  // of receive memory for connections
constexpr size_t kHeader = 16;

// What a message of this connection, this direction and this number says.
[[nodiscard]] uint8_t byte_of(uint64_t token, bool from_active, uint32_t index, size_t at) {
  const uint64_t mixed = (token + (from_active ? 1 : 0) + index) * 0x9e3779b97f4a7c15;
  return static_cast<uint8_t>((mixed >> 24) + at * 7);
}

}  // namespace

void Station::make_gsi() {
  gsi_memory_ = world_.register_region(host_, kGsiReceives * kGsiSlot, memory::kLocalWrite);
  memory_ = world_.register_region(host_, kSlots * kSlotBytes, memory::kLocalWrite);
  for (uint32_t slot = kSlots; slot > 0; --slot) free_slots_.push_back(slot - 1);
  link::SimulatedNode& node = world_.node(host_);
  const transport::QpInit init{.type = QpType::kUd,
                               .pd = world_.host(host_).pd,
                               .send_cq = node.send_cq(),
                               .recv_cq = node.recv_cq(),
                               .send = {kGsiSends, 1, cm::kMadBytes},
                               .max_recv_entries = kGsiReceives,
                               .max_recv_sge = 1};
  SIM_REQUIRE(node.endpoint().create_qp(init, kGsi).has_value(), "no queue pair 1");
  world_.own(host_, kGsi, *this, 0);
  sim::Terms terms;
  terms.qkey = kGsiQkey;
  sim::connect(world_, {host_, kGsi}, QpType::kUd, {host_, kGsi}, terms);
  for (uint32_t slot = 0; slot < kGsiReceives; ++slot) post_gsi_receive(slot);
}

void Station::post_gsi_receive(uint32_t slot) {
  const memory::Sge place{gsi_memory_.addr(gsi_memory_.range.offset + slot * kGsiSlot),
                          kGrhBytes + cm::kMadBytes, gsi_memory_.keys.lkey};
  SIM_REQUIRE(world_.endpoint(host_).post_recv(kGsi, {.wr_id = slot, .list = {&place, 1}}),
              "a receive of queue pair 1 was refused");
}

std::span<const uint8_t> Station::gsi_memory(uint32_t slot) {
  return {world_.arena(host_).real(gsi_memory_.range.offset + slot * kGsiSlot), kGsiSlot};
}

std::span<const uint8_t> Station::memory_of(const Call& call) {
  return {world_.arena(host_).real(memory_.range.offset + call.slot * kSlotBytes), kSlotBytes};
}

void Station::send_mad(const wire::Gid& source, const wire::Gid& destination, cm::MadBytes mad) {
  const memory::Sge inlined{reinterpret_cast<uintptr_t>(mad.data()),
                            static_cast<uint32_t>(mad.size()), LKey()};
  transport::SendRequest request;
  request.flags = transport::kInline;
  request.list = {&inlined, 1};
  request.path.source = source;
  request.path.destination = destination;
  request.remote_qpn = kGsi;
  request.remote_qkey = kGsiQkey;
  // A full queue is a lost message.
  (void)world_.endpoint(host_).post_send(kGsi, request, world_.now());
}

void Station::make_qp(uint32_t number) {
  Call& call = calls_[number];
  link::SimulatedNode& node = world_.node(host_);
  const transport::QpInit init{.type = QpType::kRc,
                               .pd = world_.host(host_).pd,
                               .send_cq = node.send_cq(),
                               .recv_cq = node.recv_cq(),
                               .send = {kMostMessages, 1, kMessageBytes},
                               .max_recv_entries = kMostMessages,
                               .max_recv_sge = 1,
                               .signal_all = true};
  call.our_qpn = node.endpoint().create_qp(init).value();
  call.has_qp = true;
  SIM_REQUIRE(!free_slots_.empty(), "more connections than receive memory");
  call.slot = free_slots_.back();
  free_slots_.pop_back();
  world_.own(host_, call.our_qpn, *this, number + 1);
}

void Station::make_ready(uint32_t number) {
  const Call& call = calls_[number];
  sim::Terms terms;
  terms.mtu = transport::Mtu::k256;
  terms.timeout = 16;  // 268 ms
  terms.send_psn = call.peer_psn;
  terms.recv_psn = call.our_psn;
  sim::connect(world_, {host_, call.our_qpn}, QpType::kRc, {call.peer, call.peer_qpn}, terms);
  for (uint32_t i = 0; i < kMostMessages; ++i) {
    const memory::Sge place{
        memory_.addr(memory_.range.offset + call.slot * kSlotBytes + i * kMessageBytes),
        kMessageBytes, memory_.keys.lkey};
    SIM_REQUIRE(world_.endpoint(host_).post_recv(call.our_qpn, {.wr_id = i, .list = {&place, 1}}),
                "a receive was refused");
  }
}

void Station::drop_qp(uint32_t number) {
  Call& call = calls_[number];
  if (!call.has_qp) return;
  call.has_qp = false;
  sim::move_to(world_, {host_, call.our_qpn}, QpState::kErr);
  world_.after(1, [this, number] {
    const Call& ended = calls_[number];
    SIM_REQUIRE(world_.endpoint(host_).destroy_qp(ended.our_qpn).has_value(),
                "cannot be destroyed");
    world_.disown(host_, ended.our_qpn);
    free_slots_.push_back(ended.slot);
  });
}

void Station::send_message(uint32_t number, uint32_t index) {
  const Call& call = calls_[number];
  std::array<uint8_t, kMessageBytes> bytes;
  const auto length = static_cast<uint32_t>(world_.draw(kHeader, kMessageBytes));
  store_be64(bytes.data(), call.token);
  store_be32(bytes.data() + 8, index);
  store_be32(bytes.data() + 12, call.active ? 1 : 0);
  for (size_t i = kHeader; i < length; ++i) bytes[i] = byte_of(call.token, call.active, index, i);
  const memory::Sge inlined{reinterpret_cast<uintptr_t>(bytes.data()), length, LKey()};
  transport::SendRequest request;
  request.wr_id = index;
  request.flags = transport::kInline;
  request.list = {&inlined, 1};
  SIM_REQUIRE(world_.endpoint(host_).post_send(call.our_qpn, request, world_.now()).has_value(),
              "a send was refused");
}

void Station::check_message(const Call& call, std::span<const uint8_t> bytes) {
  SIM_REQUIRE(bytes.size() >= kHeader && load_be64(bytes.data()) == call.token,
              "a message of another connection");
  SIM_REQUIRE(load_be32(bytes.data() + 12) == (call.active ? 0u : 1u), "a message of our own");
  SIM_REQUIRE(load_be32(bytes.data() + 8) == call.received, "a message is missing, or came twice");
  for (size_t i = kHeader; i < bytes.size(); ++i) {
    SIM_REQUIRE(bytes[i] == byte_of(call.token, !call.active, call.received, i),
                "a message is not what was sent");
  }
}

}  // namespace verbena::cm_storm
