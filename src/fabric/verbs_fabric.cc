// SPDX-License-Identifier: Apache-2.0
#include "fabric/verbs_fabric.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/epoll.h>

#include "base/check.h"
#include "base/unique_fd.h"
#include "fabric/message_pool.h"
#include "fabric/transfer.h"
#include "fabric/verbs_library.h"

namespace verbena::fabric {
namespace {

constexpr int kPollAtOnce = 64;
constexpr size_t kMaxParts = 30;  // of a work request, if the device has as many
constexpr int kResolveMs = 2000;
constexpr uint32_t kReadsAtOnce = 16;  // of a queue pair, if the device has as many

// Says what a completion is of.
enum class Work : uint8_t { kReceive, kMessage, kPart, kOperation, kLast };
constexpr uint64_t work_id(Work work, uint64_t what) {
  return static_cast<uint64_t>(work) << 56 | what;
}
constexpr Work work_of(uint64_t id) { return static_cast<Work>(id >> 56); }
constexpr uint64_t what_of(uint64_t id) { return id & ((uint64_t{1} << 56) - 1); }

std::string failed(const char* what, int error) {
  return fmt::format("{}: {}", what, std::strerror(error));
}

struct Connection {
  enum class State : uint8_t {
    kResolving,   // ours: address and route
    kConnecting,  // ours, or a stranger's
    kConnected,
    kFailed,  // end() is to come
    kEnding,  // in the error state, completions are on their way
  };
  ConnectionId id = 0;
  State state = State::kResolving;
  rdma_cm_id* cm = nullptr;
  bool queue_pair = false;
  bool wants_room = false;   // message_room() had none
  uint32_t outstanding = 0;  // work requests that are posted
  uint32_t messages = 0;     // of them
  std::deque<Transfer> backlog;
  std::unordered_map<uint64_t, std::pair<OperationId, bool>> operations;  // by number; still good
};

class VerbsFabric final : public Fabric {
 public:
  VerbsFabric(const VerbsLibrary& library, const VerbsOptions& options)
      : library_(library),
        options_(options),
        received_(options.receives, options.message_bytes),
        sent_(options.sends, options.message_bytes) {}
  ~VerbsFabric() override;

  [[nodiscard]] Result<void> open();

  [[nodiscard]] std::string name() const override {
    return fmt::format("verbs, {}", library_.get_device_name(context_->device));
  }
  [[nodiscard]] size_t message_bytes() const override { return options_.message_bytes; }
  [[nodiscard]] Result<Endpoint> listen(const Endpoint& at) override;
  [[nodiscard]] ConnectionId connect(const Endpoint& to) override;
  [[nodiscard]] Result<Key> add_memory(uint8_t* memory, size_t bytes, bool remote) override;
  void remove_memory(uint8_t* memory) override;
  [[nodiscard]] std::span<uint8_t> message_room(ConnectionId connection) override;
  void send(ConnectionId connection, size_t bytes) override;
  void read(ConnectionId connection, std::span<const Remote> from, std::span<const Local> to,
            OperationId operation) override {
    start(true, connection, to, from, operation);
  }
  void write(ConnectionId connection, std::span<const Local> from, std::span<const Remote> to,
             OperationId operation) override {
    start(false, connection, from, to, operation);
  }
  void end(ConnectionId connection) override;
  size_t poll(Handler& handler) override;
  void arm() override;
  [[nodiscard]] int fd() const override { return wake_.get(); }

 private:
  // --- connections
  [[nodiscard]] Result<void> choose_device();
  [[nodiscard]] Result<void> make_queues();
  [[nodiscard]] Connection& add(rdma_cm_id* cm);
  [[nodiscard]] Connection* find(ConnectionId id);
  [[nodiscard]] Connection* of(const rdma_cm_id* cm);
  [[nodiscard]] bool make_queue_pair(Connection& connection);
  [[nodiscard]] rdma_conn_param parameters() const;
  void on_cm_event(const rdma_cm_event& event, Handler& handler);
  void on_stranger(rdma_cm_id* cm);
  void failed(Connection& connection, std::string why);
  void try_to_leave(Connection& connection);
  void leave(ConnectionId id, Handler& handler);

