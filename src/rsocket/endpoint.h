// SPDX-License-Identifier: Apache-2.0
// The verbs side of a stream: its queue pair, its completion queue, and the memory that the peer
// writes into. Belongs to one stream and is under its mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "rsocket/protocol.h"
#include "rsocket/settings.h"

namespace verbena::rsocket {

inline constexpr uint64_t kReceiveMark = uint64_t{1} << 63;

class Endpoint {
 public:
  // For an id that knows its device. 0 or an error number.
  [[nodiscard]] static int make(rdma_cm_id* id, const Sizes& wanted,
                                std::unique_ptr<Endpoint>& made);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // As they turned out.
  [[nodiscard]] const Sizes& sizes() const { return sizes_; }
  [[nodiscard]] Greeting greeting() const;
  // Of the receive buffer.
  [[nodiscard]] Entry grant_at(uint32_t offset, uint32_t bytes) const;
  [[nodiscard]] uint8_t* send_buffer() { return send_memory_.get(); }
  [[nodiscard]] const uint8_t* receive_buffer() const { return receive_memory_.get(); }
  [[nodiscard]] Entry list_entry(uint32_t index) const;
  [[nodiscard]] Mapping mapping(uint32_t index) const;

  // A work request; its completion has `message` as its number. 0 or an error number.
  struct Write {
    uint32_t message;
    uint64_t address = 0;
    uint32_t key = 0;
    bool told = true;  // to the peer, as immediate data
  };
  [[nodiscard]] int post(const Write& write, std::span<ibv_sge> pieces);
  [[nodiscard]] int post_inline(const Write& write, std::span<const uint8_t> bytes);
  [[nodiscard]] int post_receives(uint32_t count);
  // Bytes of the send buffer, which may go on at its start.
  [[nodiscard]] int post_buffer(const Write& write, uint32_t offset, uint32_t bytes);

  [[nodiscard]] int poll(std::span<ibv_wc> into) {
    return ibv_poll_cq(cq_, static_cast<int>(into.size()), into.data());
  }
  // Readable when an armed queue has had a completion.
  [[nodiscard]] int event_fd() const { return channel_->fd; }
  void arm();
  void take_event();
  [[nodiscard]] ibv_pd* pd() const { return id_->pd; }

 private:
  Endpoint(rdma_cm_id* id, const Sizes& sizes) : id_(id), sizes_(sizes) {}
  [[nodiscard]] int start();
  [[nodiscard]] int make_queues();
  [[nodiscard]] int make_memory();
  [[nodiscard]] ibv_mr* register_memory(std::unique_ptr<uint8_t[]>& memory, size_t bytes,
                                        int access);

  rdma_cm_id* const id_;
  Sizes sizes_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  bool has_qp_ = false;
  bool armed_ = false;
  std::unique_ptr<uint8_t[]> send_memory_;
  std::unique_ptr<uint8_t[]> receive_memory_;
  std::unique_ptr<uint8_t[]> list_memory_;  // the grants, then the mappings
  ibv_mr* send_region_ = nullptr;
  ibv_mr* receive_region_ = nullptr;
  ibv_mr* list_region_ = nullptr;
};

}  // namespace verbena::rsocket
