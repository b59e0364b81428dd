// SPDX-License-Identifier: Apache-2.0
// Events, and the channels on which programs wait for them.
//
// One mutex, the mailbox's, guards the queues of all channels, what is counted of each id's events,
// and which channel is an id's. The device's threads take it while they hold the device's lock (see
// sink.h): who has it calls neither libibverbs nor the connection service.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <unordered_set>

#include <rdma/rdma_cma.h>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "cm/types.h"
#include "rdmacm/process.h"

namespace verbena::rdmacm {

struct CmId;
struct Membership;

// What the other end has said of itself and of the path.
struct Peer {
  cm::QpFacts qp{};
  uint8_t retry_count = 0;
  uint8_t mtu = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t local_ack_timeout = 0;
};

// As the program sees it, with what rdma_get_cm_event() needs to make it true before.
struct Event : rdma_cm_event {
  Event() : rdma_cm_event{} {}
  void set_private_data(std::span<const uint8_t> bytes);

  CmId* counted = nullptr;  // waits for the acknowledgement: the id, or for a request its listener
  Membership* membership = nullptr;
  cm::CommId comm{};
  Peer peer{};
  uint8_t private_length = 0;
  std::array<uint8_t, cm::kRtuPrivateBytes> private_bytes;
};

struct Mailbox {
  Mutex mutex;
  Condition changed;  // an acknowledgement
};
[[nodiscard]] inline Mailbox& mailbox() { return only<Mailbox>(); }

// The descriptor can be read as long as there are events; nobody but this class reads it.
class Channel : public rdma_event_channel, public ProcessOwned {
 public:
  // nullptr and errno.
  [[nodiscard]] static Channel* create();
  // Who waits on it goes on waiting, as with librdmacm, and so does who comes now: programs end
  // with a thread that waits in there, or is on its way back there, which must not run into an
  // error first. The memory stays until the last id and thread have left, and a while longer. Its
  // listeners hear no more, as nobody would get their requests.
  void close();

  // 0 and an event, counted as reported; EAGAIN (after close() EBADF), or EINTR. Waits unless the
  // program has said O_NONBLOCK, and goes on waiting after a handler with SA_RESTART.
  [[nodiscard]] int take(std::unique_ptr<Event>& event);

  void join(CmId& id) VERBENA_REQUIRES(mailbox().mutex) { ids_.insert(&id); }
  void leave(CmId& id) VERBENA_REQUIRES(mailbox().mutex);
  [[nodiscard]] bool is_closed() const VERBENA_REQUIRES(mailbox().mutex) { return closed_; }
  // Nothing comes into one that is closed.
  void push(std::unique_ptr<Event> event) VERBENA_REQUIRES(mailbox().mutex);
  // Those that `matches`, in their order.
  template <typename Matches>
  [[nodiscard]] std::deque<std::unique_ptr<Event>> remove(Matches matches)
      VERBENA_REQUIRES(mailbox().mutex);

 private:
  struct Remains;

  explicit Channel(UniqueFd descriptor);
  void show() VERBENA_REQUIRES(mailbox().mutex);
  void end_if_unused() VERBENA_REQUIRES(mailbox().mutex);
  void end_listeners() VERBENA_EXCLUDES(mailbox().mutex);

  UniqueFd fd_ VERBENA_GUARDED_BY(mailbox().mutex);
  std::deque<std::unique_ptr<Event>> queue_ VERBENA_GUARDED_BY(mailbox().mutex);
  bool shown_ VERBENA_GUARDED_BY(mailbox().mutex) = false;  // the descriptor can be read
  bool closed_ VERBENA_GUARDED_BY(mailbox().mutex) = false;
  bool waits_ VERBENA_GUARDED_BY(mailbox().mutex) = false;    // if closed: it was no O_NONBLOCK
  bool remains_ VERBENA_GUARDED_BY(mailbox().mutex) = false;  // it is in Remains
  uint32_t waiting_ VERBENA_GUARDED_BY(mailbox().mutex) = 0;  // threads in take()
  std::unordered_set<CmId*> ids_ VERBENA_GUARDED_BY(mailbox().mutex);
};

template <typename Matches>
std::deque<std::unique_ptr<Event>> Channel::remove(Matches matches) {
  std::deque<std::unique_ptr<Event>> removed;
  std::deque<std::unique_ptr<Event>> kept;
  for (auto& event : queue_) (matches(*event) ? removed : kept).push_back(std::move(event));
  queue_ = std::move(kept);
  show();
  return removed;
}

[[nodiscard]] inline bool is_ours(const rdma_event_channel* channel) {
  return channel != nullptr && static_cast<const Channel*>(channel)->is_ours();
}

// Gives an event of the library's own making to an id's channel.
void post(std::unique_ptr<Event> event);
// For an id that has no channel of the program's: waits for its next event, which is then
// id->event. 0 if it is one of those wanted; else the reason. Does nothing for others.
[[nodiscard]] int complete(CmId& id, std::initializer_list<rdma_cm_event_type> wanted);
// Acknowledges id->event, if there is one.
void drop_event(CmId& id);

}  // namespace verbena::rdmacm