  // --- work
  void start(bool is_read, ConnectionId connection, std::span<const Local> ours,
             std::span<const Remote> theirs, OperationId operation);
  [[nodiscard]] uint32_t key_of(const Local& local) const;
  void post_backlog(Connection& connection);
  [[nodiscard]] bool post(Connection& connection, ibv_send_wr& request);
  void post_receive(uint32_t index);
  void on_completion(const ibv_wc& wc, Handler& handler);
  void on_work_done(Connection& connection, const ibv_wc& wc, Handler& handler);
  void tell(Handler& handler);

  const VerbsLibrary& library_;
  const VerbsOptions options_;
  UniqueFd wake_;
  rdma_event_channel* events_ = nullptr;
  ibv_context* context_ = nullptr;  // librdmacm's
  ibv_pd* domain_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* completions_ = nullptr;
  ibv_srq* receives_ = nullptr;
  MessagePool received_;
  MessagePool sent_;
  ibv_mr* received_key_ = nullptr;
  ibv_mr* sent_key_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  size_t max_parts_ = 1;
  uint8_t reads_ = 1;

  std::map<const uint8_t*, ibv_mr*> memory_;  // by its beginning
  std::unordered_map<ConnectionId, std::unique_ptr<Connection>> connections_;
  std::unordered_map<uint32_t, ConnectionId> by_number_;  // of the queue pair
  ConnectionId next_connection_ = 1;
  uint64_t next_operation_ = 1;
  std::optional<std::pair<ConnectionId, uint32_t>> room_;  // handed out: for whom, which
  // What happened in a call of the owner, told by the next poll().
  struct Told {
    enum class What : uint8_t { kFailed, kEnded, kDone } what;
    ConnectionId connection;
    OperationId operation = 0;
    std::string why{};
  };
  std::deque<Told> told_;
};

// --- opening

Result<void> VerbsFabric::choose_device() {
  int count = 0;
  ibv_context** const all = library_.get_devices(&count);
  if (all == nullptr) return fail(fabric::failed("cannot list RDMA devices", errno));
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
  return fail(count == 0 ? std::string("there is no RDMA device")
                         : fmt::format("there is no RDMA device {}; there are: {}", options_.device,
                                       names));
}

Result<void> VerbsFabric::make_queues() {
  ibv_device_attr device{};
  if (const int error = library_.query_device(context_, &device); error != 0) {
    return fail(fabric::failed("cannot query the device", error));
  }
  max_parts_ = std::clamp<size_t>(static_cast<size_t>(device.max_sge), 1, kMaxParts);
  reads_ =
      static_cast<uint8_t>(std::clamp(std::min(device.max_qp_rd_atom, device.max_qp_init_rd_atom),
                                      1, static_cast<int>(kReadsAtOnce)));
  domain_ = library_.alloc_pd(context_);
  if (domain_ == nullptr) return fail(fabric::failed("cannot make a protection domain", errno));
  channel_ = library_.create_comp_channel(context_);
  if (channel_ == nullptr) return fail(fabric::failed("cannot make a completion channel", errno));
  const int entries = std::min(device.max_cqe, 65536);
  completions_ = library_.create_cq(context_, entries, nullptr, channel_, 0);
  if (completions_ == nullptr) return fail(fabric::failed("cannot make a completion queue", errno));
  ibv_srq_init_attr srq{};
  srq.attr = {.max_wr = options_.receives, .max_sge = 1, .srq_limit = 0};
  receives_ = library_.create_srq(domain_, &srq);
  if (receives_ == nullptr) return fail(fabric::failed("cannot make a receive queue", errno));
  received_key_ =
      library_.reg_mr(domain_, received_.memory(), received_.size(), IBV_ACCESS_LOCAL_WRITE);
  sent_key_ = library_.reg_mr(domain_, sent_.memory(), sent_.size(), 0);
  if (received_key_ == nullptr || sent_key_ == nullptr) {
    return fail(fabric::failed("cannot register memory for messages (see ulimit -l)", errno));
  }
  while (const auto index = received_.take()) post_receive(*index);
  return {};
}

Result<void> VerbsFabric::open() {
  wake_.reset(epoll_create1(EPOLL_CLOEXEC));
  events_ = library_.create_event_channel();
  if (!wake_.valid() || events_ == nullptr) return fail(fabric::failed("no event channel", errno));
  if (const auto done = choose_device(); !done) return done;
  if (const auto done = make_queues(); !done) return done;
  for (const int fd : {events_->fd, channel_->fd}) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    if (epoll_ctl(wake_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return fail(fabric::failed("epoll", errno));
    }
  }
  return {};
}

VerbsFabric::~VerbsFabric() {
  for (const auto& [id, connection] : connections_) {
    if (connection->queue_pair) library_.destroy_qp(connection->cm);
    if (connection->cm != nullptr) library_.destroy_id(connection->cm);
  }
  if (listener_ != nullptr) library_.destroy_id(listener_);
  for (const auto& [memory, key] : memory_) library_.dereg_mr(key);
  for (ibv_mr* const key : {received_key_, sent_key_}) {
    if (key != nullptr) library_.dereg_mr(key);
  }
  if (receives_ != nullptr) library_.destroy_srq(receives_);
  if (completions_ != nullptr) library_.destroy_cq(completions_);
  if (channel_ != nullptr) library_.destroy_comp_channel(channel_);
  if (domain_ != nullptr) library_.dealloc_pd(domain_);
  if (events_ != nullptr) library_.destroy_event_channel(events_);
}

// --- connections

// An address to bind to or to connect to.
Result<sockaddr_storage> resolve(const Endpoint& endpoint, bool passive) {
  addrinfo hints{};
  hints.ai_flags = (passive ? AI_PASSIVE : 0) | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(endpoint.port);
  const int error = getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(),
                                port.c_str(), &hints, &found);
  if (error != 0) return fail(fmt::format("{}: {}", endpoint.host, gai_strerror(error)));
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

Result<Endpoint> VerbsFabric::listen(const Endpoint& at) {
  auto address = resolve(at, true);
  if (!address) return fail(address.error());
  if (library_.create_id(events_, &listener_, nullptr, RDMA_PS_TCP) != 0) {
    return fail(fabric::failed("cannot make a listener", errno));
  }
  if (library_.bind_addr(listener_, reinterpret_cast<sockaddr*>(&*address)) != 0 ||
      library_.listen(listener_, 128) != 0) {
    auto error =
        fabric::failed(fmt::format("cannot listen on RDMA port {}", at.port).c_str(), errno);
    library_.destroy_id(std::exchange(listener_, nullptr));
    return fail(std::move(error));
  }
  return Endpoint{at.host, ntohs(library_.get_src_port(listener_))};
}

Connection& VerbsFabric::add(rdma_cm_id* cm) {
  auto connection = std::make_unique<Connection>();
  connection->id = next_connection_++;
  connection->cm = cm;
  Connection& added = *connection;
  connections_.emplace(added.id, std::move(connection));
  return added;
}

Connection* VerbsFabric::find(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

Connection* VerbsFabric::of(const rdma_cm_id* cm) {
  return find(reinterpret_cast<ConnectionId>(cm->context));
}

ConnectionId VerbsFabric::connect(const Endpoint& to) {
  Connection& connection = add(nullptr);
  auto address = resolve(to, false);
  if (!address) {
    failed(connection, address.error());
    return connection.id;
  }
  if (library_.create_id(events_, &connection.cm, reinterpret_cast<void*>(connection.id),
                         RDMA_PS_TCP) != 0 ||
      library_.resolve_addr(connection.cm, nullptr, reinterpret_cast<sockaddr*>(&*address),
                            kResolveMs) != 0) {
    failed(connection, fabric::failed("cannot resolve the address", errno));
  }
  return connection.id;
}

bool VerbsFabric::make_queue_pair(Connection& connection) {
  // Of another device than the one that was chosen.
  if (connection.cm->verbs != context_) return false;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = completions_;
  init.srq = receives_;
  init.cap.max_send_wr = options_.work_requests;
  init.cap.max_send_sge = static_cast<uint32_t>(max_parts_);
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  if (library_.create_qp(connection.cm, domain_, &init) != 0) return false;
  connection.queue_pair = true;
  by_number_[connection.cm->qp->qp_num] = connection.id;
  return true;
}

rdma_conn_param VerbsFabric::parameters() const {
  rdma_conn_param parameters{};
  parameters.initiator_depth = reads_;
  parameters.responder_resources = reads_;
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;  // for ever: a peer whose buffers are full is slow, not gone
  return parameters;
}

void VerbsFabric::on_stranger(rdma_cm_id* cm) {
  if (connections_.size() >= options_.max_connections) {
    static_cast<void>(library_.reject(cm, nullptr, 0));
    library_.destroy_id(cm);
    return;
  }
  Connection& connection = add(cm);
  connection.state = Connection::State::kConnecting;
  cm->context = reinterpret_cast<void*>(connection.id);
  rdma_conn_param accepted = parameters();
  if (make_queue_pair(connection) && library_.accept(cm, &accepted) == 0) return;
  // Nobody has heard of it yet.
  if (connection.queue_pair) {
    by_number_.erase(cm->qp->qp_num);
    library_.destroy_qp(cm);
  }
  static_cast<void>(library_.reject(cm, nullptr, 0));
  library_.destroy_id(cm);
  connections_.erase(connection.id);
}

void VerbsFabric::on_cm_event(const rdma_cm_event& event, Handler& handler) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) return on_stranger(event.id);
  Connection* const connection = of(event.id);
  if (connection == nullptr) return;
  const auto wrong = [&](const char* what) { failed(*connection, what); };
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (library_.resolve_route(event.id, kResolveMs) != 0) wrong("no route to the host");
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
      rdma_conn_param wished = parameters();
      connection->state = Connection::State::kConnecting;
      if (!make_queue_pair(*connection)) {
        wrong("cannot make a queue pair");
      } else if (library_.connect(event.id, &wished) != 0) {
        wrong("cannot connect");
      }
      break;
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      if (connection->state != Connection::State::kConnecting) break;
      connection->state = Connection::State::kConnected;
      handler.on_connected(connection->id);
      break;
    case RDMA_CM_EVENT_REJECTED:       wrong("the peer rejects the connection"); break;
    case RDMA_CM_EVENT_UNREACHABLE:    wrong("the peer does not answer"); break;
    case RDMA_CM_EVENT_ADDR_ERROR:     wrong("the address cannot be resolved"); break;
    case RDMA_CM_EVENT_ROUTE_ERROR:    wrong("there is no route to the host"); break;
    case RDMA_CM_EVENT_DISCONNECTED:   wrong("the peer has disconnected"); break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DEVICE_REMOVAL: wrong("the connection failed"); break;
    default:                           break;
  }
}

