// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_tier.h"

#include <fmt/format.h>

#include "backend/object_path.h"
#include "backend/s3_impl.h"
#include "backend/s3_update.h"
#include "store/record.h"

namespace verbena::backend {

Result<std::unique_ptr<S3Tier>> S3Tier::open(const S3Options& options) {
  auto client = S3Client::connect(options);
  if (!client) return fail(client.error());
  auto lease = S3Lease::take(**client);
  if (!lease) return fail(lease.error());
  const bool closed = (*lease)->was_closed();
  auto tier = std::make_unique<S3Impl>(std::move(*client), std::move(*lease));
  if (!closed) {
    if (auto removed = tier->remove_garbage(); !removed) return fail(removed.error());
  }
  return tier;
}

S3Impl::~S3Impl() { lease_->close(!left_over_.load(std::memory_order_relaxed)); }

Error S3Impl::damaged(const Key& key, uint64_t offset, const std::string& what) const {
  Error error{
      Code::kDamaged, fmt::format("S3 {}: {}: {}", client_->name(), s3_path_of(key), what), {}};
  error.damage.object = key.id;
  error.damage.offset = offset;
  error.damage.field = "data CRC";
  return error;
}

Error S3Impl::conflict() const {
  return {Code::kConflict,
          fmt::format("S3 {}: it is another version of the object", client_->name()),
          {}};
}

Result<S3Head> S3Impl::head_in(const Key& key, const S3Answer& answer, uint64_t size) const {
  auto head = parse_s3_head(answer.headers, size, digest_of(key));
  if (!head) return fail(damaged(key, 0, head.error()));
  return *head;
}

Result<S3Head> S3Impl::find(const Key& key) {
  if (!store::good_name(key.name)) {
    return fail(Error{Code::kInvalid, "invalid object name: not UTF-8, or too long", {}});
  }
  S3Request request;
  request.method = "HEAD";
  request.path = s3_path_of(key);
  auto answer = client_->ask(request, "no such object");
  if (!answer) return fail(answer.error());
  const auto size = parse_decimal(answer->header("content-length"));
  if (!size) {
    return fail(
        Error{Code::kIo,
              fmt::format("S3 {}: {}: the answer has no length", client_->name(), request.path),
              {}});
  }
  return head_in(key, *answer, *size);
}

Result<State> S3Impl::state(const Key& key) {
  auto found = find(key);
  if (!found) return fail(found.error());
  return found->state;
}

// A listing has neither versions nor metadata: each object is asked for, several at a time.
Result<void> S3Impl::list_page(const std::vector<std::string>& paths, const Each& each,
                               bool& more) {
  Result<void> result;
  S3Flight flight(client_->options().in_flight);
  for (const std::string& path : paths) {
    if (!more || !result) break;
    const auto key = key_of_s3_path(path);
    if (!key) continue;
    flight.start([&, key = *key] {
      return [&, key, found = find(key)]() mutable {
        if (!more || !result) return;
        if (found) key.id = key.name.empty() ? key.id : found->id;
        if (found) {
          more = each({key, found->state});
        } else if (found.error().code == Code::kDamaged) {
          more = each({key, {}});
        } else if (found.error().code != Code::kNotFound) {  // removed meanwhile
          result = fail(found.error());
        }
      };
    });
  }
  flight.wait_all();
  return result;
}

Result<void> S3Impl::list(const Each& each) {
  return client_->each_page("", [&](const std::vector<std::string>& paths) -> Result<bool> {
    bool more = true;
    if (auto listed = list_page(paths, each, more); !listed) return fail(listed.error());
    return more;
  });
}

Result<std::unique_ptr<Update>> S3Impl::update(const Key& key, const NewState& wanted) {
  auto update = std::make_unique<S3Update>(*this, key, wanted);
  if (auto begun = update->begin(); !begun) return fail(begun.error());
  return update;
}

void S3Impl::remove_quietly(const std::string& path) {
  S3Request request;
  request.method = "DELETE";
  request.path = path;
  const auto answer = client_->send(request);
  if (answer && (answer->good() || answer->status == 404)) return;
  left_over_.store(true, std::memory_order_relaxed);
}

bool S3Impl::abort_quietly(const std::string& path, const std::string& upload) {
  S3Request request;
  request.method = "DELETE";
  request.path = path;
  request.query.emplace_back("uploadId", upload);
  const auto answer = client_->send(request);
  if (answer && (answer->good() || answer->status == 404)) return true;
  left_over_.store(true, std::memory_order_relaxed);
  return false;
}

Result<void> S3Impl::remove(const Key& key, uint64_t version) {
  if (auto ours = lease_->check(); !ours) return ours;
  auto found = find(key);
  if (!found && found.error().code == Code::kNotFound) return {};
  if (!found) return fail(found.error());
  if (found->state.version != version) return fail(conflict());
  S3Request request;
  request.method = "DELETE";
  request.path = s3_path_of(key);
  auto answer = client_->send(request);
  if (!answer || (!answer->good() && answer->status != 404)) {
    left_over_.store(true, std::memory_order_relaxed);  // perhaps it was done
    return fail(answer ? client_->failed("cannot remove it", request, *answer) : answer.error());
  }
  if (!found->adopted) remove_quietly(s3_sums_path(digest_of(key), version));
  return {};
}

}  // namespace verbena::backend
