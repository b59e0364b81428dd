// SPDX-License-Identifier: Apache-2.0
#include "session_sim/sim_server.h"

#include <algorithm>
#include <utility>

#include "base/block_sums.h"
#include "session_sim/sim_client.h"

namespace verbena::session_sim {
namespace {

using protocol::Status;

[[nodiscard]] uint32_t crc_of(std::span<const uint8_t> bytes) {
  return crc32_finish(crc32_msb_update(kCrc32Start, bytes));
}

[[nodiscard]] uint64_t token_in(std::span<const uint8_t> pattern) {
  return load_be64(pattern.data());
}

}  // namespace

SimServer::SimServer(World& world, uint64_t run)
    : world_(world), run_(run), server_(world.server_options(), world.random()) {}

void SimServer::later(Duration span, std::function<void()> what) {
  world_.events().after(span, [alive = alive_, what = std::move(what)] {
    if (*alive) what();
  });
}

void SimServer::pump() {
  for (bool more = true; more;) {
    more = false;
    for (auto& action : server_.take_actions()) {
      more = true;
      std::visit([this](auto& a) { carry_out(a); }, action);
    }
  }
  arm();
}

void SimServer::arm() {
  const Time next = server_.next_time();
  if (next == kNever || next >= armed_) return;
  armed_ = next;
  world_.events().at(next, [this, next, alive = alive_] {
    if (!*alive) return;
    if (armed_ == next) armed_ = kNever;
    server_.on_time(world_.now());
    pump();
  });
}

void SimServer::carry_out(session::SendFrame& a) { world_.send_to_client(a.connection, a.bytes); }
void SimServer::carry_out(session::CloseConnection& a) { world_.close_by_server(a.connection); }
void SimServer::carry_out(session::SendMessage& a) {
  world_.message_to_client(a.queue_pair, a.bytes);
}
void SimServer::carry_out(session::CloseQueuePair& a) { world_.end_by_server(a.queue_pair); }
void SimServer::carry_out(session::SessionBegun& /*a*/) {}
void SimServer::carry_out(session::SessionEnded& a) {
  if (!released_.contains(a.session)) return;  // it never had a queue pair
  for (const auto& [number, job] : jobs_) {
    if (job.session == a.session) world_.violation("a session ended with requests executing");
  }
}

void SimServer::carry_out(session::DoEndStep& a) {
  if (a.step == session::EndStep::kQueuePair) world_.end_by_server(a.queue_pair);
  later(world_.delay(), [this, a] {
    if (a.step == session::EndStep::kWrites) abandon_transfers(a.session);
    if (a.step == session::EndStep::kRanges) {
      std::erase_if(ranges_, [&](const auto& range) { return range.second == a.session; });
      released_.insert(a.session);
    }
    server_.confirm(a.session, a.step, world_.now());
    pump();
  });
}

void SimServer::abandon_transfers(session::SessionId session) {
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const auto here = it++;
    if (here->second.session != session || !here->second.transferring) continue;
    server_.abandon(session, here->second.request, world_.now());
    jobs_.erase(here);
  }
}

void SimServer::on_message(uint64_t queue_pair, Bytes message) {
  const uint64_t number = next_job_++;
  Job& job = jobs_[number];
  job.number = number;
  job.queue_pair = queue_pair;
  job.message = std::move(message);
  const auto admitted = server_.on_message(queue_pair, job.message, world_.now());
  if (!admitted) {
    jobs_.erase(number);
  } else {
    job.session = admitted->session;
    job.request = admitted->request;
    begin(job);
  }
  pump();
}

void SimServer::begin(Job& job) {
  const auto* io = std::get_if<protocol::IoRequest>(&job.request);
  if (io != nullptr && !io->segments.empty()) return transfer(job, *io);
  later(world_.delay(), [this, number = job.number] { execute(number); });
}

// RDMA: what is sent arrives, whatever becomes of this process meanwhile.
void SimServer::transfer(Job& job, const protocol::IoRequest& io) {
  job.transferring = true;
  job.data.resize(io.length);
  const bool write = io.kind == protocol::IoKind::kWrite;
  if (!write) {
    const auto it = objects_.find(io.object.id);
    job.data = pattern_of(it == objects_.end() ? 0 : token_in(it->second), io.length);
  }
  const protocol::Segment segment = io.segments.all()[0];
  const size_t half = io.length / 2;
  job.pieces_left = 2;
  for (const size_t from : {size_t{0}, half}) {
    const size_t length = from == 0 ? half : io.length - half;
    Bytes bytes(job.data.begin() + static_cast<ptrdiff_t>(from),
                job.data.begin() + static_cast<ptrdiff_t>(from + length));
    world_.events().after(
        world_.slow_delay(),
        [this, &world = world_, alive = alive_, queue_pair = job.queue_pair, write, segment, from,
         length, bytes = std::move(bytes), number = job.number] {
          Region* region = world.remote_access(queue_pair, segment.rkey);
          if (region != nullptr && !write) {
            std::ranges::copy(bytes, region->bytes.begin() + static_cast<ptrdiff_t>(from));
          }
          if (!*alive) return;
          const auto job_it = jobs_.find(number);
          if (region != nullptr && write && job_it != jobs_.end()) {
            std::copy_n(region->bytes.begin() + static_cast<ptrdiff_t>(from), length,
                        job_it->second.data.begin() + static_cast<ptrdiff_t>(from));
          }
          later(world_.delay(), [this, number, ok = region != nullptr] { piece_done(number, ok); });
        });
  }
}

