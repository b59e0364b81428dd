// SPDX-License-Identifier: Apache-2.0
// The device as a program sees it: one per process, shared by its contexts. Thin: it checks
// arguments, takes the engine's lock, and says no with the errno that the verbs man pages name.
//
// Thread-safe as verbs promise: any call from any thread; destroying an object that another thread
// is using is the caller's mistake. A queue pair or SRQ that is destroyed refuses what is posted to
// it, until the object here is freed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "device/completion_channel.h"
#include "device/completion_queue.h"
#include "device/engine.h"
#include "device/event_queue.h"
#include "device/gid_table.h"
#include "device/limits.h"
#include "device/on_demand.h"

namespace verbena::device {

// A value, or an errno.
template <typename T>
using Outcome = Result<T, int>;

// Why the device does not start.
using StartError = link::MembershipError;

class Context;

struct Pd {
  Context* context = nullptr;
  PdId id;
  uint32_t users = 0;  // queue pairs and SRQs; regions and windows are counted by the domain
  std::atomic<uint32_t> address_handles{0};  // the owner's; it is busy while there are some
  // Its context was closed: nothing can be made in it any more. Under the engine's lock; read
  // without.
  std::atomic<bool> abandoned{false};
};

struct Mr {
  Pd* pd = nullptr;
  uint8_t* base = nullptr;
  uint64_t length = 0;
  uint64_t iova = 0;
  uint32_t access = 0;
  LKey lkey;
  RKey rkey;
};

struct FileId {
  uint64_t device = 0;
  uint64_t inode = 0;
  friend bool operator==(const FileId&, const FileId&) = default;
};

// XRC: whose targets may fill whose shared receive queues. Of one process: another that opens the
// same file has a domain of its own.
struct Xrcd {
  XrcdId id;
  std::optional<FileId> file;  // who opens it again gets the same domain
  uint32_t users = 0;          // queue pairs and SRQs
};

// What rereg_mr() is to change; the rest stays as it was.
struct RegionChange {
  struct Place {
    void* start = nullptr;
    uint64_t length = 0;
    uint64_t iova = 0;
  };
  Pd* pd = nullptr;
  std::optional<Place> place{};
  std::optional<uint32_t> access{};
};

struct Prefetch {
  bool writable = false;
  bool fault = true;  // pages that are not there are fetched
  bool wait = true;   // and it is told when they cannot be
};

struct Srq {
  Context* context = nullptr;
  Pd* pd = nullptr;
  transport::SharedRecvQueue* queue = nullptr;
  void* cookie = nullptr;
  // XRC
  Xrcd* xrcd = nullptr;
  CompletionQueue* cq = nullptr;
  uint32_t events = 0;  // given about it; known once it is destroyed
  // `queue`, once it is destroyed: as with a queue pair.
  std::unique_ptr<transport::SharedRecvQueue> destroyed{};
};

struct SrqRequest {
  uint32_t entries = 0;
  uint32_t max_sge = 0;
  Xrcd* xrcd = nullptr;  // XRC, and then
  CompletionQueue* cq = nullptr;
  void* cookie = nullptr;
};

struct QpRequest {
  transport::QpType type = transport::QpType::kRc;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* recv_cq = nullptr;
  Srq* srq = nullptr;
  Xrcd* xrcd = nullptr;  // kXrcRecv, which has neither PD nor CQs
  transport::SendQueueCaps send;
  uint32_t max_recv_entries = 0;
  uint32_t max_recv_sge = 0;
  bool signal_all = false;
  bool signature_pipelining = false;  // a wrong signature stops the send queue
  bool block_own_multicast = false;   // does not hear what it sends to a group itself
  void* cookie = nullptr;
};

struct Qp {
  Context* context = nullptr;
  Pd* pd = nullptr;
  Qpn qpn;
  transport::QueuePair* queue = nullptr;  // for posting
  QpRequest request;
  uint32_t events = 0;  // given about it; known once it is destroyed
  // `queue`, once it is destroyed: another thread may be about to post to it, which is refused as
  // long as this object is there.
  std::unique_ptr<transport::QueuePair> destroyed{};

  // Those it was made with: both, or an XRC queue pair's one or none.
  [[nodiscard]] std::vector<CompletionQueue*> cqs() const {
    std::vector<CompletionQueue*> list{request.send_cq, request.recv_cq};
    std::erase(list, nullptr);
    return list;
  }
};

// An address vector as programs give it, before it is a path: the source by its index.
struct AddressVector {
  wire::Gid destination;
  uint32_t source_index = 0;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = transport::kDefaultHopLimit;  // 0: the default
  uint8_t service_level = 0;
};

class Device final : public EventRouter {
 public:
  // The process's device, started by the first to ask and stopped by the last to let go. The error
  // says why not.
  [[nodiscard]] static Result<std::shared_ptr<Device>, StartError> acquire(
      const EngineOptions& options);
  ~Device() override;

