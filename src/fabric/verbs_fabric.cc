// SPDX-License-Identifier: Apache-2.0
#include "fabric/verbs_fabric.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "fabric/verbs_fabric_impl.h"

namespace verbena::fabric {
namespace {

constexpr int kPollAtOnce = 64;
constexpr int kMaxReads = 16;  // at once, of a queue pair, if the device has as many

bool has_private_data(const rdma_cm_event& event) {
  const bool may =
      event.event == RDMA_CM_EVENT_CONNECT_REQUEST || event.event == RDMA_CM_EVENT_CONNECT_RESPONSE;
  return may && event.param.conn.private_data != nullptr && event.param.conn.private_data_len > 0;
}

}  // namespace

std::string describe_error(std::string_view what, int error) {
  return fmt::format("{}: {}", what, std::strerror(error));
}

std::string VerbsFabric::name() const {
  return fmt::format("verbs, {}", library_.get_device_name(context_->device));
}

Result<void> VerbsFabric::choose_device() {
  int count = 0;
  ibv_context** const all = library_.get_devices(&count);
  if (all == nullptr) return fail(describe_error("cannot list RDMA devices", errno));
  std::string names;
  for (int i = 0; i < count; ++i) {
    const std::string name = library_.get_device_name(all[i]->device);
    names += (names.empty() ? "" : ", ") + name;
    if (context_ == nullptr && (options_.device.empty() || name == options_.device)) {
      context_ = all[i];  // librdmacm keeps it open
    }
  }
  library_.free_devices(all);
  if (context_ != nullptr) return {};
  if (count == 0) return fail(std::string("there is no RDMA device"));
  return fail(fmt::format("there is no RDMA device {}; there are: {}", options_.device, names));
}

Result<void> VerbsFabric::make_queues() {
  ibv_device_attr device{};
  if (const int error = library_.query_device(context_, &device); error != 0) {
    return fail(describe_error("cannot query the RDMA device", error));
  }
  const int reads = std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom);
  max_reads_ = static_cast<uint8_t>(std::clamp(reads, 1, kMaxReads));
  domain_ = library_.alloc_pd(context_);
  if (domain_ == nullptr) return fail(describe_error("cannot make a protection domain", errno));
  if (const KeyLibrary* const keys =
          options_.part_keys > 0 ? KeyLibrary::load(options_.libraries) : nullptr) {
    part_keys_ = PartKeys::open(*keys, domain_, options_.part_keys);
  }
  const size_t parts = part_keys_ != nullptr ? kMaxPartsBesideKeys : kMaxParts;
  max_parts_ = std::clamp<size_t>(static_cast<size_t>(device.max_sge), 1, parts);
  channel_ = library_.create_comp_channel(context_);
  if (channel_ == nullptr) return fail(describe_error("cannot make a completion channel", errno));
  const int entries = std::min(device.max_cqe, static_cast<int>(options_.completions));
  completions_ = library_.create_cq(context_, entries, nullptr, channel_, 0);
  if (completions_ == nullptr) return fail(describe_error("cannot make a completion queue", errno));
  completion_entries_ = static_cast<size_t>(entries);
  ibv_srq_init_attr srq{};
  srq.attr = {.max_wr = options_.receives, .max_sge = 1, .srq_limit = 0};
  receives_ = library_.create_srq(domain_, &srq);
  if (receives_ == nullptr) return fail(describe_error("cannot make a receive queue", errno));
  return {};
}

Result<void> VerbsFabric::make_message_memory() {
  received_key_ =
      library_.reg_mr(domain_, received_.memory(), received_.size(), IBV_ACCESS_LOCAL_WRITE);
  if (received_key_ != nullptr) {
    sent_key_ = library_.reg_mr(domain_, sent_.memory(), sent_.size(), 0);
  }
  if (sent_key_ == nullptr) {
    return fail(describe_error("cannot register memory for messages (see ulimit -l)", errno));
  }
  while (const auto index = received_.take()) post_receive(*index);
  return {};
}

Result<void> VerbsFabric::watch(int fd) const {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
      epoll_ctl(wake_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail(describe_error("cannot wait for the RDMA device", errno));
  }
  return {};
}

