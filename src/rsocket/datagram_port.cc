// SPDX-License-Identifier: Apache-2.0
#include "rsocket/datagram_port.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>

#include "rdmacm/id.h"
#include "rdmacm/qp.h"

namespace verbena::rsocket {
namespace {

using rdmacm::Address;

constexpr uint32_t kGrhBytes = 40;
constexpr uint32_t kReceivePlace = kGrhBytes + kDatagramBytes;
constexpr uint64_t kReceived = uint64_t{1} << 63;

[[nodiscard]] uint64_t number_of(bool received, uint32_t port, uint32_t place) {
  return (received ? kReceived : 0) | uint64_t{port} << 32 | place;
}

// The next event of an id whose events come at once.
[[nodiscard]] int take_event_of(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) return errno;
  const int error = event->event == wanted ? 0 : std::max(std::abs(event->status), 1);
  (void)rdma_ack_cm_event(event);
  return error;
}

}  // namespace

DatagramQueue::~DatagramQueue() {
  if (cq_ != nullptr) (void)ibv_destroy_cq(cq_);
  if (channel_ != nullptr) (void)ibv_destroy_comp_channel(channel_);
}

int DatagramQueue::make(ibv_context* context, uint32_t entries) {
  if (cq_ != nullptr) return 0;
  if (channel_ == nullptr) channel_ = ibv_create_comp_channel(context);
  if (channel_ == nullptr || ::fcntl(channel_->fd, F_SETFL, O_NONBLOCK) != 0) return errno;
  cq_ = ibv_create_cq(context, static_cast<int>(entries), nullptr, channel_, 0);
  return cq_ != nullptr ? 0 : errno;
}

void DatagramQueue::arm() {
  if (cq_ != nullptr && !armed_) armed_ = ibv_req_notify_cq(cq_, 0) == 0;
}

void DatagramQueue::take_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (channel_ == nullptr || ibv_get_cq_event(channel_, &cq, &context) != 0) return;
  ibv_ack_cq_events(cq, 1);
  armed_ = false;
}

int DatagramPort::make(const Address& at, DatagramQueue& queue, uint32_t places,
                       uint32_t queue_entries, uint32_t number,
                       std::unique_ptr<DatagramPort>& made) {
  std::unique_ptr<DatagramPort> port(new DatagramPort(at, places, number));
  if (const int error = port->start(queue, queue_entries); error != 0) return error;
  made = std::move(port);
  return 0;
}

DatagramPort::~DatagramPort() {
  if (id_ != nullptr) {
    rdma_destroy_qp(id_);
    if (region_ != nullptr) (void)ibv_dereg_mr(region_);
    (void)rdma_destroy_id(id_);
  }
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
}

// The id is there for the device and the address; its port is nobody's concern, for peers know the
// queue pair.
int DatagramPort::start(DatagramQueue& queue, uint32_t queue_entries) {
  channel_ = rdma_create_event_channel();
  if (channel_ == nullptr) return errno;
  if (rdma_create_id(channel_, &id_, nullptr, RDMA_PS_UDP) != 0) return errno;
  Address any_port = address_;
  any_port.set_port(0);
  if (rdma_bind_addr(id_, const_cast<sockaddr*>(any_port.raw())) != 0) return errno;
  if (!rdmacm::has_device(rdmacm::of(id_))) return ENODEV;
  if (const int error = queue.make(id_->verbs, queue_entries); error != 0) return error;
  const size_t bytes = size_t{places_} * (kDatagramBytes + kReceivePlace);
  memory_ = std::make_unique<uint8_t[]>(bytes);
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
  region_ = ibv_reg_mr(id_->pd, memory_.get(), bytes, kAccess);
  if (region_ == nullptr) return errno;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = queue.cq();
  init.qp_type = IBV_QPT_UD;
  init.sq_sig_all = 1;
  init.cap = {.max_send_wr = places_,
              .max_recv_wr = places_,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  if (rdma_create_qp(id_, nullptr, &init) != 0) return errno;
  for (uint32_t place = 0; place < places_; ++place) {
    free_.push_back(place);
    if (const int error = receive_into(place); error != 0) return error;
  }
  return 0;
}

ibv_ah* DatagramPort::way_to(const Address& peer, uint32_t& most) {
  rdma_cm_id* id = nullptr;
  rdma_event_channel* const channel = rdma_create_event_channel();
  if (channel == nullptr) return nullptr;
  ibv_ah* way = nullptr;
  Address from = address_;
  from.set_port(0);
  int error = rdma_create_id(channel, &id, nullptr, RDMA_PS_UDP) == 0 ? 0 : errno;
  if (error == 0 && rdma_resolve_addr(id, const_cast<sockaddr*>(from.raw()),
                                      const_cast<sockaddr*>(peer.raw()), 2000) != 0) {
    error = errno;
  }
  if (error == 0) error = take_event_of(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (error == 0) {
    const rdmacm::CmId& known = rdmacm::of(id);
    ibv_ah_attr attributes = rdmacm::describe_way(known, id->route.addr.addr.ibaddr.dgid);
    most = std::min(kDatagramBytes, uint32_t{128} << known.mtu);
    way = ibv_create_ah(id_->pd, &attributes);
    error = way != nullptr ? 0 : errno;
  }
  if (id != nullptr) (void)rdma_destroy_id(id);
  rdma_destroy_event_channel(channel);
  errno = error;
  return way;
}

std::span<uint8_t> DatagramPort::next_place() {
  return {&memory_[size_t{free_.back()} * kDatagramBytes], kDatagramBytes};
}

int DatagramPort::send(uint32_t bytes, ibv_ah* way, uint32_t qpn) {
  const uint32_t place = free_.back();
  ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(next_place().data()),
                .length = bytes,
                .lkey = region_->lkey};
  ibv_send_wr request{};
  request.wr_id = number_of(false, number_, place);
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.wr.ud.ah = way;
  request.wr.ud.remote_qpn = qpn;
  request.wr.ud.remote_qkey = RDMA_UDP_QKEY;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp, &request, &bad);
  if (error == 0) free_.pop_back();
  return error;
}

std::span<const uint8_t, 40> DatagramPort::grh_at(uint32_t place) const {
  const size_t offset = size_t{places_} * kDatagramBytes + size_t{place} * kReceivePlace;
  return std::span<const uint8_t, 40>(&memory_[offset], kGrhBytes);
}

const uint8_t* DatagramPort::message_at(uint32_t place) const {
  return grh_at(place).data() + kGrhBytes;
}

int DatagramPort::receive_into(uint32_t place) {
  ibv_sge piece{.addr = reinterpret_cast<uintptr_t>(grh_at(place).data()),
                .length = kReceivePlace,
                .lkey = region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = number_of(true, number_, place);
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(id_->qp, &request, &bad);
}

DatagramPort::Done DatagramPort::read(uint64_t number) {
  return {.received = (number & kReceived) != 0,
          .port = static_cast<uint32_t>((number & ~kReceived) >> 32),
          .place = static_cast<uint32_t>(number)};
}

}  // namespace verbena::rsocket