  [[nodiscard]] Engine& engine() const { return *engine_; }
  [[nodiscard]] GidTable& gids() { return gids_; }
  [[nodiscard]] const DeviceLimits& limits() const { return limits_; }
  // Around fork, so that the child finds nothing half done. In the child the device is abandoned:
  // it has none of the parent's descriptors, and what is called does nothing. All locks are held
  // from the first to one of the others.
  void before_fork() VERBENA_NO_THREAD_SAFETY;
  void after_fork_in_parent() VERBENA_NO_THREAD_SAFETY;
  void after_fork_in_child() VERBENA_NO_THREAD_SAFETY;

  // Why only this host can be reached (the port is another's), for a person; empty: all can.
  [[nodiscard]] const std::string& notice() const { return engine_->this_host_only(); }
  // Where packets to this vector go; EINVAL for an index that is empty, ENETUNREACH for another
  // host while only this one is served.
  [[nodiscard]] Outcome<transport::Path> resolve(const AddressVector& vector) const;

 private:
  friend class Context;
  Device() = default;
  void after_fork() VERBENA_NO_THREAD_SAFETY;
  // One that is nobody's.
  [[nodiscard]] Qpn draw_qpn() VERBENA_REQUIRES(engine().lock());
  // EventRouter; the engine calls it with its lock held.
  void on_qp_event(transport::Event event, Qpn qpn) override;
  void on_srq_event(transport::Event event, SrqId srq) override;
  void on_cq_overflow(CompletionQueue& cq) override;
  void on_addresses_changed() override;
  [[nodiscard]] CompletionMarks completions_of(Qpn qpn) override;
  [[nodiscard]] bool were_polled(Qpn qpn, const CompletionMarks& marks) override;
  [[nodiscard]] bool has_unread_event(Qpn qpn) override;
  [[nodiscard]] transport::Path path_between(const wire::Gid& source,
                                             const wire::Gid& destination) override;

  DeviceLimits limits_;
  GidTable gids_;
  OnDemandAccessor on_demand_;
  NullAccessor nothing_;
  // By number, for events.
  std::unordered_map<uint32_t, Qp*> qps_ VERBENA_GUARDED_BY(engine().lock());
  std::unordered_map<uint32_t, Srq*> srqs_ VERBENA_GUARDED_BY(engine().lock());
  std::unordered_map<uint32_t, Context*> reserved_qpns_ VERBENA_GUARDED_BY(engine().lock());
  std::unordered_map<CompletionQueue*, Context*> cqs_ VERBENA_GUARDED_BY(engine().lock());
  uint32_t xrcds_made_ VERBENA_GUARDED_BY(engine().lock()) = 0;
  // Those with a file.
  std::vector<std::weak_ptr<Xrcd>> xrcds_ VERBENA_GUARDED_BY(engine().lock());
  std::vector<Context*> contexts_ VERBENA_GUARDED_BY(engine().lock());
  // During a fork: all channels.
  std::vector<CompletionChannel*> forking_ VERBENA_GUARDED_BY(engine().lock());
  std::unique_ptr<Engine> engine_;  // last: its thread uses the rest
};

class Context {
 public:
  explicit Context(std::shared_ptr<Device> device);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] EventQueue& events() { return events_; }

  [[nodiscard]] Outcome<std::unique_ptr<Pd>> alloc_pd();
  [[nodiscard]] int dealloc_pd(Pd& pd);

  // access: memory::Access. With kOnDemand the pages need not be there.
  [[nodiscard]] Outcome<std::unique_ptr<Mr>> reg_mr(Pd& pd, void* start, uint64_t length,
                                                    uint64_t iova, uint32_t access);
  [[nodiscard]] int dereg_mr(Mr& mr);
  // On any error the region is as it was.
  [[nodiscard]] int rereg_mr(Mr& mr, const RegionChange& change);
  // All addresses: what is written is lost, what is read is zero. For peers, too.
  [[nodiscard]] Outcome<std::unique_ptr<Mr>> null_mr(Pd& pd);
  // Makes pages of on-demand regions present. ENOENT for a key that is none, EPERM for one of
  // another PD or without the right, EINVAL for one that is not on demand, EFAULT beyond the region
  // or where there is no memory.
  [[nodiscard]] int prefetch(Pd& pd, std::span<const memory::Sge> list, const Prefetch& how);

  [[nodiscard]] Outcome<std::unique_ptr<CompletionQueue>> create_cq(
      uint32_t entries, CompletionChannel* channel, const CompletionQueueOptions& options = {});
  [[nodiscard]] int destroy_cq(CompletionQueue& cq);
  [[nodiscard]] int resize_cq(CompletionQueue& cq, uint32_t entries);
  // Polls; makes progress when there is nothing.
  [[nodiscard]] uint32_t poll_cq(CompletionQueue& cq, std::span<transport::Completion> out,
                                 Stamp* stamps = nullptr);
  void req_notify_cq(CompletionQueue& cq, bool solicited_only);
  // Waits (unless the channel's descriptor is non-blocking) for an event, and makes progress
  // meanwhile. 0, or an errno: EAGAIN, EINTR.
  [[nodiscard]] int get_cq_event(CompletionChannel& channel, CompletionQueue*& cq);

