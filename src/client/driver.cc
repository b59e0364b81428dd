// SPDX-License-Identifier: Apache-2.0
#include "client/driver.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "base/relax.h"

namespace verbena::client {
namespace {

// However much there is to do on the fabric.
constexpr Duration kSideChannelEvery = kMillisecond;
// For the last words when it is closed.
constexpr Duration kClosing = 2 * kSecond;

}  // namespace

Time Driver::read_clock() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

Driver::Driver(const Options& options, std::unique_ptr<fabric::Fabric> fabric)
    : options_(options),
      fabric_(std::move(fabric)),
      busy_poll_(options.busy_poll),
      memory_(*fabric_) {}

Driver::~Driver() {
  if (worker_.joinable()) {
    MutexLock lock(mutex_);
    now_ = read_clock();
    const Time give_up = now_ + kClosing;
    machine_->close(now_);
    while (!closed_ && now_ < give_up) {
      static_cast<void>(drive());
      tell();
      if (!closed_) cpu_relax();
    }
    stopping_ = true;
    wake();
    if (thread_ == Thread::kAside) thread_ = Thread::kAwake;
    thread_turn_.notify_one();
    lock.unlock();
    worker_.join();
  }
  // Nothing of the connection may use memory any more.
  if (connection_ != 0) {
    fabric_->end(connection_);
    const Time give_up = read_clock() + kClosing;
    while (connection_ != 0 && read_clock() < give_up) static_cast<void>(fabric_->poll(*this));
  }
}

Result<void> Driver::start() {
  const auto failed = [](const char* what, int error) {
    return fail(Error{Code::kLocal, {}, fmt::format("{}: {}", what, std::strerror(error))});
  };
  const MutexLock lock(mutex_);
  if (const int error = random_.seed(); error != 0) return failed("no random numbers", error);
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.valid() || !wake_.valid()) return failed("no file descriptors", errno);
  // Only changes: while somebody drives, nobody else looks.
  for (const int fd : {fabric_->fd(), wake_.get()}) {
    epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.fd = fd}};
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return failed("epoll", errno);
  }
  now_ = read_clock();
  session::ClientOptions session{.secret = options_.secret};
  session.max_inline_bytes =
      static_cast<uint32_t>(fabric_->message_bytes() - protocol::kMaxIoOverhead);
  session.fabric = protocol::number_of_fabric(fabric_->kind());
  machine_.emplace(session, random_);
  machine_->start(now_);
  carry_out_actions();
  try {
    worker_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    return failed("no thread", error.code().value());
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(options_.timeout);
  while (!ready_ && !refused_ && changed_.wait_until(mutex_, until)) {}
  if (ready_) return {};
  const std::string where = fmt::format("{}:{}", options_.host, options_.port);
  if (refused_) {
    return fail(Error{refusal_, {}, fmt::format("server {}: {}", where, *refused_)});
  }
  return fail(Error{Code::kUnreachable,
                    {},
                    fmt::format("server {} cannot be reached: {}", where,
                                why_lost_.empty() ? "no answer" : why_lost_)});
}

protocol::Limits Driver::limits() const {
  const MutexLock lock(mutex_);
  return limits_;
}
std::string Driver::why_lost() const {
  const MutexLock lock(mutex_);
  return why_lost_;
}

std::string Driver::fabric_name() const {
  const MutexLock lock(mutex_);
  return fabric_->name();
}
void Driver::set_passive_wait(bool on) {
  const MutexLock lock(mutex_);
  busy_poll_ = on ? 0 : options_.busy_poll;
}

// --- requests

void Driver::submit(const protocol::Request& request, Completed done) {
  const MutexLock lock(mutex_);
  now_ = read_clock();
  const auto id = machine_->submit(request, deadline(), now_);
  requests_.emplace(id, Request{std::move(done), {}});
  after_submit();
}

void Driver::transfer(const Io& io, Completed done) {
  const MutexLock lock(mutex_);
  now_ = read_clock();
  uint64_t bytes = 0;
  for (const auto& piece : io.memory) bytes += piece.size();
  Request request{std::move(done), {}};
  std::vector<session::Buffer> buffers;
  buffers.reserve(io.memory.size());
  for (const auto& piece : io.memory) {
    if (piece.empty()) continue;
    session::Buffer buffer{piece.data(), static_cast<uint32_t>(piece.size()), 0, 0};
    if (bytes > limits_.inline_bytes) {
      auto entry = memory_.use(piece);
      if (!entry) {
        for (MemoryCache::Entry* const used : request.memory) memory_.release(*used);
        session::Completion failed;
        failed.outcome = session::Outcome::kInvalid;
        failed.detail = entry.error();
        finished_.push_back({std::move(request.done), std::move(failed)});
        return after_submit();
      }
      request.memory.push_back(*entry);
      buffer.rkey = (*entry)->key.remote;
      buffer.address =
          (*entry)->key.address + static_cast<uint64_t>(piece.data() - (*entry)->begin);
    }
    buffers.push_back(buffer);
  }
  const auto id =
      io.write ? machine_->write(io.object, io.offset, std::move(buffers),
                                 {.repeatable = io.repeatable, .crc = io.crc}, deadline(), now_)
               : machine_->read(io.object, io.offset, std::move(buffers),
                                {.caller_checks = io.caller_checks}, deadline(), now_);
  requests_.emplace(id, std::move(request));
  after_submit();
}

