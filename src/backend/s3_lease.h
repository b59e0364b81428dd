// SPDX-License-Identifier: Apache-2.0
// The right to change what is in a bucket: an object that says who has it, renewed by a thread of
// its own. It is over when it has not been renewed for its time, by the service's clock for others
// and by the steady clock for the owner, who stops writing then. Where the service has conditional
// writes, of two who take it one gets it; otherwise each looks again after a pause, which makes it
// unlikely, and not impossible, that both do.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "backend/s3_client.h"
#include "base/mutex.h"

namespace verbena::backend {

class S3Lease {
 public:
  // kInUse: another process has it.
  [[nodiscard]] static Result<std::unique_ptr<S3Lease>> take(S3Client& client);
  S3Lease(const S3Lease&) = delete;
  S3Lease& operator=(const S3Lease&) = delete;
  ~S3Lease();

  // Whether it is ours still, as far as this process can tell. Before each change.
  [[nodiscard]] Result<void> check();
  // The service refuses writes whose condition does not hold.
  [[nodiscard]] bool conditional() const { return conditional_; }
  // An ETag as the service wants it in a condition: Ceph's refuses to match it in its quotes.
  [[nodiscard]] std::string condition(const std::string& etag) const;
  // The last owner has left nothing over.
  [[nodiscard]] bool was_closed() const { return was_closed_; }
  // Stops renewing it, and gives it back; `clean`: nothing is left over.
  void close(bool clean);

 private:
  using Clock = std::chrono::steady_clock;
  struct Found {
    S3LeaseText text;
    std::string etag;
    int64_t age_s = 0;  // by the service's clock
    bool readable = true;
  };
  explicit S3Lease(S3Client& client);
  // kNotFound: there is none.
  [[nodiscard]] Result<Found> look();
  // Status 200, 412 (also for 409) or 501, others are errors. No condition: `header` is empty.
  [[nodiscard]] Result<S3Answer> write(const std::string& header, const std::string& value);
  // If it is still the one with this ETag; finds out how that is written.
  [[nodiscard]] Result<S3Answer> write_if_match(const std::string& etag);
  [[nodiscard]] Result<void> take_it();
  [[nodiscard]] Result<void> find_conditional();
  void renew();
  void renew_once();
  void note_written(const S3Answer& answer, Clock::time_point since);
  [[nodiscard]] Error in_use(const std::string& whose) const;

  S3Client& client_;
  S3LeaseText text_;  // of the thread that renews, once that runs
  std::string etag_;
  bool conditional_;
  bool quoted_ = true;  // ETags in conditions
  bool was_closed_ = false;
  bool held_ = false;

  Mutex mutex_;
  Condition ending_;
  bool end_ VERBENA_GUARDED_BY(mutex_) = false;
  bool lost_ VERBENA_GUARDED_BY(mutex_) = false;
  Clock::time_point renewed_ VERBENA_GUARDED_BY(mutex_);
  std::thread renewing_;
};

}  // namespace verbena::backend
