// SPDX-License-Identifier: Apache-2.0
// Threads that sleep on a completion channel and receive meanwhile.
#include <array>
#include <cerrno>

#include <poll.h>

#include "base/signals.h"
#include "device/engine.h"

namespace verbena::device {

int Engine::wait(CompletionChannel& channel, CompletionQueue*& cq) {
  if (channel.take(cq)) return 0;
  {
    const Quiet quiet(*this);
    if (endpoint_->owes_acks()) settle(clock());
  }
  if (!channel.blocking()) return channel.wait(cq);
  if (!alarm_.enter()) {
    ++bystanders_;
    const int error = channel.wait(cq);
    --bystanders_;
    return error;
  }
  const int error = receive_for(channel, cq);
  // Nobody receives until this thread comes back or the helper looks. It looks often enough while
  // there is traffic; others that wait here cannot be left to that.
  bool wake = alarm_.leave(clock());
  if (bystanders_.load() != 0) {
    alarm_.leave_for_good();
    wake = true;
  }
  if (wake) wake_helper();
  return error;
}

int Engine::receive_for(CompletionChannel& channel, CompletionQueue*& cq) {
  std::array<pollfd, 1 + link::kMaxReceiveFds> set{};
  nfds_t count = 0;
  set[count++] = {channel.fd(), POLLIN, 0};
  for (const int fd : link_->receive_fds()) set[count++] = {fd, POLLIN, 0};
  bool may_sleep = false;
  {
    const Quiet quiet(*this);
    may_sleep = link_->prepare_sleep();
  }
  for (;;) {
    if (::poll(set.data(), count, may_sleep ? -1 : 0) < 0) {
      if (errno == EINTR && signals_restart()) continue;
      return errno;
    }
    if (set[0].revents != 0 && channel.take(cq)) return 0;
    const Quiet quiet(*this);
    channel.begin_direct();
    const Time now = clock();
    link_->woke();
    if (link_->receive(link::Look::kAll, now) > 0) {
      last_activity_ = now;
      // The ACK is not held for the answer: a peer that sleeps expects its send's event before the
      // answer's, as a NIC has it (perftest's -e hangs otherwise).
      settle(now, acks_of_batch());
    }
    if (channel.end_direct(cq)) return 0;
    // What completed was another thread's: its answer may take long, and this thread sleeps again.
    if (endpoint_->owes_acks()) settle(now);
    have_helper_by(next_deadline());
    may_sleep = link_->prepare_sleep();
  }
}

}  // namespace verbena::device
