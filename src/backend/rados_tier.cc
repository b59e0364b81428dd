// SPDX-License-Identifier: Apache-2.0
#include "backend/rados_tier.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include <fmt/format.h>

#include "backend/object_path.h"
#include "backend/rados_impl.h"
#include "backend/rados_update.h"
#include "store/crc_parts.h"
#include "store/record.h"

namespace verbena::backend {
namespace {

void fill_with_zeros(std::span<PartToLoad> parts) {
  for (PartToLoad& part : parts) {
    std::memset(part.bytes, 0, kPartBytes);
    part.crc = store::crc_of_zeros(kPartBytes);
  }
}

}  // namespace

Result<std::unique_ptr<RadosTier>> RadosTier::open(const RadosOptions& options) {
  auto pool = RadosPool::connect(options);
  if (!pool) return fail(pool.error());
  auto lease = RadosLease::take(**pool, options);
  if (!lease) return fail(lease.error());
  const bool closed = (*lease)->was_closed();
  auto tier = std::make_unique<RadosImpl>(std::move(*pool), std::move(*lease), options);
  if (!closed) {
    if (auto removed = tier->remove_garbage(); !removed) return fail(removed.error());
  }
  return tier;
}

RadosImpl::~RadosImpl() { lease_->close(!left_over_.load(std::memory_order_relaxed)); }

Error RadosImpl::damaged(const Key& key, uint64_t offset, std::string what) const {
  Error error{Code::kDamaged, fmt::format("pool {}: {}", pool_->name(), what), {}};
  error.damage.object = key.id;
  error.damage.offset = offset;
  error.damage.field = "data CRC";
  return error;
}

Result<FoundHead> RadosImpl::find(const Key& key) {
  if (!store::good_name(key.name)) {
    return fail(Error{Code::kInvalid, "invalid object name: not UTF-8, or too long", {}});
  }
  FoundHead found{.digest = digest_of(key), .value = {}, .head = {}};
  auto value = pool_->omap_value(index_of(found.digest), found.digest);
  if (!value) {
    Error error = value.error();
    // Indexes are made when the pool is opened: one that is gone is not an object that is not
    // there.
    if (error.code == Code::kNotFound) error.code = Code::kDamaged;
    return fail(std::move(error));
  }
  if (value->empty()) {
    return fail(Error{Code::kNotFound, fmt::format("pool {}: no such object", pool_->name()), {}});
  }
  found.value = std::move(*value);
  auto head = decode_rados_head(found.value);
  if (!head || digest_of(head->key) != found.digest) {
    return fail(damaged(
        key, 0, fmt::format("the head {} in {} is damaged", found.digest, index_of(found.digest))));
  }
  found.head = std::move(*head);
  return found;
}

Result<State> RadosImpl::state(const Key& key) {
  auto found = find(key);
  if (!found) return fail(found.error());
  return found->head.state;
}

Result<void> RadosImpl::list(const Each& each) {
  std::string lost;
  for (uint32_t index = 0; index < kRadosIndexes; ++index) {
    auto more = pool_->each_value(
        index_name(index), [&](std::string_view digest, std::string_view value) -> Result<bool> {
          auto head = decode_rados_head(value);
          if (head && digest_of(head->key) == digest) return each({head->key, head->state});
          lost = digest;  // its name is lost, too
          return true;
        });
    if (!more) return fail(more.error());
    if (!*more) return {};
  }
  if (lost.empty()) return {};
  return fail(damaged({}, 0, fmt::format("the head {} in {} is damaged", lost, index_of(lost))));
}

Result<void> RadosImpl::load(const Key& key, uint64_t version, uint64_t first,
                             std::span<PartToLoad> parts) {
  auto found = find(key);
  if (!found) return fail(found.error());
  const RadosHead& head = found->head;
  const auto other = [&] {
    return fail(Error{Code::kConflict,
                      fmt::format("pool {}: it is another version of the object", pool_->name()),
                      {}});
  };
  if (head.state.version != version) return other();
  const uint64_t all = head.state.size / kPartBytes + (head.state.size % kPartBytes != 0 ? 1 : 0);
  if (first > all || parts.size() > all - first) {
    return fail(Error{Code::kInvalid, "parts after the end of the object", {}});
  }

  // Taken as they come; memory is for as many as are under way.
  std::vector<std::unique_ptr<StripeRead>> reads;
  std::vector<StripeRead*> idle;
  Result<void> result;
  {
    RadosFlight flight(*pool_, options_.in_flight);
    for (uint64_t at = first; at < first + parts.size() && result;) {
      const uint64_t number = at / kStripeParts;
      const uint64_t slot = at % kStripeParts;
      const uint64_t count = std::min(first + parts.size() - at, kStripeParts - slot);
      const auto some = parts.subspan(at - first, count);
      at += count;
      if (head.stripes[number] == 0) {
        fill_with_zeros(some);
        continue;
      }
      if (idle.empty()) idle.push_back(reads.emplace_back(std::make_unique<StripeRead>()).get());
      StripeRead* const read = idle.back();
      idle.pop_back();
      read->name = {found->digest, head.stripes[number], number};
      read->first = slot;
      read->count = count;
      begin_read(flight, *read, [&, read, some] {
        if (result) result = take_parts(head.key, *read, some);
        idle.push_back(read);
      });
    }
  }
  if (result || result.error().code != Code::kNotFound) return result;
  // A stripe is gone: an update has replaced it, or it is lost.
  auto now = find(key);
  if (!now || now->value != found->value) return other();
  return fail(damaged(head.key, first * kPartBytes, result.error().what));
}

Result<void> RadosImpl::take_parts(const Key& key, const StripeRead& read,
                                   std::span<PartToLoad> parts) const {
  auto table = check_read(key, read);
  if (!table) return fail(table.error());
  const uint64_t stored = std::clamp<uint64_t>(table->parts, read.first, read.first + read.count);
  const size_t there = stored - read.first;
  fill_with_zeros(parts.subspan(there));
  for (size_t i = 0; i < there; ++i) {
    const size_t slot = read.first + i;
    const uint64_t offset = read.name.number * kStripeBytes + slot * kPartBytes;
    const std::span<const uint8_t> bytes(read.bytes.data() + i * kPartBytes, kPartBytes);
    parts[i].crc = store::crc_copy(parts[i].bytes, bytes);
    if (parts[i].crc == table->crcs[slot] && (i + 1) * kPartBytes <= read.bytes_read) continue;
    Error error =
        damaged(key, offset, fmt::format("{} is damaged in part {}", text_of(read.name), slot));
    error.damage.expected = fmt::format("{:08x}", table->crcs[slot]);
    error.damage.actual = fmt::format("{:08x}", parts[i].crc);
    return fail(std::move(error));
  }
  return {};
}

void RadosImpl::begin_read(RadosFlight& flight, StripeRead& read, std::function<void()> done) {
  read.table.resize(kStripeTableBytes);
  if (read.bytes.data() == nullptr) read.bytes = memory_.take();
  const RadosLibrary& api = pool_->api();
  rados_read_op_t op = api.create_read_op();
  api.read_op_read(op, 0, read.table.size(), reinterpret_cast<char*>(read.table.data()),
                   &read.table_read, &read.table_error);
  api.read_op_read(op, kStripeDataAt + read.first * kPartBytes, read.count * kPartBytes,
                   reinterpret_cast<char*>(read.bytes.data()), &read.bytes_read, &read.bytes_error);
  const std::string name = text_of(read.name);
  flight.start(
      [&](rados_completion_t completion) {
        return api.aio_read_op_operate(op, pool_->io(), completion, name.c_str(), 0);
      },
      [&read, done = std::move(done)](int result) {
        read.result = result;
        done();
      });
  api.release_read_op(op);
}

Result<StripeTable> RadosImpl::check_read(const Key& key, const StripeRead& read) const {
  const std::string name = text_of(read.name);
  const int error = std::min({read.result, read.table_error, read.bytes_error});
  if (error < 0) return fail(pool_->failed("cannot read it", name, error));
  const auto table =
      decode_stripe_table(std::span(read.table).first<kStripeTableBytes>(), read.name);
  if (read.table_read != kStripeTableBytes || !table) {
    return fail(damaged(key, read.name.number * kStripeBytes,
                        fmt::format("the checksums of {} are damaged", name)));
  }
  return *table;
}

Result<void> RadosImpl::switch_head(const std::string& digest, const std::string& before,
                                    const std::string& after) {
  const RadosLibrary& api = pool_->api();
  const std::string index = index_of(digest);
  WriteOperation op(*pool_);
  op.compare(kEpochAttribute, LIBRADOS_CMPXATTR_OP_EQ, lease_->epoch_text());
  // A key that is not there compares as an empty value.
  int compared = 0;
  api.write_op_omap_cmp2(op.get(), digest.c_str(), LIBRADOS_CMPXATTR_OP_EQ, before.data(),
                         digest.size(), before.size(), &compared);
  const char* const keys[] = {digest.data()};
  const size_t key_lengths[] = {digest.size()};
  if (after.empty()) {
    api.write_op_omap_rm_keys2(op.get(), keys, key_lengths, 1);
  } else {
    const char* const values[] = {after.data()};
    const size_t lengths[] = {after.size()};
    api.write_op_omap_set2(op.get(), keys, values, key_lengths, lengths, 1);
  }
  const int error = op.run(index);
  if (error == 0) return {};
  if (error != -ECANCELED) return fail(pool_->failed("cannot switch the head", index, error));
  auto epoch = pool_->attribute(index, kEpochAttribute);
  if (epoch && *epoch != lease_->epoch_text()) {
    return fail(
        Error{Code::kInUse,
              fmt::format("pool {}: another process has taken it over (epoch {}, ours is {})",
                          pool_->name(), *epoch, lease_->epoch_text()),
              {}});
  }
  return fail(Error{
      Code::kConflict,
      fmt::format("pool {}: it is not the version that the change begins from", pool_->name()),
      {}});
}

void RadosImpl::remove_stripes(const std::string& digest, const std::vector<uint64_t>& stripes,
                               const std::vector<uint64_t>& kept) {
  RadosFlight flight(*pool_, options_.in_flight);
  for (size_t number = 0; number < stripes.size(); ++number) {
    if (stripes[number] == 0 || (number < kept.size() && kept[number] == stripes[number])) continue;
    const std::string name = text_of(StripeName{digest, stripes[number], number});
    flight.start(
        [&](rados_completion_t completion) {
          return pool_->api().aio_remove(pool_->io(), name.c_str(), completion);
        },
        [this](int result) {
          if (result < 0 && result != -ENOENT) left_over_.store(true, std::memory_order_relaxed);
        });
  }
}

Result<void> RadosImpl::remove(const Key& key, uint64_t version) {
  auto found = find(key);
  if (!found && found.error().code == Code::kNotFound) return {};
  if (!found) return fail(found.error());
  if (found->head.state.version != version) {
    return fail(Error{Code::kConflict,
                      fmt::format("pool {}: it is another version of the object", pool_->name()),
                      {}});
  }
  if (auto switched = switch_head(found->digest, found->value, ""); !switched) {
    left_over_.store(true, std::memory_order_relaxed);  // perhaps it was done
    return switched;
  }
  remove_stripes(found->digest, found->head.stripes, {});
  return {};
}

Result<void> RadosImpl::remove_garbage() {
  std::unordered_map<std::string, std::vector<uint64_t>> heads;
  bool complete = true;
  for (uint32_t index = 0; index < kRadosIndexes; ++index) {
    auto all = pool_->each_value(
        index_name(index), [&](std::string_view digest, std::string_view value) -> Result<bool> {
          auto head = decode_rados_head(value);
          complete = complete && head.has_value();
          if (head) heads[std::string(digest)] = std::move(head->stripes);
          return true;
        });
    if (!all) return fail(all.error());
  }
  // Stripes of a head that cannot be read are not known: nothing is removed then.
  if (!complete) return {};
  std::vector<std::string> garbage;
  auto listed = pool_->each_object([&](std::string_view text) {
    const auto name = parse_stripe_name(text);
    if (!name) return;
    const auto head = heads.find(name->digest);
    const bool used = head != heads.end() && name->number < head->second.size() &&
                      head->second[name->number] == name->version;
    if (!used) garbage.emplace_back(text);
  });
  if (!listed) return listed;
  RadosFlight flight(*pool_, options_.in_flight);
  for (const std::string& name : garbage) {
    flight.start(
        [&](rados_completion_t completion) {
          return pool_->api().aio_remove(pool_->io(), name.c_str(), completion);
        },
        [this](int result) {
          removed_ += result == 0 ? 1 : 0;
          if (result < 0 && result != -ENOENT) left_over_.store(true, std::memory_order_relaxed);
        });
  }
  flight.wait_all();
  return {};
}

Result<std::unique_ptr<Update>> RadosImpl::update(const Key& key, const NewState& wanted) {
  auto update = std::make_unique<RadosUpdate>(*this, key, wanted);
  if (auto begun = update->begin(); !begun) return fail(begun.error());
  return update;
}

}  // namespace verbena::backend