void VerbsFabric::failed(Connection& connection, std::string why) {
  if (connection.state >= Connection::State::kFailed) return;
  connection.state = Connection::State::kFailed;
  told_.push_back({Told::What::kFailed, connection.id, 0, std::move(why)});
}

void VerbsFabric::end(ConnectionId id) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->state == Connection::State::kEnding) return;
  connection->state = Connection::State::kEnding;
  if (room_ && room_->first == id) {
    sent_.give(room_->second);
    room_.reset();
  }
  if (connection->queue_pair) {
    // Into the error state first: the peer may not answer.
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    static_cast<void>(library_.modify_qp(connection->cm->qp, &attr, IBV_QP_STATE));
    static_cast<void>(library_.disconnect(connection->cm));
    // Behind all others, and fails like them.
    ibv_send_wr last{};
    last.wr_id = work_id(Work::kLast, 0);
    last.opcode = IBV_WR_SEND;
    last.send_flags = IBV_SEND_SIGNALED;
    static_cast<void>(post(*connection, last));
  }
  try_to_leave(*connection);
}

void VerbsFabric::try_to_leave(Connection& connection) {
  if (connection.state != Connection::State::kEnding || connection.outstanding > 0) return;
  told_.push_back({Told::What::kEnded, connection.id, 0, {}});
}

