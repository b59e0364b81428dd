// SPDX-License-Identifier: Apache-2.0
// The port's GID table: one entry for each address of the host, loopback included. An address keeps
// its index for as long as it exists, and finds it again when it comes back; the place of one that
// went is reused last. The device refreshes it when the kernel says that something changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "device/address_choice.h"
#include "transport/types.h"
#include "wire/gid.h"

namespace verbena::device {

struct GidEntry {
  wire::Gid gid;  // zero: empty
  uint32_t interface_index = 0;
  std::string interface;
  uint32_t mtu_bytes = 0;  // of the interface
  bool loopback = false;
  bool shown_as_v1 = false;  // RoCE v1 to look at; what is sent from it is RoCE v2
};

// What of the host's addresses is shown, and how.
struct GidOptions {
  AddressChoice offered = {};
  transport::Mtu mtu_at_most = transport::Mtu::k4096;
  // As in a ConnectX's table: each address twice, as RoCE v1 and then as v2.
  bool with_v1 = false;
};

class GidTable {
 public:
  static constexpr size_t kMaxEntries = 256;

  GidTable() = default;
  explicit GidTable(GidOptions options) : options_(std::move(options)) {}

  // Before the first refresh.
  void set_options(const GidOptions& options) { options_ = options; }
  // Reads the host's interfaces; true when an address came or went.
  bool refresh();

  [[nodiscard]] std::vector<GidEntry> entries() const;
  [[nodiscard]] std::optional<GidEntry> at(uint32_t index) const;
  // Where it is shown as RoCE v2.
  [[nodiscard]] std::optional<uint32_t> find(const wire::Gid& gid) const;
  // The largest path MTU that fits every interface in the table and is not above the option's.
  [[nodiscard]] transport::Mtu active_mtu() const;
  // The option's.
  [[nodiscard]] transport::Mtu largest_mtu() const { return options_.mtu_at_most; }
  // Around fork: no other thread is reading it.
  void before_fork() VERBENA_ACQUIRE(mutex_) { mutex_.lock(); }
  void after_fork() VERBENA_RELEASE(mutex_) { mutex_.unlock(); }

 private:
  // Where it was, else at the end, else in a gap; false when all places are taken.
  bool place(const GidEntry& entry) VERBENA_REQUIRES(mutex_);

  // How often each address is shown.
  [[nodiscard]] uint32_t times_shown() const { return options_.with_v1 ? 2 : 1; }
  [[nodiscard]] GidEntry shown(uint32_t index) const VERBENA_REQUIRES(mutex_);

  GidOptions options_;  // not changed after the first refresh
  mutable Mutex mutex_;
  std::vector<GidEntry> entries_ VERBENA_GUARDED_BY(mutex_);  // each address once
  std::vector<wire::Gid> last_ VERBENA_GUARDED_BY(mutex_);    // by index: what was there last
};

// The largest path MTU whose packets fit an interface of so many bytes.
[[nodiscard]] transport::Mtu path_mtu_for(uint32_t interface_mtu_bytes);

}  // namespace verbena::device