void SimServer::piece_done(uint64_t number, bool ok) {
  const auto it = jobs_.find(number);
  if (it == jobs_.end()) return;  // abandoned
  Job& job = it->second;
  --job.pieces_left;
  job.failed = job.failed || !ok;
  const QueuePair* queue_pair = world_.queue_pair(job.queue_pair);
  if (!queue_pair->server_alive) return;  // flushed: it is abandoned when the session ends
  if (job.failed) {
    world_.end_by_server(job.queue_pair);
    server_.on_queue_pair_failed(job.queue_pair, world_.now());
    return pump();
  }
  if (job.pieces_left != 0) return;
  job.transferring = false;
  later(world_.delay(), [this, number] { execute(number); });
}

void SimServer::execute(uint64_t number) {
  const auto it = jobs_.find(number);
  if (it == jobs_.end()) return world_.violation("a request was abandoned while it was executed");
  Job& job = it->second;
  if (released_.contains(job.session)) {
    world_.violation("a request was executed after its session's ranges were released");
  }
  const protocol::Response response = result_of(job);
  Bytes room(2 * protocol::kMaxIoOverhead);
  const size_t size = server_.respond(job.session, job.request, response, room, world_.now());
  if (size != 0) {
    room.resize(size);
    world_.message_to_client(job.queue_pair, std::move(room));
  }
  jobs_.erase(it);
  pump();
}

protocol::Response SimServer::result_of(Job& job) {
  auto response = protocol::failure_of(job.request, Status::kOk, {});
  if (const auto* io = std::get_if<protocol::IoRequest>(&job.request)) return io_result(job, *io);
  if (const auto* create = std::get_if<protocol::CreateRequest>(&job.request)) {
    world_.effect_of(create->object.high);
    std::get<protocol::CreateResponse>(response).object = create->object;
  } else if (const auto* removal = std::get_if<protocol::DeleteRequest>(&job.request)) {
    world_.effect_of(removal->object.id.high);
  } else if (std::holds_alternative<protocol::RangeRegisterRequest>(job.request)) {
    std::get<protocol::RangeRegisterResponse>(response).range = next_range_;
    ranges_[next_range_++] = job.session;
  }
  return response;
}

protocol::Response SimServer::io_result(Job& job, const protocol::IoRequest& io) {
  auto response = protocol::failure_of(job.request, Status::kOk, {});
  auto& answer = std::get<protocol::IoResponse>(response);
  answer.object = io.object.id;
  answer.length = io.length;
  if (io.kind == protocol::IoKind::kWrite) {
    if (io.segments.empty()) job.data.assign(io.payload.begin(), io.payload.end());
    if (crc_of(job.data) != io.crc) {
      return protocol::failure_of(job.request, Status::kCorrupted, "CRC");
    }
    answer.crc = io.crc;
    world_.effect_of(token_in(job.data));
    objects_[io.object.id] = job.data;
    return response;
  }
  if (io.segments.empty()) {
    const auto it = objects_.find(io.object.id);
    job.data = pattern_of(it == objects_.end() ? 0 : token_in(it->second), io.length);
    answer.data_inline = true;
    answer.payload = job.data;
  }
  answer.crc = crc_of(job.data);
  return response;
}

// Clients that follow the protocol never send what is refused.
void SimServer::check_no_faults() {
  for (uint8_t i = 0; i < protocol::kFaults; ++i) {
    const auto fault = static_cast<protocol::Fault>(i);
    // A CONNECT_INIT of a session that has just ended.
    if (fault == protocol::Fault::kIdentity) continue;
    if (server_.faults(fault) != 0) {
      world_.violation(std::string("the server refused a message: ") + protocol::text_of(fault));
    }
  }
  world_.tally().from_memory += server_.counter(session::ServerCounter::kAnsweredFromMemory);
}

}  // namespace verbena::session_sim
