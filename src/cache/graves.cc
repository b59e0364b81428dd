// SPDX-License-Identifier: Apache-2.0
#include "cache/graves.h"

#include "base/endian.h"
#include "store/drafts.h"
#include "store/mark.h"

namespace verbena::cache {
namespace {

//  version u64, next u64, tries u32, id u64 u64, user u64 u64, name
constexpr size_t kHeadBytes = 8 + 8 + 4 + 16 + 16;

std::vector<uint8_t> encode(const Grave& grave) {
  std::vector<uint8_t> bytes(kHeadBytes + grave.key.name.size());
  store_be64(&bytes[0], grave.behind.version);
  store_be64(&bytes[8], grave.behind.next);
  store_be32(&bytes[16], grave.behind.tries);
  store_be64(&bytes[20], grave.key.id.high);
  store_be64(&bytes[28], grave.key.id.low);
  store_be64(&bytes[36], grave.user.high);
  store_be64(&bytes[44], grave.user.low);
  std::ranges::copy(grave.key.name, bytes.begin() + kHeadBytes);
  return bytes;
}

std::optional<Grave> decode(ObjectId id, std::span<const uint8_t> bytes) {
  if (bytes.size() < kHeadBytes) return std::nullopt;
  Grave grave;
  grave.id = id;
  grave.behind.version = load_be64(&bytes[0]);
  grave.behind.next = load_be64(&bytes[8]);
  grave.behind.tries = load_be32(&bytes[16]);
  grave.key.id = {load_be64(&bytes[20]), load_be64(&bytes[28])};
  grave.user = {load_be64(&bytes[36]), load_be64(&bytes[44])};
  const auto name = bytes.subspan(kHeadBytes);
  grave.key.name.assign(name.begin(), name.end());
  return grave;
}

}  // namespace

Graves::Order Graves::order_of(const backend::Key& key) {
  return {key.name, key.name.empty() ? key.id : ObjectId{}};
}

store::Result<void> Graves::open() {
  // The nameless come first, in order of their ids.
  std::optional<store::Cursor> after = store::Cursor{{}, {store::kGraveHigh, 0}};
  for (;;) {
    const auto page = store_.list(after, 256);
    if (!page) return fail(page.error());
    for (const store::ObjectInfo& object : *page) {
      if (object.id.high != store::kGraveHigh || !object.name.empty()) return {};
      if (const auto opened = open_one(object.id); !opened) return opened;
    }
    if (page->size() < 256) return {};
    after = store::Cursor{page->back().name, page->back().id};
  }
}

store::Result<void> Graves::open_one(ObjectId id) {
  std::vector<uint8_t> bytes(kHeadBytes + store::kMaxNameBytes);
  const auto size = store_.read(id, 0, bytes);
  if (!size) return fail(size.error());
  auto grave = decode(id, std::span(bytes).first(*size));
  if (!grave) return store_.remove(id);  // its object did not go
  const MutexLock lock(mutex_);
  graves_.emplace(order_of(grave->key), std::move(*grave));
  return {};
}

store::Result<void> Graves::add(const backend::Key& key, const store::Behind& behind,
                                ObjectId user) {
  for (const Grave& grave : of(key)) {
    if (grave.behind == behind && grave.user == user) return {};
  }
  const auto number = store::draw_random(random_);
  if (!number) return fail(number.error());
  Grave grave{{store::kGraveHigh, *number | 1}, key, behind, user};
  if (const auto made = store_.create_object(grave.id); !made) return made;
  if (const auto written = store_.write(grave.id, 0, encode(grave)); !written) {
    static_cast<void>(store_.remove(grave.id));
    return written;
  }
  const MutexLock lock(mutex_);
  graves_.emplace(order_of(key), std::move(grave));
  return {};
}

std::vector<Grave> Graves::of(const backend::Key& key) const {
  const MutexLock lock(mutex_);
  std::vector<Grave> graves;
  const auto [first, end] = graves_.equal_range(order_of(key));
  for (auto each = first; each != end; ++each) graves.push_back(each->second);
  return graves;
}

std::vector<Grave> Graves::all() const {
  const MutexLock lock(mutex_);
  std::vector<Grave> graves;
  for (const auto& [order, grave] : graves_) graves.push_back(grave);
  return graves;
}

store::Result<void> Graves::remove(const Grave& grave) {
  if (const auto removed = store_.remove(grave.id);
      !removed && removed.error().code != store::Code::kNotFound) {
    return removed;
  }
  const MutexLock lock(mutex_);
  const auto [first, end] = graves_.equal_range(order_of(grave.key));
  for (auto each = first; each != end; ++each) {
    if (each->second.id != grave.id) continue;
    graves_.erase(each);
    break;
  }
  return {};
}

}  // namespace verbena::cache
