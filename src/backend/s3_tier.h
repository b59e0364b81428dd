// SPDX-License-Identifier: Apache-2.0
// A tier that is a bucket of an S3 service, or what has a prefix in it (docs/backend.md). Objects
// are ordinary ones that any program can read; a new version is written whole. The weakest of the
// tiers: unless the service has conditional writes, nothing but time keeps two owners apart. For
// any number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/tier.h"

namespace verbena::backend {

struct S3Credentials {
  std::string access_key{};
  std::string secret_key{};
  std::string session_token{};  // may be empty
};

struct S3Options {
  std::string bucket;
  std::string prefix{};    // without a slash at its end
  std::string endpoint{};  // "https://HOST[:PORT]"
  std::string region = "us-east-1";
  bool bucket_in_host = false;  // https://BUCKET.HOST/KEY, not https://HOST/BUCKET/KEY
  S3Credentials credentials{};  // none: those of the environment (s3_credentials.h)
  std::string ca_file{};        // empty: AWS_CA_BUNDLE, or those of the system
  // Off: as if the service had no conditional writes.
  bool use_conditions = true;
  // In seconds. After so long without an answer, or with less than 64 KiB/s on the average, a
  // request fails with kUnreachable.
  uint32_t timeout_s = 15;
  uint32_t lease_s = 30;
  uint32_t in_flight = 8;  // requests of one call
};

class S3Tier : public Tier {
 public:
  // kInUse: another process has the lease. kUnreachable, kIo: no service, or it refuses the key.
  [[nodiscard]] static Result<std::unique_ptr<S3Tier>> open(const S3Options& options);
  // Whether the service refuses a write whose condition does not hold. If not, a process that was
  // stopped for longer than its lease can overwrite what the next owner has written.
  [[nodiscard]] virtual bool is_guarded() const = 0;
  // Sums of no object, and uploads, that were removed when it was opened.
  [[nodiscard]] virtual uint64_t removed_leftovers() const = 0;
};

}  // namespace verbena::backend
