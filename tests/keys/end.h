// SPDX-License-Identifier: Apache-2.0
// Two processes with a queue pair each, connected, made with plain verbs and mlx5dv calls. The one
// that a test runs in uses keys of the other, which does what it is told; the other's memory is
// shared, so that the test can look at it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <infiniband/mlx5dv.h>
#include <sys/types.h>

#include "naive.h"

namespace verbena::keys_test {

inline constexpr size_t kMemoryBytes = 256 * 1024;

// One process's device, memory, queue pair and key.
class End {
 public:
  explicit End(uint8_t* memory);
  ~End();
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  struct Name {
    uint32_t qpn = 0;
    ibv_gid gid{};
    uint32_t rkey = 0;  // of the key
    uint64_t addr = 0;  // of the memory
  };
  [[nodiscard]] Name name() const;
  void connect(const Name& peer);

  // The key becomes `layout_bytes` from the start of memory, with signatures on either side. 0, or
  // an errno.
  [[nodiscard]] int configure(uint32_t layout_bytes, const Kind* memory, const Kind* wire,
                              mlx5dv_block_size block);
  [[nodiscard]] mlx5dv_mkey_err check();
  // Moves `bytes` between memory and the peer's key, from its start. The status of its completion.
  [[nodiscard]] ibv_wc_status transfer(ibv_wr_opcode opcode, uint32_t bytes, uint32_t rkey);
  // Sends from the key, and receives into memory.
  [[nodiscard]] ibv_wc_status send_from_key(uint32_t bytes);
  void post_receive(uint32_t bytes);
  [[nodiscard]] ibv_wc_status wait();

 private:
  uint8_t* memory_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_mr* mr_ = nullptr;
  ibv_qp* qp_ = nullptr;
  mlx5dv_mkey* key_ = nullptr;
};

// The other process.
class Other {
 public:
  explicit Other(uint8_t* its_memory);
  ~Other();
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;

  void connect(End& to);
  [[nodiscard]] uint32_t rkey() const { return name_.rkey; }
  [[nodiscard]] int configure(uint32_t layout_bytes, const Kind* memory, const Kind* wire,
                              mlx5dv_block_size block);
  [[nodiscard]] mlx5dv_mkey_err check();
  [[nodiscard]] ibv_wc_status send_from_key(uint32_t bytes);

 private:
  pid_t pid_ = 0;
  int fd_ = -1;
  End::Name name_;
};

}  // namespace verbena::keys_test