void Driver::forget(const Io& io) {
  const MutexLock lock(mutex_);
  for (const auto& piece : io.memory) memory_.forget(piece);
}

// --- driving

bool Driver::drive() {
  now_ = read_clock();
  const size_t before = finished_.size();
  const bool happened = fabric_->poll(*this) > 0;
  if (now_ >= side_at_) {
    take_side_events();
    side_at_ = now_ + kSideChannelEvery;
  }
  if (now_ >= machine_->next_time()) machine_->on_time(now_);
  carry_out_actions();
  send_messages();
  carry_out_actions();
  return happened || finished_.size() > before;
}

void Driver::send_messages() {
  if (connection_ == 0 || ending_) return;
  for (;;) {
    const auto room = fabric_->message_room(connection_);
    if (room.empty()) break;
    const size_t bytes = machine_->fill(room);
    if (bytes == 0) break;
    fabric_->send(connection_, bytes);
  }
  fabric_->flush();
}

// --- the side channel

void Driver::take_side_events() {
  for (;;) {
    switch (side_.next()) {
      case SideSocket::Event::kNothing:   return;
      case SideSocket::Event::kConnected: machine_->on_side_connected(side_attempt_, now_); break;
      case SideSocket::Event::kBytes:
        machine_->on_side_bytes(side_attempt_, side_.bytes(), now_);
        break;
      case SideSocket::Event::kClosed:
        why_lost_ = side_.why();
        machine_->on_side_closed(side_attempt_, now_);
        break;
    }
    carry_out_actions();
  }
}

// --- the fabric

void Driver::on_connected(fabric::ConnectionId connection) {
  if (connection == connection_) machine_->on_fabric_connected(fabric_attempt_, now_);
}
void Driver::on_message(fabric::ConnectionId connection, std::span<const uint8_t> message) {
  if (connection == connection_) machine_->on_message(fabric_attempt_, message, now_);
}
void Driver::on_sendable(fabric::ConnectionId /*connection*/) {}  // drive() asks anyway
void Driver::on_done(fabric::ConnectionId /*connection*/, fabric::OperationId /*operation*/,
                     bool /*good*/) {}  // the server does RDMA, we do not
void Driver::on_failed(fabric::ConnectionId connection, std::string_view why) {
  if (connection != connection_) return;
  why_lost_ = fmt::format("RDMA: {}", why);
  machine_->on_fabric_failed(fabric_attempt_, now_);
}
void Driver::on_ended(fabric::ConnectionId connection) {
  if (connection != connection_) return;
  connection_ = 0;
  ending_ = false;
  if (machine_) machine_->on_fabric_ended(fabric_attempt_, now_);
}

// --- what the session wants

void Driver::carry_out_actions() {
  for (auto actions = machine_->take_actions(); !actions.empty();
       actions = machine_->take_actions()) {
    for (auto& action : actions) {
      std::visit([this](auto& a) VERBENA_REQUIRES(mutex_) { carry_out(a); }, action);
    }
  }
}

void Driver::carry_out(session::ConnectSide& action) {
  side_attempt_ = action.attempt;
  if (side_.connect(options_.host, options_.port)) return;
  why_lost_ = side_.why();
  machine_->on_side_closed(action.attempt, now_);
}
void Driver::carry_out(session::SendSide& action) {
  if (action.attempt == side_attempt_) side_.send(action.bytes);
}
void Driver::carry_out(session::CloseSide& action) {
  if (action.attempt == side_attempt_) side_.close_after_sending();
}
void Driver::carry_out(session::ConnectFabric& action) {
  fabric_attempt_ = action.attempt;
  connection_ = fabric_->connect({action.host.empty() ? side_.peer() : action.host, action.port});
}
void Driver::carry_out(session::EndFabric& action) {
  fabric_attempt_ = action.attempt;
  if (connection_ == 0) return machine_->on_fabric_ended(action.attempt, now_);
  ending_ = true;
  fabric_->end(connection_);
}
// Ending the queue pair is the one sure way: the key may be in use by other requests.
void Driver::carry_out(session::Fence& /*action*/) {
  why_lost_ = "a request was not answered in time";
  machine_->on_fabric_failed(fabric_attempt_, now_);
}
void Driver::carry_out(session::Completed& action) {
  const auto found = requests_.find(action.completion.id);
  if (found == requests_.end()) return;
  for (MemoryCache::Entry* const entry : found->second.memory) memory_.release(*entry);
  finished_.push_back({std::move(found->second.done), std::move(action.completion)});
  requests_.erase(found);
}
void Driver::carry_out(session::SessionReady& action) {
  limits_ = action.limits;
  if (ready_) ++reconnects;
  ready_ = true;
  changed_.notify_all();
}
void Driver::carry_out(session::SessionLost& action) { why_lost_ = action.why; }
void Driver::carry_out(session::ClientRefused& action) {
  refused_ = action.detail;
  if (action.reason == protocol::EndReason::kNoFabric) refusal_ = Code::kNoFabric;
  changed_.notify_all();
}
void Driver::carry_out(session::ClientClosed& /*action*/) { closed_ = true; }

}  // namespace verbena::client
