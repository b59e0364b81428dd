// SPDX-License-Identifier: Apache-2.0
// A tier that is a pool of a Ceph cluster, or a namespace in it (docs/backend.md). Objects are cut
// into stripes of 1024 parts, which are written under new names; a head, which lists them, is
// switched by one operation that is refused unless this process still has the lease. For any number
// of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/tier.h"

namespace verbena::backend {

struct RadosOptions {
  std::string pool;
  std::string name_space{};
  std::string conf{};  // empty: where Ceph looks for it
  std::string user{};  // empty: "admin", as Ceph has it
  // In seconds. After it an operation fails with kUnreachable.
  uint32_t operation_timeout_s = 15;
  uint32_t connect_timeout_s = 30;
  // How long after its end, or after the cluster is out of reach, another process waits until it
  // may take over.
  uint32_t lease_s = 30;
  uint32_t in_flight = 8;  // stripes
};

class RadosTier : public Tier {
 public:
  // kInUse: another process has the lease. kUnreachable, kIo: no cluster, or it refuses the key.
  [[nodiscard]] static Result<std::unique_ptr<RadosTier>> open(const RadosOptions& options);
  // Goes up with each process that takes the lease.
  [[nodiscard]] virtual uint64_t epoch() const = 0;
  // Stripes of no object that were removed when it was opened.
  [[nodiscard]] virtual uint64_t removed_stripes() const = 0;
};

}  // namespace verbena::backend
