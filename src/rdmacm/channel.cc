// SPDX-License-Identifier: Apache-2.0
#include "rdmacm/channel.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/c_interface.h"
#include "base/signals.h"
#include "rdmacm/failure.h"
#include "rdmacm/id.h"

namespace verbena::rdmacm {
namespace {

// A thread can be cancelled here.
void sleep_until_interrupted() {
  do (void)::poll(nullptr, 0, -1);
  while (signals_restart());
}

}  // namespace

void Event::set_private_data(std::span<const uint8_t> bytes) {
  private_length = static_cast<uint8_t>(std::min(bytes.size(), private_bytes.size()));
  std::copy_n(bytes.begin(), private_length, private_bytes.begin());
}

Channel::Channel(UniqueFd descriptor) : rdma_event_channel{descriptor.get()} {
  fd_ = std::move(descriptor);
}

Channel* Channel::create() {
  UniqueFd descriptor(::eventfd(0, EFD_CLOEXEC));
  if (!descriptor.valid()) return nullptr;
  return new Channel(std::move(descriptor));
}

// Under the mutex the count is 0 or 1, so that neither call waits.
void Channel::show() {
  const bool wanted = !queue_.empty();
  if (wanted == shown_) return;
  uint64_t count = 1;
  const ssize_t done =
      wanted ? ::write(fd_.get(), &count, sizeof count) : ::read(fd_.get(), &count, sizeof count);
  if (done == sizeof count) shown_ = wanted;
}

void Channel::push(std::unique_ptr<Event> event) {
  if (closed_) return;
  queue_.push_back(std::move(event));
  show();
}

void Channel::leave(CmId& id) {
  ids_.erase(&id);
  end_if_unused();
}

// The memory of the last few channels that were destroyed.
struct Channel::Remains {
  static constexpr size_t kMost = 8;
  std::deque<Channel*> channels;
};

void Channel::end_if_unused() {
  if (!closed_ || !ids_.empty() || waiting_ != 0 || remains_) return;
  std::deque<Channel*>& channels = only<Remains>().channels;
  channels.push_back(this);
  remains_ = true;
  if (channels.size() <= Remains::kMost) return;
  Channel* const oldest = channels.front();
  channels.pop_front();
  oldest->remains_ = false;
  if (oldest->waiting_ == 0) delete oldest;
}

void Channel::end_listeners() {
  std::vector<CmId*> listeners;
  {
    const MutexLock lock(mailbox().mutex);
    for (CmId* const id : ids_) {
      if (id->listener != cm::ListenerId{}) listeners.push_back(id);
    }
  }
  for (CmId* const id : listeners) stop_listening(*id);
}

void Channel::close() {
  end_listeners();  // what comes until then is in the queue
  std::deque<std::unique_ptr<Event>> dropped;
  {
    const MutexLock lock(mailbox().mutex);
    closed_ = true;
    const int flags = ::fcntl(fd_.get(), F_GETFL);
    waits_ = flags >= 0 && (flags & O_NONBLOCK) == 0;
    dropped = remove([](const Event&) { return true; });
    fd_.reset();
    end_if_unused();
  }
  for (const auto& event : dropped) {
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) discard_request(of(event->id));
  }
}

int Channel::take(std::unique_ptr<Event>& event) {
  MutexLock lock(mailbox().mutex);
  while (!closed_) {
    if (!queue_.empty()) {
      event = std::move(queue_.front());
      queue_.pop_front();
      show();
      ++event->counted->reported;
      if (event->membership != nullptr) ++event->membership->reported;
      return 0;
    }
    ++waiting_;
    const int descriptor = fd_.get();  // close() may be next
    lock.unlock();
    const int flags = ::fcntl(descriptor, F_GETFL);
    int error = 0;
    pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
    if (flags < 0 || ((flags & O_NONBLOCK) == 0 && ::poll(&readable, 1, -1) < 0)) {
      error = errno;
    } else if ((flags & O_NONBLOCK) != 0) {
      error = EAGAIN;
    }
    lock.lock();
    --waiting_;
    if (error == EINTR && signals_restart()) continue;
    if (error != 0 && !closed_) return error;
  }
  const bool waits = waits_;
  if (waits) {
    ++waiting_;
    lock.unlock();
    sleep_until_interrupted();
    lock.lock();
    --waiting_;
  }
  end_if_unused();
  return waits ? EINTR : EBADF;
}

void post(std::unique_ptr<Event> event) {
  const MutexLock lock(mailbox().mutex);
  event->counted->home->push(std::move(event));
}

void drop_event(CmId& id) {
  if (id.event == nullptr) return;
  (void)rdma_ack_cm_event(id.event);
  id.event = nullptr;
}

int complete(CmId& id, std::initializer_list<rdma_cm_event_type> wanted) {
  if (!id.is_alone()) return 0;
  drop_event(id);
  if (rdma_get_cm_event(id.channel, &id.event) != 0) return errno;
  const rdma_cm_event& event = *id.event;
  if (event.event == RDMA_CM_EVENT_REJECTED) return ECONNREFUSED;
  if (event.status != 0) return std::abs(event.status);
  return std::ranges::find(wanted, event.event) != wanted.end() ? 0 : ECONNABORTED;
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT rdma_event_channel* rdma_create_event_channel(void) {
  return guarded([]() -> rdma_event_channel* { return Channel::create(); });
}

VERBENA_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) {
  if (is_ours(channel)) static_cast<Channel*>(channel)->close();
}

VERBENA_EXPORT int rdma_ack_cm_event(rdma_cm_event* event) {
  if (event == nullptr) return answer(EINVAL);
  auto* const whole = static_cast<Event*>(event);
  if (whole->counted->is_ours()) {
    const verbena::MutexLock lock(mailbox().mutex);
    ++whole->counted->acknowledged;
    if (whole->membership != nullptr) ++whole->membership->acknowledged;
    mailbox().changed.notify_all();
  }
  delete whole;
  return 0;
}