void VerbsFabric::leave(ConnectionId id, Handler& handler) {
  Connection* const connection = find(id);
  if (connection == nullptr) return;
  // Of the first, parts may have been on their way until now.
  for (const Transfer& transfer : connection->backlog) {
    handler.on_done(id, transfer.operation(), false);
  }
  if (connection->queue_pair) {
    by_number_.erase(connection->cm->qp->qp_num);
    library_.destroy_qp(connection->cm);
  }
  if (connection->cm != nullptr) library_.destroy_id(connection->cm);
  connections_.erase(id);
  handler.on_ended(id);
}

// --- memory

Result<Key> VerbsFabric::add_memory(uint8_t* memory, size_t bytes, bool remote) {
  const int access =
      IBV_ACCESS_LOCAL_WRITE | (remote ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : 0);
  ibv_mr* const key = library_.reg_mr(domain_, memory, bytes, access);
  if (key == nullptr) {
    return fail(fabric::failed(
        fmt::format("cannot register {} bytes of memory (see ulimit -l)", bytes).c_str(), errno));
  }
  memory_[memory] = key;
  return Key{key->lkey, remote ? key->rkey : 0};
}

void VerbsFabric::remove_memory(uint8_t* memory) {
  const auto found = memory_.find(memory);
  VERBENA_CHECK(found != memory_.end());
  library_.dereg_mr(found->second);
  memory_.erase(found);
}

