// SPDX-License-Identifier: Apache-2.0
// The UD queue pair of a datagram socket at one of the host's addresses, with its buffers. Several
// of one socket share a completion queue. Under the socket's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "rdmacm/address.h"
#include "rsocket/datagram_protocol.h"

namespace verbena::rsocket {

// The completions of all ports of a socket.
class DatagramQueue {
 public:
  DatagramQueue() = default;
  ~DatagramQueue();
  DatagramQueue(const DatagramQueue&) = delete;
  DatagramQueue& operator=(const DatagramQueue&) = delete;
  // 0 or an error number; nothing if there is one.
  [[nodiscard]] int make(ibv_context* context, uint32_t entries);

  [[nodiscard]] ibv_cq* cq() const { return cq_; }
  [[nodiscard]] int event_fd() const { return channel_ != nullptr ? channel_->fd : -1; }
  void arm();
  void take_event();

 private:
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  bool armed_ = false;
};

class DatagramPort {
 public:
  // 0 or an error number. `places` for messages each way; `number` is in the completions.
  [[nodiscard]] static int make(const rdmacm::Address& at, DatagramQueue& queue, uint32_t places,
                                uint32_t queue_entries, uint32_t number,
                                std::unique_ptr<DatagramPort>& made);
  ~DatagramPort();
  DatagramPort(const DatagramPort&) = delete;
  DatagramPort& operator=(const DatagramPort&) = delete;

  [[nodiscard]] const rdmacm::Address& address() const { return address_; }
  [[nodiscard]] uint32_t qpn() const { return id_->qp->qp_num; }
  // To a peer's address: with the most that a message may have. nullptr and errno.
  [[nodiscard]] ibv_ah* way_to(const rdmacm::Address& peer, uint32_t& most);

  [[nodiscard]] bool can_send() const { return !free_.empty(); }
  [[nodiscard]] bool idle() const { return free_.size() == places_; }
  // The place that a message is to be written to; can_send() is true.
  [[nodiscard]] std::span<uint8_t> next_place();
  // What was written there. 0 or an error number.
  [[nodiscard]] int send(uint32_t bytes, ibv_ah* way, uint32_t qpn);
  void sent(uint32_t place) { free_.push_back(place); }

  [[nodiscard]] std::span<const uint8_t, 40> grh_at(uint32_t place) const;
  [[nodiscard]] const uint8_t* message_at(uint32_t place) const;
  [[nodiscard]] int receive_into(uint32_t place);

  // What a completion's number says.
  struct Done {
    bool received;
    uint32_t port;
    uint32_t place;
  };
  [[nodiscard]] static Done read(uint64_t number);

 private:
  DatagramPort(const rdmacm::Address& at, uint32_t places, uint32_t number)
      : address_(at), places_(places), number_(number) {}
  [[nodiscard]] int start(DatagramQueue& queue, uint32_t queue_entries);

  const rdmacm::Address address_;
  const uint32_t places_;
  const uint32_t number_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  std::unique_ptr<uint8_t[]> memory_;  // to send, then to receive
  ibv_mr* region_ = nullptr;
  std::vector<uint32_t> free_;
};

}  // namespace verbena::rsocket
