// SPDX-License-Identifier: Apache-2.0
#include "serve/worker.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>

namespace verbena::serve {
namespace {

using client::Code;
using client::ObjectRef;
using protocol::Status;

constexpr size_t kMostObjects = 5;

}  // namespace

client::Result<std::vector<uint8_t>> read_blocks(client::Client& client, const ObjectRef& object,
                                                 uint32_t block_bytes, uint32_t first,
                                                 uint32_t count) {
  std::vector<uint8_t> bytes(size_t{count} * block_bytes);
  const auto done = client.read(object, uint64_t{first} * block_bytes, bytes);
  if (!done) return fail(done.error());
  std::ranges::fill(std::span(bytes).subspan(done->bytes), uint8_t{0});
  return bytes;
}

Worker::Worker(client::Client& client, std::string name, uint64_t seed, bool restarts)
    : client_(client),
      name_(std::move(name)),
      random_(seed),
      restarts_(restarts),
      tag_(random_.next() << 32) {}

bool Worker::fails(const char* what, const std::string& where, const client::Error& error) {
  if (excused(error)) return false;
  std::fprintf(stderr, "%s: %s %s: %s (code %d, status %d)\n", name_.c_str(), what, where.c_str(),
               error.what.c_str(), static_cast<int>(error.code), static_cast<int>(error.status));
  return true;
}

bool Worker::excused(const client::Error& error) const {
  return restarts_ && (error.code == Code::kUnknown ||
                       (error.code == Code::kAnswered && error.status == Status::kBusy));
}

bool Worker::make_shared(client::Client& client) {
  return std::ranges::all_of(kBlockBytes, [&](uint32_t bytes) {
    const auto made = client.create(name_of("shared", bytes));
    return made || made.error().status == Status::kExists;
  });
}

bool Worker::begin() {
  while (objects_.size() < 3) {
    if (!add()) return false;
  }
  return flush();
}

bool Worker::add() {
  Object object;
  object.block_bytes = kBlockBytes[below(std::size(kBlockBytes))];
  object.name = name_of(name_ + "-" + std::to_string(++sequence_), object.block_bytes);
  // So that a repetition that was done already is known.
  object.id = {random_.next(), random_.next()};
  for (;;) {
    const auto made = client_.create(object.name, object.id);
    if (made || (restarts_ && made.error().status == Status::kExists)) break;
    if (fails("create", object.name, made.error())) return false;
  }
  objects_.push_back(std::move(object));
  return true;
}

bool Worker::step() {
  switch (below(12)) {
    case 0:
    case 1:
    case 2:  return write(any());
    case 3:  return write_many(any());
    case 4:
    case 5:
    case 6:  return read(any());
    case 7:
    case 8:  return share();
    case 9:  return look();
    case 10: return restarts_ ? scratch() : change_objects();
    default: return below(4) == 0 ? flush() : true;
  }
}

bool Worker::write(Object& object) {
  const auto at = static_cast<uint32_t>(below(kBlocks));
  Block& block = object.blocks[at];
  std::vector<uint8_t> bytes(object.block_bytes);
  block.latest = tag_ | ++sequence_;
  fill(bytes, block.latest);
  const uint64_t epoch = client_.reconnects();
  // In several pieces, at times.
  const size_t cut = below(3) == 0 ? below(bytes.size()) : 0;
  const std::array<std::span<const uint8_t>, 2> pieces{std::span(bytes).first(cut),
                                                       std::span(bytes).subspan(cut)};
  const auto done = client_.write(ObjectRef::by(object.id), uint64_t{at} * object.block_bytes,
                                  client::Client::ConstMemory(pieces), {.repeatable = restarts_});
  if (!done) return !fails("write", object.name, done.error());
  block.acked = block.latest;
  block.epoch = epoch;
  return true;
}

// Every block at once.
bool Worker::write_many(Object& object) {
  std::vector<std::vector<uint8_t>> bytes(kBlocks);
  std::atomic<uint32_t> left{kBlocks};
  std::array<std::optional<client::Error>, kBlocks> errors;
  const uint64_t epoch = client_.reconnects();
  for (uint32_t at = 0; at < kBlocks; ++at) {
    bytes[at].resize(object.block_bytes);
    object.blocks[at].latest = tag_ | ++sequence_;
    fill(bytes[at], object.blocks[at].latest);
    const std::span<const uint8_t> from(bytes[at]);
    client_.write_async(ObjectRef::by(object.id), uint64_t{at} * object.block_bytes,
                        client::Client::ConstMemory(&from, 1), {.repeatable = restarts_},
                        [&, at](const client::Result<client::Transferred>& result) {
                          if (!result) errors[at] = result.error();
                          left.fetch_sub(1, std::memory_order_release);
                        });
  }
  while (left.load(std::memory_order_acquire) > 0) std::this_thread::yield();
  for (uint32_t at = 0; at < kBlocks; ++at) {
    Block& block = object.blocks[at];
    if (errors[at]) {
      if (fails("write", object.name, *errors[at])) return false;
      continue;
    }
    block.acked = block.latest;
    block.epoch = epoch;
  }
  return true;
}

bool Worker::read(Object& object) {
  const auto first = static_cast<uint32_t>(below(kBlocks));
  const auto count = static_cast<uint32_t>(1 + below(kBlocks - first));
  const auto bytes =
      read_blocks(client_, ObjectRef::by(object.id), object.block_bytes, first, count);
  if (!bytes) return !fails("read", object.name, bytes.error());
  return check(object, first, *bytes);
}

bool Worker::check(const Object& object, uint32_t first, std::span<const uint8_t> bytes) {
  const uint64_t epoch = client_.reconnects();
  for (uint32_t at = first; !bytes.empty(); ++at, bytes = bytes.subspan(object.block_bytes)) {
    const Block& block = object.blocks[at];
    const auto token = token_of(bytes.first(object.block_bytes));
    const bool lives = !restarts_ || block.epoch == epoch;
    const uint64_t least = lives ? block.acked : block.durable;
    if (token && *token >= least && *token <= block.latest) continue;
    std::fprintf(
        stderr, "%s: %s, block %u has %llx, expected %llx to %llx (durable %llx)\n", name_.c_str(),
        object.name.c_str(), at, token ? static_cast<unsigned long long>(*token) : ~0ULL,
        static_cast<unsigned long long>(least), static_cast<unsigned long long>(block.latest),
        static_cast<unsigned long long>(block.durable));
    return false;
  }
  return true;
}

bool Worker::flush() {
  if (const auto done = client_.flush(); !done) return !fails("flush", "", done.error());
  const uint64_t epoch = client_.reconnects();
  for (Object& object : objects_) {
    for (Block& block : object.blocks) {
      if (block.epoch == epoch) block.durable = block.acked;
    }
  }
  return true;
}

// Blocks that all write, without any order.
bool Worker::share() {
  const uint32_t bytes_each = kBlockBytes[below(std::size(kBlockBytes))];
  const std::string name = name_of("shared", bytes_each);
  const uint64_t at = below(kBlocks);
  std::vector<uint8_t> bytes(bytes_each);
  fill(bytes, tag_ | ++sequence_);
  const auto written = client_.write(ObjectRef::by(name), at * bytes_each, bytes);
  if (!written && fails("write", name, written.error())) return false;
  const auto all = read_blocks(client_, ObjectRef::by(name), bytes_each);
  if (!all) return !fails("read", name, all.error());
  for (uint32_t i = 0; i < kBlocks; ++i) {
    if (token_of(std::span(*all).subspan(size_t{i} * bytes_each, bytes_each))) continue;
    std::fprintf(stderr, "%s: %s, block %u has several writes\n", name_.c_str(), name.c_str(), i);
    return false;
  }
  return true;
}

bool Worker::look() {
  const Object& object = any();
  if (const auto done = client_.ping(); !done && fails("ping", "", done.error())) return false;
  if (const auto page = client_.list(nullptr, 20); !page && fails("list", "", page.error())) {
    return false;
  }
  const auto range =
      client_.register_range(ObjectRef::by(object.id), 0, 100, protocol::RangeAccess::kWrite);
  if (!range && fails("range", object.name, range.error())) return false;
  // Some stay until the end of the session.
  if (range && below(2) == 0) static_cast<void>(client_.unregister_range(*range));
  const auto info = client_.stat(ObjectRef::by(object.id));
  if (info) return info->name == object.name;
  return !fails("stat", object.name, info.error());
}

// A clone, another name, one fewer.
bool Worker::change_objects() {
  if (objects_.size() >= kMostObjects) {
    const auto last = objects_.begin() + static_cast<ptrdiff_t>(below(objects_.size()));
    const auto done = client_.remove(ObjectRef::by(last->id));
    if (!done) return !fails("remove", last->name, done.error());
    objects_.erase(last);
    return true;
  }
  if (below(3) == 0) return add();
  Object copy = any();
  const std::string from = copy.name;
  copy.name = name_of(name_ + "-" + std::to_string(++sequence_), copy.block_bytes);
  if (below(2) == 0) {
    const auto done = client_.rename(ObjectRef::by(from), copy.name);
    if (!done) return !fails("rename", from, done.error());
    std::ranges::find(objects_, from, &Object::name)->name = copy.name;
    return true;
  }
  const auto done = client_.clone(ObjectRef::by(copy.id), ObjectRef::by(copy.name));
  if (!done) return !fails("clone", from, done.error());
  copy.id = *done;
  objects_.push_back(std::move(copy));
  return read(objects_.back());
}

// Names that a killed server may or may not have. Only that they do no harm is looked at.
bool Worker::scratch() {
  const std::string a = name_of(name_ + "-scratch", 520);
  const std::string b = name_of(name_ + "-scratch-too", 520);
  static_cast<void>(client_.create(a));
  static_cast<void>(client_.clone(ObjectRef::by(a), ObjectRef::by(b)));
  static_cast<void>(client_.rename(ObjectRef::by(a), name_of(name_ + "-scratch-three", 520)));
  static_cast<void>(client_.remove(ObjectRef::by(b)));
  return true;
}

std::string what_is_mixed(client::Client& client, const client::ObjectInfo& object) {
  const uint32_t bytes_each = block_bytes_of(object.name);
  if (bytes_each == 0) return object.name + " is nobody's";
  const auto bytes = read_blocks(client, ObjectRef::by(object.id), bytes_each);
  if (!bytes) return object.name + ": " + bytes.error().what;
  for (uint32_t i = 0; i < kBlocks; ++i) {
    if (!token_of(std::span(*bytes).subspan(size_t{i} * bytes_each, bytes_each))) {
      return object.name + ", block " + std::to_string(i) + " has several writes";
    }
  }
  return {};
}

}  // namespace verbena::serve
