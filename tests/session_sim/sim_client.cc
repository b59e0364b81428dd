// SPDX-License-Identifier: Apache-2.0
#include "session_sim/sim_client.h"

#include <utility>

#include "base/endian.h"

namespace verbena::session_sim {

using session::Outcome;

namespace {

constexpr size_t kSmallBytes = 40;   // inline
constexpr size_t kLargeBytes = 400;  // by RDMA
constexpr uint64_t kObjects = 3;
constexpr uint64_t kRegionAddress = 0x1000;

}  // namespace

Bytes pattern_of(uint64_t token, size_t length) {
  Bytes bytes(length);
  for (size_t i = 0; i < length; ++i) {
    bytes[i] = static_cast<uint8_t>(token >> (8 * (7 - i % 8)));
  }
  return bytes;
}

SimClient::SimClient(World& world, size_t index, uint64_t generation)
    : world_(world),
      index_(index),
      generation_(generation),
      client_(world.client_options(), world.random()) {}

void SimClient::start() {
  client_.start(world_.now());
  pump();
  work();
}

void SimClient::close() {
  client_.close(world_.now());
  pump();
}

void SimClient::die() {
  *alive_ = false;
  for (const auto& [id, token] : tokens_) world_.operation(token).client_died = true;
}

void SimClient::later(Duration span, std::function<void()> what) {
  world_.events().after(span, [alive = alive_, what = std::move(what)] {
    if (*alive) what();
  });
}

void SimClient::pump() {
  for (bool more = true; more;) {
    more = false;
    for (auto& action : client_.take_actions()) {
      more = true;
      std::visit([this](auto& a) { carry_out(a); }, action);
    }
    Bytes room(client_.message_room());
    while (const size_t size = client_.fill(room)) {
      more = true;
      auto* queue_pair = world_.queue_pair_of(index_, 0);
      if (queue_pair != nullptr) {
        world_.message_to_server(*queue_pair,
                                 Bytes(room.begin(), room.begin() + static_cast<ptrdiff_t>(size)));
      }
    }
  }
  arm();
}

void SimClient::arm() {
  const Time next = client_.next_time();
  if (next == kNever || next >= armed_) return;
  armed_ = next;
  world_.events().at(next, [this, next, alive = alive_] {
    if (!*alive) return;
    if (armed_ == next) armed_ = kNever;
    client_.on_time(world_.now());
    pump();
  });
}

void SimClient::carry_out(session::ConnectSide& a) { world_.connect_side(index_, a.attempt); }
void SimClient::carry_out(session::SendSide& a) {
  if (Side* side = world_.side_of(index_, a.attempt)) world_.send_to_server(*side, a.bytes);
}
void SimClient::carry_out(session::CloseSide& a) { world_.close_by_client(index_, a.attempt); }
void SimClient::carry_out(session::ConnectFabric& a) { world_.connect_fabric(index_, a.attempt); }

void SimClient::carry_out(session::EndFabric& a) {
  later(world_.slow_delay(), [this, attempt = a.attempt] {
    world_.end_by_client(index_, attempt);
    client_.on_fabric_ended(attempt, world_.now());
    pump();
  });
}

void SimClient::carry_out(session::Fence& a) {
  ++world_.tally().fences;
  later(world_.delay(), [this, id = a.id] {
    const auto token = tokens_.find(id);
    if (token != tokens_.end()) {
      world_.region(world_.operation(token->second).rkey).key_valid = false;
    }
    client_.on_fenced(id, world_.now());
    pump();
  });
}

void SimClient::carry_out(session::SessionReady& a) {
  if (a.resumed) ++world_.tally().resumed;
}
void SimClient::carry_out(session::SessionLost& /*a*/) {}
void SimClient::carry_out(session::ClientRefused& a) {
  world_.violation("a client is refused: " + a.detail);
}
void SimClient::carry_out(session::ClientClosed& /*a*/) { closed_ = true; }

void SimClient::carry_out(session::Completed& a) {
  const session::Completion& completion = a.completion;
  const auto it = tokens_.find(completion.id);
  if (it == tokens_.end()) return world_.violation("a completion of no request");
  Operation& operation = world_.operation(it->second);
  ++operation.completions;
  operation.outcome = completion.outcome;
  operation.status = completion.status;
  if (completion.outcome == Outcome::kCorrupted || completion.outcome == Outcome::kInvalid) {
    world_.violation("operation " + std::to_string(operation.token) + " ended as " +
                     session::name_of(completion.outcome) + ": " + completion.detail);
  }
  if (operation.rkey != 0) {
    if (completion.outcome == Outcome::kDone) check_data(operation, completion.length);
    world_.region(operation.rkey).free = true;
  }
  tokens_.erase(it);
}

// A read gives one write, whole; a write's memory is as it was.
void SimClient::check_data(const Operation& operation, uint64_t length) {
  const Bytes& bytes = world_.region(operation.rkey).bytes;
  if (length == 0) return;
  const Bytes first(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
  if (first != pattern_of(load_be64(bytes.data()), length)) {
    world_.violation("operation " + std::to_string(operation.token) + " has mixed data");
  }
}

void SimClient::work() {
  if (!world_.working()) return;
  const uint64_t burst = 1 + world_.random().below(4);
  for (uint64_t i = 0; i < burst; ++i) make_operation();
  pump();
  later(static_cast<Duration>(world_.random().below(300)) * kMillisecond, [this] { work(); });
}

void SimClient::make_operation() {
  Operation& operation = world_.add_operation();
  RandomSource& random = world_.random();
  const Time now = world_.now();
  operation.deadline = now + (static_cast<Duration>(random.below(6000)) + 50) * kMillisecond;
  const uint64_t token = operation.token;
  const ObjectId object{token, 1 + random.below(kObjects)};
  const std::string name = "op-" + std::to_string(token);
  const auto submit = [&](const protocol::Request& request) {
    operation.effect = protocol::effect_of(request);
    operation.id = client_.submit(request, operation.deadline, now);
  };
  switch (random.below(8)) {
    case 0: submit(protocol::CreateRequest{.object = object, .name = name}); break;
    case 1: submit(protocol::DeleteRequest{.object = protocol::ObjectRef::by(object)}); break;
    case 2: submit(protocol::StatRequest{.object = protocol::ObjectRef::by(object)}); break;
    case 3:
      submit(protocol::RangeRegisterRequest{.object = protocol::ObjectRef::by(object),
                                            .access = protocol::RangeAccess::kWrite});
      break;
    case 4:  make_io(operation, false, operation.deadline); break;
    default: make_io(operation, true, operation.deadline); break;
  }
  tokens_[operation.id] = token;
  if (random.below(30) == 0) {
    later(world_.delay(), [this, id = operation.id] {
      client_.cancel(id, world_.now());
      pump();
    });
  }
}

void SimClient::make_io(Operation& operation, bool write, Time deadline) {
  RandomSource& random = world_.random();
  const size_t length = random.below(3) == 0 ? kSmallBytes : kLargeBytes;
  operation.rkey = world_.add_region(length);
  Region& region = world_.region(operation.rkey);
  if (write) region.bytes = pattern_of(operation.token, length);
  std::vector<session::Buffer> buffers{
      {region.bytes.data(), static_cast<uint32_t>(length), operation.rkey, kRegionAddress}};
  const auto object = protocol::ObjectRef::by(ObjectId{0, 1 + random.below(kObjects)});
  if (write) {
    operation.effect = protocol::Effect::kStore;
    operation.repeatable = random.below(4) == 0;
    operation.id =
        client_.write(object, 0, std::move(buffers),
                      {.repeatable = operation.repeatable, .crc = {}}, deadline, world_.now());
  } else {
    operation.id = client_.read(object, 0, std::move(buffers), {}, deadline, world_.now());
  }
}

}  // namespace verbena::session_sim
