// SPDX-License-Identifier: Apache-2.0
#include "backend/rados_lease.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <utility>

#include <fmt/format.h>
#include <sys/time.h>
#include <unistd.h>

#include "backend/rados_format.h"
#include "base/check.h"
#include "base/kernel_random.h"

namespace verbena::backend {
namespace {

constexpr const char* kLeaseObject = "lease";
constexpr const char* kLockName = "owner";
constexpr const char* kClosedAttribute = "closed";  // the epoch that has left nothing over

[[nodiscard]] uint64_t epoch_in(const std::string& text) {
  uint64_t epoch = 0;
  std::from_chars(text.data(), text.data() + text.size(), epoch, 16);
  return epoch;
}

}  // namespace

RadosLease::RadosLease(RadosPool& pool, const RadosOptions& options)
    : pool_(pool), options_(options) {
  KernelRandom random;
  VERBENA_CHECK(random.seed() == 0);
  cookie_ = fmt::format("{:016x}", random.next());
}

Result<std::unique_ptr<RadosLease>> RadosLease::take(RadosPool& pool, const RadosOptions& options) {
  std::unique_ptr<RadosLease> lease(new RadosLease(pool, options));
  const int error = lease->lock(0);
  if (error == -EBUSY || error == -EEXIST) {
    return fail(Error{Code::kInUse,
                      fmt::format("pool {} is in use by another process{}; its lease ends {} s "
                                  "after that process does",
                                  pool.name(), lease->owner(), options.lease_s),
                      {}});
  }
  if (error < 0) return fail(pool.failed("cannot take the lease", kLeaseObject, error));
  lease->held_ = true;
  if (auto raised = lease->raise_epoch(); !raised) return fail(raised.error());
  if (auto fenced = lease->fence(); !fenced) return fail(fenced.error());
  lease->renewing_ = std::thread([raw = lease.get()] { raw->renew(); });
  return lease;
}

int RadosLease::lock(uint8_t flags) {
  std::array<char, 256> host{};
  static_cast<void>(!gethostname(host.data(), host.size() - 1));
  const std::string description = fmt::format("process {} on {}", getpid(), host.data());
  timeval duration{.tv_sec = static_cast<time_t>(options_.lease_s), .tv_usec = 0};
  return pool_.api().lock_exclusive(pool_.io(), kLeaseObject, kLockName, cookie_.c_str(),
                                    description.c_str(), &duration, flags);
}

std::string RadosLease::owner() {
  int exclusive = 0;
  std::array<char, 256> tag{};
  std::array<char, 1024> clients{};
  std::array<char, 1024> cookies{};
  std::array<char, 1024> addresses{};
  size_t tag_length = tag.size();
  size_t clients_length = clients.size();
  size_t cookies_length = cookies.size();
  size_t addresses_length = addresses.size();
  const ssize_t count = pool_.api().list_lockers(
      pool_.io(), kLeaseObject, kLockName, &exclusive, tag.data(), &tag_length, clients.data(),
      &clients_length, cookies.data(), &cookies_length, addresses.data(), &addresses_length);
  if (count <= 0) return "";
  return fmt::format(" ({} at {})", clients.data(), addresses.data());
}

// Whoever has the lock; if two think so, one of them does it.
Result<void> RadosLease::raise_epoch() {
  auto last = pool_.attribute(kLeaseObject, kEpochAttribute);
  if (!last) return fail(last.error());
  auto closed = pool_.attribute(kLeaseObject, kClosedAttribute);
  if (!closed) return fail(closed.error());
  was_closed_ = !last->empty() && *closed == *last;
  epoch_ = epoch_in(*last) + 1;
  epoch_text_ = fmt::format("{:016x}", epoch_);
  WriteOperation op(pool_);
  op.create();
  if (!last->empty()) op.compare(kEpochAttribute, LIBRADOS_CMPXATTR_OP_EQ, *last);
  op.set(kEpochAttribute, epoch_text_);
  const int error = op.run(kLeaseObject);
  if (error == -ECANCELED) {
    return fail(
        Error{Code::kInUse, fmt::format("pool {} was taken by another process", pool_.name()), {}});
  }
  if (error < 0) return fail(pool_.failed("cannot raise the epoch", kLeaseObject, error));
  return {};
}

// From here on nobody of an earlier epoch changes an index.
Result<void> RadosLease::fence() {
  int worst = 0;
  RadosFlight flight(pool_, options_.in_flight);
  const auto done = [&](int result) { worst = std::min(worst, result); };
  for (const bool guarded : {false, true}) {
    for (uint32_t index = 0; index < kRadosIndexes; ++index) {
      WriteOperation op(pool_);
      if (guarded) {
        op.compare(kEpochAttribute, LIBRADOS_CMPXATTR_OP_GT, epoch_text_);
        op.set(kEpochAttribute, epoch_text_);
      } else {
        op.create();
      }
      const std::string name = index_name(index);
      flight.start(
          [&](rados_completion_t completion) {
            return pool_.api().aio_write_op_operate(op.get(), pool_.io(), completion, name.c_str(),
                                                    nullptr, 0);
          },
          done);
    }
    flight.wait_all();
    if (worst == -ECANCELED) {
      return fail(Error{
          Code::kInUse, fmt::format("pool {} was taken by another process", pool_.name()), {}});
    }
    if (worst < 0) return fail(pool_.failed("cannot write the epoch", "index", worst));
  }
  return {};
}

// If the cluster is out of reach for longer than the lease, another process may take it; then this
// one finds the lock taken, and its epoch refused wherever it writes.
void RadosLease::renew() {
  const auto pause = std::chrono::milliseconds(options_.lease_s * 1000 / 3);
  const MutexLock lock(mutex_);
  while (!end_) {
    ending_.wait_until(mutex_, std::chrono::steady_clock::now() + pause);
    if (end_) return;
    const MutexUnlock unlock(mutex_);
    static_cast<void>(this->lock(LIBRADOS_LOCK_FLAG_MAY_RENEW));
  }
}

void RadosLease::close(bool clean) {
  {
    const MutexLock lock(mutex_);
    end_ = true;
  }
  ending_.notify_all();
  if (renewing_.joinable()) renewing_.join();
  if (!std::exchange(held_, false)) return;
  if (clean) {
    WriteOperation op(pool_);
    op.compare(kEpochAttribute, LIBRADOS_CMPXATTR_OP_EQ, epoch_text_);
    op.set(kClosedAttribute, epoch_text_);
    static_cast<void>(op.run(kLeaseObject));  // without it the next owner looks for garbage
  }
  static_cast<void>(pool_.api().unlock(pool_.io(), kLeaseObject, kLockName, cookie_.c_str()));
}

RadosLease::~RadosLease() { close(false); }

}  // namespace verbena::backend
