// SPDX-License-Identifier: Apache-2.0
#include "rsocket/endpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>

namespace verbena::rsocket {
namespace {

// Grants and mappings always go inline.
constexpr uint32_t kLeastInline = 32;
static_assert(kLeastInline >= kMappingBytes);

}  // namespace

int Endpoint::make(rdma_cm_id* id, const Sizes& wanted, std::unique_ptr<Endpoint>& made) {
  ibv_device_attr device{};
  if (const int error = ibv_query_device(id->verbs, &device); error != 0) return error;
  // Both share one completion queue.
  const int most = std::min(device.max_qp_wr, device.max_cqe / 2);
  std::unique_ptr<Endpoint> endpoint(
      new Endpoint(id, bounded(wanted, static_cast<uint32_t>(std::max(most, 0)))));
  if (const int error = endpoint->start(); error != 0) return error;
  made = std::move(endpoint);
  return 0;
}

Endpoint::~Endpoint() {
  if (has_qp_) rdma_destroy_qp(id_);
  if (cq_ != nullptr) (void)ibv_destroy_cq(cq_);
  if (channel_ != nullptr) (void)ibv_destroy_comp_channel(channel_);
  for (ibv_mr* const region : {send_region_, receive_region_, list_region_}) {
    if (region != nullptr) (void)ibv_dereg_mr(region);
  }
}

int Endpoint::start() {
  if (const int error = make_queues(); error != 0) return error;
  if (const int error = make_memory(); error != 0) return error;
  return post_receives(sizes_.receive_places);
}

int Endpoint::make_queues() {
  channel_ = ibv_create_comp_channel(id_->verbs);
  if (channel_ == nullptr || ::fcntl(channel_->fd, F_SETFL, O_NONBLOCK) != 0) return errno;
  const auto entries = static_cast<int>(sizes_.send_places + sizes_.receive_places);
  cq_ = ibv_create_cq(id_->verbs, entries, nullptr, channel_, 0);
  if (cq_ == nullptr) return errno;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  init.cap = {.max_send_wr = sizes_.send_places,
              .max_recv_wr = sizes_.receive_places,
              .max_send_sge = 2,
              .max_recv_sge = 1,
              .max_inline_data = std::max(sizes_.inline_bytes, kLeastInline)};
  if (rdma_create_qp(id_, nullptr, &init) != 0) return errno;
  has_qp_ = true;
  sizes_.inline_bytes = init.cap.max_inline_data;
  return 0;
}

ibv_mr* Endpoint::register_memory(std::unique_ptr<uint8_t[]>& memory, size_t bytes, int access) {
  memory = std::make_unique<uint8_t[]>(bytes);
  return ibv_reg_mr(id_->pd, memory.get(), bytes, access);
}

int Endpoint::make_memory() {
  constexpr int kOwn = IBV_ACCESS_LOCAL_WRITE;
  constexpr int kPeers = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  const size_t list_bytes =
      kListEntries * kEntryBytes + size_t{sizes_.iomap_entries} * kMappingBytes;
  send_region_ = register_memory(send_memory_, sizes_.send_bytes, kOwn);
  if (send_region_ == nullptr) return errno;
  receive_region_ = register_memory(receive_memory_, sizes_.receive_bytes, kPeers);
  if (receive_region_ == nullptr) return errno;
  list_region_ = register_memory(list_memory_, list_bytes, kPeers);
  return list_region_ != nullptr ? 0 : errno;
}

Entry Endpoint::grant_at(uint32_t offset, uint32_t bytes) const {
  return {.address = reinterpret_cast<uintptr_t>(&receive_memory_[offset]),
          .key = receive_region_->rkey,
          .length = bytes};
}

Greeting Endpoint::greeting() const {
  return {.order = std::endian::native,
          .credits = static_cast<uint16_t>(sizes_.receive_places),
          .iomap_entries = sizes_.iomap_entries,
          .list = {.address = reinterpret_cast<uintptr_t>(list_memory_.get()),
                   .key = list_region_->rkey,
                   .length = kListEntries},
          .buffer = grant_at(0, sizes_.receive_bytes / 2)};
}

Entry Endpoint::list_entry(uint32_t index) const {
  const std::span<const uint8_t, kEntryBytes> bytes(&list_memory_[size_t{index} * kEntryBytes],
                                                    kEntryBytes);
  return decode_entry(bytes, std::endian::native);
}

Mapping Endpoint::mapping(uint32_t index) const {
  const size_t offset = kListEntries * kEntryBytes + size_t{index} * kMappingBytes;
  const std::span<const uint8_t, kMappingBytes> bytes(&list_memory_[offset], kMappingBytes);
  return decode_mapping(bytes, std::endian::native);
}

int Endpoint::post(const Write& write, std::span<ibv_sge> pieces) {
  uint32_t bytes = 0;
  for (const ibv_sge& piece : pieces) bytes += piece.length;
  ibv_send_wr request{};
  request.wr_id = write.message;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  request.opcode = write.told ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
  request.send_flags = bytes != 0 && bytes <= sizes_.inline_bytes ? IBV_SEND_INLINE : 0;
  request.imm_data = htonl(write.message);
  request.wr.rdma.remote_addr = write.address;
  request.wr.rdma.rkey = write.key;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(id_->qp, &request, &bad);
}

int Endpoint::post_inline(const Write& write, std::span<const uint8_t> bytes) {
  ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(bytes.data()),
                .length = static_cast<uint32_t>(bytes.size()),
                .lkey = 0};
  return post(write, {&piece, bytes.empty() ? size_t{0} : size_t{1}});
}

int Endpoint::post_buffer(const Write& write, uint32_t offset, uint32_t bytes) {
  const uint32_t first = std::min(bytes, sizes_.send_bytes - offset);
  std::array<ibv_sge, 2> pieces{
      {{reinterpret_cast<uintptr_t>(&send_memory_[offset]), first, send_region_->lkey},
       {reinterpret_cast<uintptr_t>(send_memory_.get()), bytes - first, send_region_->lkey}}};
  return post(write, {pieces.data(), first == bytes ? size_t{1} : size_t{2}});
}

// Messages have no bytes of their own: the receives only say that one may come.
int Endpoint::post_receives(uint32_t count) {
  std::array<ibv_recv_wr, 32> requests{};
  while (count > 0) {
    const auto now = std::min<uint32_t>(count, requests.size());
    for (uint32_t i = 0; i < now; ++i) {
      requests[i].wr_id = kReceiveMark;
      requests[i].next = i + 1 < now ? &requests[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(id_->qp, requests.data(), &bad); error != 0) return error;
    count -= now;
  }
  return 0;
}

void Endpoint::arm() {
  if (!armed_) armed_ = ibv_req_notify_cq(cq_, 0) == 0;
}

void Endpoint::take_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel_, &cq, &context) != 0) return;
  ibv_ack_cq_events(cq, 1);
  armed_ = false;
}

}  // namespace verbena::rsocket