uint32_t VerbsFabric::key_of(const Local& local) const {
  const auto behind = memory_.upper_bound(local.memory);
  VERBENA_CHECK(behind != memory_.begin());
  const ibv_mr& key = *std::prev(behind)->second;
  const auto* const begin = static_cast<const uint8_t*>(key.addr);
  const size_t used = size_t{local.stride} * (local.count - 1) + local.bytes;
  VERBENA_CHECK(local.memory + used <= begin + key.length);
  return key.lkey;
}

// --- work

bool VerbsFabric::post(Connection& connection, ibv_send_wr& request) {
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(connection.cm->qp, &request, &bad) != 0) return false;
  ++connection.outstanding;
  return true;
}

void VerbsFabric::post_receive(uint32_t index) {
  const auto buffer = received_.buffer(index);
  ibv_sge part{.addr = reinterpret_cast<uint64_t>(buffer.data()),
               .length = static_cast<uint32_t>(buffer.size()),
               .lkey = received_key_->lkey};
  ibv_recv_wr request{};
  request.wr_id = work_id(Work::kReceive, index);
  request.sg_list = &part;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  VERBENA_CHECK(ibv_post_srq_recv(receives_, &request, &bad) == 0);
}

std::span<uint8_t> VerbsFabric::message_room(ConnectionId id) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->state != Connection::State::kConnected) return {};
  if (room_ && room_->first == id) return sent_.buffer(room_->second);
  if (room_) {
    sent_.give(room_->second);
    room_.reset();
  }
  const bool full = connection->messages >= options_.sends_per_connection ||
                    connection->outstanding >= options_.work_requests - 1;
  const auto index = full ? std::nullopt : sent_.take();
  if (!index) {
    connection->wants_room = true;
    return {};
  }
  room_ = {id, *index};
  return sent_.buffer(*index).first(options_.message_bytes);
}

void VerbsFabric::send(ConnectionId id, size_t bytes) {
  VERBENA_CHECK(room_ && room_->first == id && bytes <= options_.message_bytes);
  const uint32_t index = std::exchange(room_, std::nullopt)->second;
  Connection* const connection = find(id);
  ibv_sge part{.addr = reinterpret_cast<uint64_t>(sent_.buffer(index).data()),
               .length = static_cast<uint32_t>(bytes),
               .lkey = sent_key_->lkey};
  ibv_send_wr request{};
  request.wr_id = work_id(Work::kMessage, index);
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  if (connection == nullptr || !post(*connection, request)) {
    sent_.give(index);
    if (connection != nullptr) failed(*connection, "a message cannot be sent");
    return;
  }
  ++connection->messages;
}

void VerbsFabric::start(bool is_read, ConnectionId id, std::span<const Local> ours,
                        std::span<const Remote> theirs, OperationId operation) {
  Connection* const connection = find(id);
  std::vector<uint32_t> keys;
  keys.reserve(ours.size());
  for (const Local& local : ours) keys.push_back(key_of(local));
  Transfer transfer(is_read, operation, ours, std::move(keys), theirs);
  if (connection == nullptr || connection->state != Connection::State::kConnected ||
      !transfer.sound()) {
    told_.push_back({Told::What::kDone, id, operation, {}});
    return;
  }
  connection->backlog.push_back(std::move(transfer));
  post_backlog(*connection);
}

void VerbsFabric::post_backlog(Connection& connection) {
  std::array<ibv_sge, kMaxParts> parts;
  while (!connection.backlog.empty() && connection.outstanding < options_.work_requests - 2) {
    Transfer& transfer = connection.backlog.front();
    const auto step = transfer.next(std::span(parts).first(max_parts_));
    const uint64_t number = next_operation_;
    ibv_send_wr request{};
    request.wr_id = work_id(transfer.done() ? Work::kOperation : Work::kPart, number);
    request.sg_list = parts.data();
    request.num_sge = static_cast<int>(step.parts);
    request.opcode = transfer.is_read() ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request.wr.rdma = {.remote_addr = step.address, .rkey = step.rkey};
    connection.operations.try_emplace(number, transfer.operation(), true);
    if (!post(connection, request)) {
      connection.operations.erase(number);
      failed(connection, "an RDMA request cannot be posted");
      return;
    }
    if (!transfer.done()) continue;
    ++next_operation_;
    connection.backlog.pop_front();
  }
}

