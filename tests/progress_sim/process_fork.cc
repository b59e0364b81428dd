// SPDX-License-Identifier: Apache-2.0
// Process: fork, by the kernel's own: the child has a copy of everything, and shares descriptors
// and the memory that processes of the host share. What Device, Engine and HostLink do around it is
// done here in the same order.
#include <array>
#include <cerrno>

#include "progress_sim/process.h"

namespace verbena::progress_sim {

void Process::before_fork() {
  lock_.lock_first();
  sent_.before_fork();
  received_.before_fork();
  if (spare_.has_value()) (*spare_).before_fork();
  sent_channel_.before_fork();
  received_channel_.before_fork();
}

void Process::unlock_after_fork() {
  received_channel_.after_fork();
  sent_channel_.after_fork();
  if (spare_.has_value()) (*spare_).after_fork();
  received_.after_fork();
  sent_.after_fork();
}

void Process::after_fork_in_parent() {
  unlock_after_fork();
  lock_.unlock();
}

void Process::after_fork_in_child() {
  scheduler_.kill_others();
  sent_channel_.abandon_in_child();
  received_channel_.abandon_in_child();
  unlock_after_fork();
  link_->abandon_in_child();
  host_.abandon();
  wake_.reset();
  abandoned_ = true;
  lock_.unlock_in_child();
}

void Process::use_in_child() {
  const uint64_t received = received_packets_.packets;
  const uint64_t sent = sent_packets_.packets;
  for (int i = 0; i < 4; ++i) {
    for (device::CompletionQueue* const cq : {&sent_, &received_}) {
      (void)poll(*cq);
      arm(*cq);
    }
    for (uint8_t slot = 1; slot < kPeers; ++slot) {
      if (post(slot, 1, 8)) report_("a forked child has a peer");
      lock_.lock();
      if (link_->way_to(slot) != nullptr) report_("a forked child has a ring");
      if (!link_->prepare_sleep()) report_("a forked child has something to receive");
      lock_.unlock();
    }
    // Timers of the link that were set.
    scheduler_.sleep_until(clock() + kSecond);
  }
  for (device::CompletionChannel* const channel : {&sent_channel_, &received_channel_}) {
    device::CompletionQueue* cq = nullptr;
    if (progress_.wait(*channel, cq) != ENODEV) report_("a forked child has an event");
  }
  replace_queue_pair(1);
  if (spare_.has_value()) destroy_spare();
  progress_.stop();
  if (received_packets_.packets != received) report_("a forked child receives");
  if (sent_packets_.packets != sent) report_("a forked child sends");
}

std::vector<bool> Process::readable() const {
  const Host::Member& self = host_.member(slot_);
  std::vector<bool> all;
  for (const int fd : std::to_array({wake_.get(), self.control.get(), self.receive.get(),
                                     link_ == nullptr ? -1 : link_->fd(), sent_channel_.fd(),
                                     received_channel_.fd()})) {
    all.push_back(Scheduler::is_readable({&fd, 1}));
  }
  return all;
}

}  // namespace verbena::progress_sim
