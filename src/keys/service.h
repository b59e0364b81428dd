// SPDX-License-Identifier: Apache-2.0
// Indirect memory keys, and queue pairs that go with them, as the libraries beside libibverbs.so.1
// see them (libmlx5.so.1, libverbena.so.1). The device lives in libibverbs; this interface is all
// that passes between them, by one private symbol whose version changes with it
// (verbs/key_service.cc).
//
// Any call from any thread, as with verbs: what stands between ibv_wr_start and ibv_wr_complete
// belongs to the thread that started. A pointer to something that was destroyed is EINVAL.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "memory/domain.h"
#include "memory/indirect_key.h"
#include "memory/signature.h"

// NOLINTBEGIN(readability-identifier-naming): rdma-core's names
struct ibv_context;
struct ibv_pd;
struct ibv_qp;
struct ibv_qp_ex;
struct ibv_qp_init_attr_ex;
// NOLINTEND(readability-identifier-naming)

namespace verbena::keys {

// The name and the version of the symbol, for who looks it up at run time: Service* (*)().
inline constexpr const char* kSymbol = "verbena_key_service";
inline constexpr const char* kSymbolVersion = "VERBENA_KEYS_1";

// A key as programs hold it. Begins like mlx5dv_mkey.
struct Key {
  uint32_t lkey = 0;
  uint32_t rkey = 0;
};

// Room in a queue pair for the library beside: zero when the queue pair is made, and readable for
// as long as its pointer is, which is for ever.
struct Companion {
  alignas(16) std::array<std::byte, 192> room{};
};

class Service {
 public:
  virtual ~Service() = default;

  // --- keys
  // nullptr and errno.
  [[nodiscard]] virtual Key* create(ibv_pd* pd, const memory::KeySpec& spec) = 0;
  [[nodiscard]] virtual int destroy(Key* key) = 0;
  // 0, ENOMEM over its capacity, or EINVAL: what check_config() says of it.
  [[nodiscard]] virtual int check(Key* key, const memory::KeyConfig& config) = 0;
  // Sets the signature of a configuration. Unless the copy mask is the caller's own, it becomes
  // what would come out the same anyhow. EINVAL: its own, for sides that differ.
  [[nodiscard]] virtual int set_signature(memory::KeyConfig& config,
                                          const memory::Signature& signature,
                                          bool own_copy_mask) = 0;
  // At once, whatever is posted.
  [[nodiscard]] virtual int configure(Key* key, const memory::KeyConfig& config) = 0;
  // The first signature that was found wrong since the last call.
  [[nodiscard]] virtual int take_error(Key* key, std::optional<memory::SignatureError>& error) = 0;

  // --- queue pairs
  // As ibv_create_qp_ex; signature_pipelining: a wrong signature stops its send queue (SQD).
  [[nodiscard]] virtual ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* init,
                                          bool signature_pipelining) = 0;
  [[nodiscard]] virtual Companion* companion(ibv_qp* qp) = 0;
  // A request of its own on any queue pair; flags are ibv_send_flags.
  [[nodiscard]] virtual int post_configure(ibv_qp* qp, uint64_t wr_id, uint32_t flags, Key* key,
                                           const memory::KeyConfig& config) = 0;
  // How many were cancelled, or an errno.
  [[nodiscard]] virtual Result<uint32_t, int> cancel_sends(ibv_qp* qp, uint64_t wr_id) = 0;

  // A number that no queue pair gets until it is given back. ENOMEM: too many.
  [[nodiscard]] virtual int reserve_qpn(ibv_context* context, uint32_t& qpn) = 0;
  [[nodiscard]] virtual int release_qpn(ibv_context* context, uint32_t qpn) = 0;

  // --- requests between ibv_wr_start and ibv_wr_complete, which tells the first error
  virtual void fail(ibv_qp_ex* qp, int error) = 0;
  // A request to configure the key; gives the configuration, empty, to be filled until it is ended.
  // What is begun or completed meanwhile fails with EINVAL. nullptr: something failed before.
  [[nodiscard]] virtual memory::KeyConfig* begin_configure(ibv_qp_ex* qp, Key* key) = 0;
  // The one that was begun and not ended, if there is.
  [[nodiscard]] virtual memory::KeyConfig* configuration(ibv_qp_ex* qp) = 0;
  virtual void end_configure(ibv_qp_ex* qp) = 0;
  virtual void copy(ibv_qp_ex* qp, const memory::Sge& to, const memory::Sge& from) = 0;
};

}  // namespace verbena::keys