  [[nodiscard]] Outcome<std::unique_ptr<Srq>> create_srq(Pd& pd, const SrqRequest& request);
  [[nodiscard]] int arm_srq(Srq& srq, uint32_t limit);
  [[nodiscard]] int destroy_srq(Srq& srq);
  [[nodiscard]] int post_srq_recv(Srq& srq, const transport::RecvRequest& request);
  // A chain, as with post_send().
  [[nodiscard]] size_t post_srq_recv(Srq& srq, std::span<const transport::RecvRequest> requests,
                                     int& error);

  // XRC domains. `exclusive`: EEXIST if it is there; without `create`: ENOENT if it is not.
  [[nodiscard]] Outcome<std::shared_ptr<Xrcd>> open_xrcd(const std::optional<FileId>& file,
                                                         bool create, bool exclusive);
  // EBUSY when it is the last handle and queue pairs or SRQs are in it.
  [[nodiscard]] int close_xrcd(std::shared_ptr<Xrcd>& xrcd);

  // No PD: kXrcRecv alone.
  [[nodiscard]] Outcome<std::unique_ptr<Qp>> create_qp(Pd* pd, const QpRequest& request);
  [[nodiscard]] Outcome<std::unique_ptr<Qp>> create_qp(Pd& pd, const QpRequest& request) {
    return create_qp(&pd, request);
  }
  // A number that no queue pair gets until it is given back, or the context is closed.
  [[nodiscard]] Outcome<Qpn> reserve_qpn();
  [[nodiscard]] int release_qpn(Qpn qpn);
  [[nodiscard]] int modify_qp(Qp& qp, const transport::QpAttr& attr, uint32_t mask);
  [[nodiscard]] Outcome<transport::QpAttr> query_qp(const Qp& qp);
  // EBUSY while it is attached to a group.
  [[nodiscard]] int destroy_qp(Qp& qp);
  // Multicast: a UD queue pair receives what is sent to the group from here on. Attached twice is
  // once; EINVAL to detach what is not.
  [[nodiscard]] int attach_group(Qp& qp, const wire::Gid& group);
  [[nodiscard]] int detach_group(Qp& qp, const wire::Gid& group);
  // Counts what the queue pair completes of these operations (bits of transport::CountedOp).
  [[nodiscard]] int attach_counter(Qp& qp, transport::OperationCounter& counter,
                                   uint32_t operations);
  // The counter is attached to nothing, and will not be. EBUSY while it is.
  [[nodiscard]] int retire_counter(transport::OperationCounter& counter);
  // EINVAL, among others, for a datagram that the interface of its path cannot carry whole.
  [[nodiscard]] int post_send(Qp& qp, const transport::SendRequest& request);
  // A chain with the lock taken once, sent together: others wait meanwhile. Gives how many were
  // posted; `error` is why the next was not.
  [[nodiscard]] size_t post_send(Qp& qp, std::span<const transport::SendRequest> requests,
                                 int& error);
  // The same, all of them or, with an error, none.
  [[nodiscard]] int post_send_all(Qp& qp, std::span<const transport::SendRequest> requests);
  [[nodiscard]] int post_recv(Qp& qp, const transport::RecvRequest& request);
  [[nodiscard]] size_t post_recv(Qp& qp, std::span<const transport::RecvRequest> requests,
                                 int& error);
  // Sends with this wr_id that wait in a queue in SQD do nothing, and complete. Gives their number.
  [[nodiscard]] Outcome<uint32_t> cancel_sends(Qp& qp, uint64_t wr_id);

  [[nodiscard]] Outcome<RKey> alloc_mw(Pd& pd, memory::WindowType type);
  [[nodiscard]] int dealloc_mw(RKey window);

  // Keys over other keys (memory/indirect_key.h).
  [[nodiscard]] Outcome<memory::RegionKeys> create_key(Pd& pd, const memory::KeySpec& spec);
  [[nodiscard]] int destroy_key(LKey key);
  // At once, not in order with what is posted.
  [[nodiscard]] int configure_key(Pd& pd, LKey key, const memory::KeyConfig& config);
  // The first signature that was found wrong since the last call.
  [[nodiscard]] Outcome<std::optional<memory::SignatureError>> take_signature_error(LKey key);

 private:
  [[nodiscard]] int attach_address(transport::Endpoint& endpoint, Qpn qpn, const wire::Gid& address)
      VERBENA_REQUIRES(device_->engine().lock());
  void leave_groups(transport::Endpoint& endpoint, Qpn qpn)
      VERBENA_REQUIRES(device_->engine().lock());
  // Gives back what it held of other objects.
  void release(Qp& qp) VERBENA_REQUIRES(device_->engine().lock());
  void release(Srq& srq) VERBENA_REQUIRES(device_->engine().lock());
  void release(CompletionQueue& cq) VERBENA_REQUIRES(device_->engine().lock());

  std::unordered_set<Pd*> pds_ VERBENA_GUARDED_BY(device_->engine().lock());
  std::shared_ptr<Device> device_;
  EventQueue events_;
};

}  // namespace verbena::device
