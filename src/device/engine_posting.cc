// SPDX-License-Identifier: Apache-2.0
// The engine: posting. A thread that finds the lock taken does not wait for it, if it is the one
// that posts to this queue: it appends, rings the queue pair's doorbell and goes on; who has the
// lock sends for it before, or right after, he lets go (EngineLock::unlock()).
#include <algorithm>

#include "device/engine.h"
#include "transport/posting.h"

namespace verbena::device {
namespace {

using transport::Error;
using transport::QueuePair;
using transport::RecvRequest;
using transport::SendRequest;
using transport::SharedRecvQueue;

// Appends one after the other until one is refused.
template <typename Request, typename Append>
[[nodiscard]] Engine::Posted append_each(std::span<const Request> requests, Append&& append) {
  Engine::Posted posted;
  for (const Request& request : requests) {
    if (const auto appended = append(request); !appended) {
      posted.refused = appended.error();
      break;
    }
    ++posted.count;
  }
  return posted;
}

template <typename Queue>
[[nodiscard]] Engine::Posted append_receives(Queue& queue, std::span<const RecvRequest> requests) {
  return append_each(requests, [&](const RecvRequest& request) {
    return transport::posting::append(queue, request);
  });
}

// There may be room once what lies in the queue is looked at, for which it takes the lock.
[[nodiscard]] bool is_full(const Engine::Posted& posted) {
  return posted.refused == Error::kQueueFull;
}

}  // namespace

// Nothing where the queue is another thread's, or the process is about to fork. Once it is left,
// the queue may be gone: who has the lock may have found what was appended, so that it is complete,
// and the program takes its queue pair down, and the device. That waits until the bell is rung.
template <typename Append>
std::optional<Engine::Posted> Engine::aside(transport::Poster& poster, Append&& append) {
  std::optional<Posted> posted;
  // Sequentially consistent, as is `forking_`: pairs with before_fork(). Not while it waits for the
  // lock.
  const EngineLock::Guest guest(lock_);
  if (!forking_ && poster.enter()) {
    bool rings = false;
    posted = append(rings);
    poster.leave();
    if (rings) lock_.ring();
  }
  return posted;
}

Engine::Posted Engine::append_sends(QueuePair& qp, std::span<const SendRequest> requests,
                                    Chain chain) {
  const uint32_t port_mtu = endpoint_->port_mtu();
  if (chain == Chain::kWhole) {
    const auto appended = transport::posting::append_all(qp, requests, port_mtu);
    if (!appended) return {.count = 0, .refused = appended.error()};
    return {.count = requests.size()};
  }
  return append_each(requests, [&](const SendRequest& request) {
    return transport::posting::append(qp, request, port_mtu);
  });
}

Engine::Posted Engine::post_sends(QueuePair& qp, std::span<const SendRequest> requests,
                                  Chain chain) {
  std::optional<Posted> aside;
  if (!lock_.try_in_passing()) {
    aside = post_sends_aside(qp, requests, chain);
    if (aside && !is_full(*aside)) return *aside;
    lock_.lock();
  }
  const Locked locked(*this, std::adopt_lock);
  qp.send_poster.claim();
  if (aside) endpoint_->on_posted(qp, locked.now());
  const size_t before = aside ? aside->count : 0;
  Posted posted{.count = before};
  for (;;) {
    const Posted some = append_sends(qp, requests.subspan(posted.count), chain);
    // All at once: to look at the queue pair costs as much as to send a small message.
    if (some.count != 0) endpoint_->on_posted(qp, locked.now());
    posted.count += some.count;
    posted.refused = some.refused;
    // What was sent of an unreliable queue pair has left its place in the queue.
    if (!is_full(some) || some.count == 0) break;
  }
  link_->show();
  return posted;
}

// Without the lock. Nothing if that cannot be.
std::optional<Engine::Posted> Engine::post_sends_aside(QueuePair& qp,
                                                       std::span<const SendRequest> requests,
                                                       Chain chain) {
  if (std::ranges::any_of(requests, &transport::SendQueue::is_rare, &SendRequest::op)) {
    return std::nullopt;
  }
  return aside(qp.send_poster, [&](bool& rings) {
    const Posted appended = append_sends(qp, requests, chain);
    if (appended.count != 0) list(qp);
    rings = appended.count != 0;
    return appended;
  });
}

Engine::Posted Engine::post_receives(QueuePair& qp, std::span<const RecvRequest> requests) {
  std::optional<Posted> aside;
  if (!lock_.try_in_passing()) {
    aside = post_receives_aside(qp, requests);
    if (aside && !is_full(*aside)) return *aside;
    lock_.lock();
  }
  const Quiet quiet(*this, std::adopt_lock);
  qp.recv_poster.claim();
  // Of a queue pair in error, what was posted before leaves room.
  if (aside) endpoint_->on_posted_receives(qp);
  const size_t before = aside ? aside->count : 0;
  Posted posted = append_receives(qp, requests.subspan(before));
  endpoint_->on_posted_receives(qp);
  posted.count += before;
  return posted;
}

std::optional<Engine::Posted> Engine::post_receives_aside(QueuePair& qp,
                                                          std::span<const RecvRequest> requests) {
  return aside(qp.recv_poster, [&](bool& rings) {
    const Posted appended = append_receives(qp, requests);
    rings = transport::posting::must_ring(qp);
    if (rings) list(qp);
    return appended;
  });
}

Engine::Posted Engine::post_receives(SharedRecvQueue& srq, std::span<const RecvRequest> requests) {
  if (!lock_.try_in_passing()) {
    const auto posted = aside(srq.poster, [&](bool&) { return append_receives(srq, requests); });
    if (posted) return *posted;
    lock_.lock();
  }
  const Quiet quiet(*this, std::adopt_lock);
  srq.poster.claim();
  return append_receives(srq, requests);
}

void Engine::list(QueuePair& qp) { endpoint_->doorbells().ring(qp); }

void Engine::answer_doorbells() {
  lock_.assert_held();
  quiet_until_ = 0;
  progress_.answer(clock());
}

void Engine::leave_doorbells() { world_.wake_helper(); }

}  // namespace verbena::device