void VerbsFabric::on_completion(const ibv_wc& wc, Handler& handler) {
  const auto number = by_number_.find(wc.qp_num);
  Connection* const connection = number == by_number_.end() ? nullptr : find(number->second);
  if (work_of(wc.wr_id) != Work::kReceive) {
    if (connection != nullptr) on_work_done(*connection, wc, handler);
    return;
  }
  const auto index = static_cast<uint32_t>(what_of(wc.wr_id));
  const bool wanted = connection != nullptr && wc.status == IBV_WC_SUCCESS &&
                      connection->state <= Connection::State::kConnected;
  if (wanted) {
    // A message may be quicker than the event that says that the connection is there.
    if (connection->state == Connection::State::kConnecting) {
      connection->state = Connection::State::kConnected;
      handler.on_connected(connection->id);
    }
    handler.on_message(connection->id, received_.buffer(index).first(wc.byte_len));
  }
  post_receive(index);
}

void VerbsFabric::on_work_done(Connection& connection, const ibv_wc& wc, Handler& handler) {
  const ConnectionId id = connection.id;
  const bool good = wc.status == IBV_WC_SUCCESS;
  --connection.outstanding;
  if (!good) failed(connection, library_.wc_status_str(wc.status));
  switch (work_of(wc.wr_id)) {
    case Work::kMessage:
      sent_.give(static_cast<uint32_t>(what_of(wc.wr_id)));
      --connection.messages;
      break;
    case Work::kPart:
      if (!good) connection.operations[what_of(wc.wr_id)].second = false;
      break;
    case Work::kOperation: {
      const auto found = connection.operations.find(what_of(wc.wr_id));
      const auto [operation, whole] = found->second;
      connection.operations.erase(found);
      handler.on_done(id, operation, good && whole);
      break;
    }
    default: break;
  }
  // The handler may have ended it.
  Connection* const still = find(id);
  if (still == nullptr) return;
  if (still->state == Connection::State::kConnected) {
    post_backlog(*still);
    if (std::exchange(still->wants_room, false)) handler.on_sendable(id);
  }
  try_to_leave(*still);
}

void VerbsFabric::tell(Handler& handler) {
  while (!told_.empty()) {
    const Told told = std::move(told_.front());
    told_.pop_front();
    switch (told.what) {
      case Told::What::kFailed: handler.on_failed(told.connection, told.why); break;
      case Told::What::kDone:   handler.on_done(told.connection, told.operation, false); break;
      case Told::What::kEnded:  leave(told.connection, handler); break;
    }
  }
}

size_t VerbsFabric::poll(Handler& handler) {
  size_t count = told_.size();
  tell(handler);
  rdma_cm_event* event = nullptr;
  while (library_.get_cm_event(events_, &event) == 0) {
    // Its id may be destroyed by who is told of it: what it says is kept, and it is acknowledged.
    const rdma_cm_event copy = *event;
    library_.ack_cm_event(event);
    on_cm_event(copy, handler);
    ++count;
  }
  std::array<ibv_wc, kPollAtOnce> done;
  for (;;) {
    const int got = ibv_poll_cq(completions_, kPollAtOnce, done.data());
    for (int i = 0; i < got; ++i) on_completion(done[static_cast<size_t>(i)], handler);
    if (got > 0) count += static_cast<size_t>(got);
    if (got < kPollAtOnce) break;
  }
  count += told_.size();
  tell(handler);
  return count;
}

void VerbsFabric::arm() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  unsigned events = 0;
  while (library_.get_cq_event(channel_, &cq, &context) == 0) ++events;
  if (events > 0) library_.ack_cq_events(completions_, events);
  static_cast<void>(ibv_req_notify_cq(completions_, 0));
}

}  // namespace

Result<std::unique_ptr<Fabric>> open_verbs_fabric(const VerbsOptions& options) {
  const auto library = VerbsLibrary::load(options.libraries);
  if (!library) return fail(library.error());
  auto fabric = std::make_unique<VerbsFabric>(**library, options);
  if (const auto done = fabric->open(); !done) return fail(done.error());
  return fabric;
}

}  // namespace verbena::fabric
