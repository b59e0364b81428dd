// SPDX-License-Identifier: Apache-2.0
#include "cached_medium.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"

namespace verbena::store::trial {
namespace {

constexpr size_t kPageBytes = 4096;

medium::Error cannot_write() { return {medium::Code::kIo, "a page was not written"}; }

}  // namespace

class CachedMedium::Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes + kPageBytes) {}
  [[nodiscard]] uint8_t* get() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return bytes_.data() + (kPageBytes - address % kPageBytes) % kPageBytes;
  }

 private:
  std::vector<uint8_t> bytes_;
};

class CachedMedium::Handle final : public medium::Backend {
 public:
  explicit Handle(CachedMedium& medium)
      : medium_(medium), memory_(medium.memory_), held_(medium.shape_.blocks) {}

  [[nodiscard]] size_t block_bytes() const override { return medium_.shape_.block_bytes(); }
  [[nodiscard]] medium::Properties properties() const override {
    return {.name = "cached", .persistent = true, .loaded_on_demand = false, .device_target = true};
  }
  [[nodiscard]] uint32_t capacity() const override { return medium_.shape_.blocks; }
  [[nodiscard]] uint32_t existing() const override { return medium_.existing_; }
  [[nodiscard]] medium::Result<medium::Block> allocate() override {
    const auto free = std::ranges::find(held_, false);
    if (free == held_.end()) {
      return verbena::fail(medium::Error{medium::Code::kFull, "all blocks are held"});
    }
    return claim(static_cast<uint32_t>(free - held_.begin()));
  }
  [[nodiscard]] medium::Result<medium::Block> claim(uint32_t position) override {
    if (position >= held_.size() || held_[position]) {
      return verbena::fail(medium::Error{medium::Code::kBad, "no such block, or held"});
    }
    held_[position] = true;
    if (alive()) medium_.existing_ = std::max(medium_.existing_, position + 1);
    return medium::Block{position, memory_->get() + position * block_bytes()};
  }
  void release(medium::Block block) override { held_[block.position] = false; }

  void flush(const uint8_t* memory, size_t bytes) override {
    const auto offset = static_cast<size_t>(memory - memory_->get());
    for (size_t page = offset / kPageBytes; page * kPageBytes < offset + bytes; ++page) {
      flushed_.insert(page);
    }
  }
  void rewrite(uint8_t* memory, size_t bytes) override {
    flush(memory, bytes);
    const auto offset = static_cast<size_t>(memory - memory_->get());
    for (size_t at = offset; alive() && at < offset + bytes; at += kPageBytes) {
      medium_.touched_[at / kPageBytes] = true;
    }
  }
  [[nodiscard]] medium::Result<void> fence() override {
    if (broken_) return verbena::fail(cannot_write());
    auto done = fence_after_failure();
    broken_ = !done;
    return done;
  }
  [[nodiscard]] medium::Result<void> fence_after_failure() override {
    bool good = !alive() || !std::exchange(medium_.tell_, false);
    for (const size_t page : std::exchange(flushed_, {})) {
      if (alive() && medium_.dirty(page) && !medium_.write_page(page)) good = false;
    }
    if (good) return {};
    return verbena::fail(cannot_write());
  }
  [[nodiscard]] medium::Result<void> read_medium(uint32_t position, size_t offset,
                                                 std::span<uint8_t> out) override {
    std::memcpy(out.data(), medium_.medium_.data() + position * block_bytes() + offset, out.size());
    return {};
  }

 private:
  [[nodiscard]] bool alive() const { return medium_.memory_ == memory_; }
  CachedMedium& medium_;
  const std::shared_ptr<Memory> memory_;
  std::vector<bool> held_;
  std::set<size_t> flushed_;
  bool broken_ = false;
};

CachedMedium::CachedMedium(MediumShape shape)
    : shape_(shape),
      memory_(std::make_shared<Memory>(shape.bytes())),
      clean_(shape.bytes()),
      medium_(shape.bytes()),
      touched_(shape.bytes() / kPageBytes) {}

CachedMedium::~CachedMedium() = default;

std::unique_ptr<medium::Backend> CachedMedium::open_backend() {
  return std::make_unique<Handle>(*this);
}

void CachedMedium::fail(Failure failure) {
  failure_ = failure;
  failed_ = false;
  writes_ = 0;
}

bool CachedMedium::dirty(size_t page) const {
  return touched_[page] || std::memcmp(memory_->get() + page * kPageBytes,
                                       clean_.data() + page * kPageBytes, kPageBytes) != 0;
}

// Whether the process that asked for it is told so.
bool CachedMedium::write_page(size_t page) {
  ++writes_;
  const uint8_t* const bytes = memory_->get() + page * kPageBytes;
  std::memcpy(clean_.data() + page * kPageBytes, bytes, kPageBytes);
  touched_[page] = false;
  const bool fails =
      failure_.at != 0 && (writes_ == failure_.at || (failure_.and_after && writes_ > failure_.at));
  if (!fails) {
    std::memcpy(medium_.data() + page * kPageBytes, bytes, kPageBytes);
    return true;
  }
  failed_ = true;
  tell_ = failure_.told_again;
  if (failure_.kill) kill();
  return false;
}

void CachedMedium::kill() {
  auto memory = std::make_shared<Memory>(shape_.bytes());
  std::memcpy(memory->get(), memory_->get(), shape_.bytes());
  memory_ = std::move(memory);
}

void CachedMedium::drop() {
  failure_ = {};
  for (size_t page = 0; page < touched_.size(); ++page) {
    if (dirty(page)) VERBENA_CHECK(write_page(page));
  }
  std::memcpy(memory_->get(), medium_.data(), shape_.bytes());
  clean_ = medium_;
}

}  // namespace verbena::store::trial