Result<void> VerbsFabric::open() {
  wake_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!wake_.valid() || !notices_.open()) {
    return fail(describe_error("cannot make an event channel", errno));
  }
  events_ = library_.create_event_channel();
  if (events_ == nullptr) {
    return fail(describe_error("the system has no RDMA device that can be used", errno));
  }
  if (const auto done = choose_device(); !done) return done;
  if (const auto done = make_queues(); !done) return done;
  if (const auto done = make_message_memory(); !done) return done;
  for (const int fd : {events_->fd, channel_->fd, notices_.fd()}) {
    if (const auto done = watch(fd); !done) return done;
  }
  return {};
}

VerbsFabric::~VerbsFabric() {
  for (const auto& [id, connection] : connections_) release(*connection);
  if (listener_ != nullptr) library_.destroy_id(listener_);
  part_keys_.reset();
  for (const auto& [number, key] : keys_) library_.dereg_mr(key);
  for (ibv_mr* const key : {received_key_, sent_key_}) {
    if (key != nullptr) library_.dereg_mr(key);
  }
  if (receives_ != nullptr) library_.destroy_srq(receives_);
  if (completions_ != nullptr) library_.destroy_cq(completions_);
  if (channel_ != nullptr) library_.destroy_comp_channel(channel_);
  if (domain_ != nullptr) library_.dealloc_pd(domain_);
  if (events_ != nullptr) library_.destroy_event_channel(events_);
}

// These take a system call each time. Whoever sleeps looks after arm(), and when it was woken.
size_t VerbsFabric::poll_connections(Handler& handler) {
  constexpr uint32_t kSeldom = 32;
  if (looks_ > 0) {
    --looks_;
  } else if (++polls_ % kSeldom != 0) {
    return 0;
  }
  size_t count = 0;
  rdma_cm_event* event = nullptr;
  while (library_.get_cm_event(events_, &event) == 0) {
    // Acknowledged first: an id with unacknowledged events cannot be destroyed.
    rdma_cm_event copy = *event;
    std::array<uint8_t, UINT8_MAX> data;
    if (has_private_data(copy)) {
      std::memcpy(data.data(), copy.param.conn.private_data, copy.param.conn.private_data_len);
      copy.param.conn.private_data = data.data();
    }
    library_.ack_cm_event(event);
    on_event(copy, handler);
    ++count;
  }
  return count;
}

size_t VerbsFabric::poll_completions(Handler& handler) {
  std::array<ibv_wc, kPollAtOnce> done;
  size_t count = 0;
  // Not for ever, however quick the peers are.
  while (count < completion_entries_) {
    const int got = ibv_poll_cq(completions_, kPollAtOnce, done.data());
    for (int i = 0; i < got; ++i) on_completion(done[static_cast<size_t>(i)], handler);
    if (got > 0) count += static_cast<size_t>(got);
    if (got < kPollAtOnce) break;
  }
  return count;
}

size_t VerbsFabric::poll(Handler& handler) {
  flush();
  notices_.begin_poll();
  size_t count = poll_connections(handler);
  count += poll_completions(handler);
  serve_waiting(handler);
  // Last: what a connection had in the completion queue is polled before it is destroyed.
  count += notices_.deliver(
      handler, [&](ConnectionId id, const std::string& why) { tell_failure(id, why, handler); },
      [&](ConnectionId id) { destroy(id, handler); });
  flush();
  notices_.end_poll();
  return count;
}

void VerbsFabric::arm() {
  flush();
  looks_ = 2;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  // There is one event at most, however often it was armed.
  if (armed_ && library_.get_cq_event(channel_, &cq, &context) == 0) {
    library_.ack_cq_events(completions_, 1);
  }
  armed_ = true;
  static_cast<void>(ibv_req_notify_cq(completions_, 0));
}

Result<std::unique_ptr<Fabric>> open_verbs_fabric(const VerbsOptions& options) {
  const auto library = VerbsLibrary::load(options.libraries);
  if (!library) return fail(library.error());
  try {
    auto fabric = std::make_unique<VerbsFabric>(**library, options);
    if (const auto done = fabric->open(); !done) return fail(done.error());
    return fabric;
  } catch (const std::bad_alloc&) {
    return fail(std::string("there is no memory for messages"));
  }
}

}  // namespace verbena::fabric
