// SPDX-License-Identifier: Apache-2.0
// The door between this library and libmlx5.so.1 and libverbena.so.1. Whenever keys/service.h or
// what it includes changes its layout, the version of this symbol does (libibverbs.map, and
// keys::kSymbolVersion): libraries of two builds must not meet.
#include "keys/service.h"
#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {
namespace {

using memory::KeyConfig;

[[nodiscard]] int errno_of(memory::ConfigError error) {
  switch (error) {
    case memory::ConfigError::kNone:    return 0;
    case memory::ConfigError::kTooMany: return ENOMEM;
    case memory::ConfigError::kInvalid: break;
  }
  return EINVAL;
}

// As new, but for the room that it has.
void clear(KeyConfig& config) {
  std::vector<memory::KeyBlock> room = std::move(config.blocks);
  room.clear();
  config = {};
  config.blocks = std::move(room);
}

class KeyService final : public keys::Service {
 public:
  keys::Key* create(ibv_pd* pd, const memory::KeySpec& spec) override {
    if (!is_alive(pd)) return none(EINVAL);
    return guarded([&]() -> keys::Key* {
      auto key = std::make_unique<KeyObject>();
      const auto made = of(pd->context).device.create_key(*of(pd).pd, spec);
      if (!made) return none(made.error());
      key->lkey = made->lkey.value;
      key->rkey = made->rkey.value;
      key->context = pd->context;
      key->pd = of(pd).pd;
      key->spec = spec;
      return key.release();
    });
  }

  int destroy(keys::Key* key) override {
    return guarded([key] {
      if (!is_alive(key)) return EINVAL;
      return verbs::destroy(of(key), [key] { return device_of(key).destroy_key(LKey(key->lkey)); });
    });
  }

  int check(keys::Key* key, const KeyConfig& config) override {
    if (!is_alive(key)) return EINVAL;
    return errno_of(memory::check_config(of(key).spec, config));
  }

  int set_signature(KeyConfig& config, const memory::Signature& signature,
                    bool own_copy_mask) override {
    const auto& [memory, wire, check_mask, copy_mask] = signature;
    if (own_copy_mask && !memory::same_structure(memory, wire)) return EINVAL;
    config.signature = signature;
    if (!own_copy_mask) config.signature->copy_mask = memory::default_copy_mask(memory, wire);
    return 0;
  }

  int configure(keys::Key* key, const KeyConfig& config) override {
    return guarded([&] {
      if (const int error = check(key, config); error != 0) return error;
      return device_of(key).configure_key(*of(key).pd, LKey(key->lkey), config);
    });
  }

  int take_error(keys::Key* key, std::optional<memory::SignatureError>& error) override {
    return guarded([&] {
      if (!is_alive(key)) return EINVAL;
      auto taken = device_of(key).take_signature_error(LKey(key->lkey));
      if (!taken) return taken.error();
      error = *taken;
      return 0;
    });
  }

  ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* init,
                    bool signature_pipelining) override {
    if (!is_alive(context) || init == nullptr) return none(EINVAL);
    return create_qp_ex(context, init, signature_pipelining);
  }

  keys::Companion* companion(ibv_qp* qp) override {
    return is_alive(qp) ? &of(qp).companion : nullptr;
  }

  int post_configure(ibv_qp* qp, uint64_t wr_id, uint32_t flags, keys::Key* key,
                     const KeyConfig& config) override {
    constexpr uint32_t kKnown = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    if (!is_alive(qp) || (flags & ~kKnown) != 0) return EINVAL;
    if (const int error = check(key, config); error != 0) return error;
    transport::SendRequest request;
    request.wr_id = wr_id;
    request.flags = flags;
    request.op = transport::SendOp::kConfigureKey;
    request.key = LKey(key->lkey);
    request.config = &config;
    return of(qp->context).device.post_send(*of(qp).qp, request);
  }

  Result<uint32_t, int> cancel_sends(ibv_qp* qp, uint64_t wr_id) override {
    if (!is_alive(qp)) return verbena::fail(EINVAL);
    return of(qp->context).device.cancel_sends(*of(qp).qp, wr_id);
  }

  int reserve_qpn(ibv_context* context, uint32_t& qpn) override {
    return guarded([&] {
      if (!is_alive(context)) return EINVAL;
      const auto reserved = of(context).device.reserve_qpn();
      if (!reserved) return reserved.error();
      qpn = reserved->value;
      return 0;
    });
  }

  int release_qpn(ibv_context* context, uint32_t qpn) override {
    return guarded(
        [=] { return is_alive(context) ? of(context).device.release_qpn(Qpn(qpn)) : EINVAL; });
  }

  void fail(ibv_qp_ex* qp, int error) override {
    WorkInProgress& work = of(qp).work;
    work.assert_started();
    if (of(qp).is_alive() && work.error == 0) work.error = error;
  }

  KeyConfig* begin_configure(ibv_qp_ex* qp, keys::Key* key) override {
    if (!of(qp).is_alive()) return nullptr;
    if (!is_alive(key)) fail(qp, EINVAL);
    WorkInProgress& work = of(qp).work;
    work.assert_started();
    transport::SendRequest& request = begin_request(qp, transport::SendOp::kConfigureKey);
    if (work.error != 0 || !has_room(work)) return nullptr;
    KeyConfig& config = *work.configs[work.configs_used++];
    clear(config);
    request.key = LKey(key->lkey);
    request.config = &config;
    work.configured = &of(key);
    return &config;
  }

  KeyConfig* configuration(ibv_qp_ex* qp) override {
    if (!of(qp).is_alive()) return nullptr;
    WorkInProgress& work = of(qp).work;
    work.assert_started();
    const bool open = work.error == 0 && work.configured != nullptr;
    return open ? work.configs[work.configs_used - 1].get() : nullptr;
  }

  void end_configure(ibv_qp_ex* qp) override {
    KeyConfig* const config = configuration(qp);
    if (config == nullptr) return;
    WorkInProgress& work = of(qp).work;
    work.assert_started();
    const int error = check(work.configured, *config);
    work.configured = nullptr;
    if (error != 0) fail(qp, error);
  }

  void copy(ibv_qp_ex* qp, const memory::Sge& to, const memory::Sge& from) override {
    transport::SendRequest& request = begin_request(qp, transport::SendOp::kCopy);
    request.copy_to = to;
    request.copy_from = from;
  }

 private:
  [[nodiscard]] static device::Context& device_of(keys::Key* key) {
    return of(of(key).context).device;
  }
  // For one more configuration.
  [[nodiscard]] static bool has_room(WorkInProgress& work) VERBENA_REQUIRES(work.mutex) {
    if (work.configs_used < work.configs.size()) return true;
    try {
      work.configs.push_back(std::make_unique<KeyConfig>());
    } catch (const std::bad_alloc&) {
      work.error = ENOMEM;
      return false;
    }
    return true;
  }
};

}  // namespace
}  // namespace verbena::verbs

VERBENA_EXPORT verbena::keys::Service* verbena_key_service() {
  // Outlives every program's last call.
  static auto& service = *new verbena::verbs::KeyService;
  return &service;
}
