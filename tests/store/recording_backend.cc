// SPDX-License-Identifier: Apache-2.0
#include "recording_backend.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "base/check.h"

namespace verbena::store::trial {

class RecordingMedium::Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    VERBENA_CHECK(memory != MAP_FAILED);
    memory_ = static_cast<uint8_t*>(memory);
  }
  ~Memory() { ::munmap(memory_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] uint8_t* get() const { return memory_; }

 private:
  const size_t bytes_;
  uint8_t* memory_ = nullptr;
};

class RecordingMedium::Handle final : public medium::Backend {
 public:
  explicit Handle(RecordingMedium& medium)
      : medium_(medium), memory_(medium.memory_), held_(medium.shape_.blocks) {}

  [[nodiscard]] size_t block_bytes() const override { return medium_.shape_.block_bytes(); }
  [[nodiscard]] medium::Properties properties() const override {
    return {
        .name = "recording", .persistent = true, .loaded_on_demand = false, .device_target = true};
  }
  [[nodiscard]] uint32_t capacity() const override { return medium_.shape_.blocks; }
  [[nodiscard]] uint32_t existing() const override {
    const std::lock_guard lock(medium_.mutex_);
    return medium_.existing_;
  }

  [[nodiscard]] medium::Result<medium::Block> allocate() override {
    const std::lock_guard lock(medium_.mutex_);
    for (uint32_t position = 0; position < medium_.shape_.blocks; ++position) {
      if (!held_[position]) return take(position);
    }
    return fail(medium::Error{.code = medium::Code::kFull, .what = "all blocks are held"});
  }
  [[nodiscard]] medium::Result<medium::Block> claim(uint32_t position) override {
    const std::lock_guard lock(medium_.mutex_);
    if (position >= medium_.shape_.blocks || held_[position]) {
      return fail(medium::Error{.code = medium::Code::kBad, .what = "no such block, or held"});
    }
    return take(position);
  }
  void release(medium::Block block) override {
    const std::lock_guard lock(medium_.mutex_);
    VERBENA_CHECK(held_[block.position]);
    held_[block.position] = false;
  }

  void flush(const uint8_t* memory, size_t bytes) override {
    const std::lock_guard lock(medium_.mutex_);
    const auto offset = static_cast<size_t>(memory - memory_->get());
    VERBENA_CHECK(memory >= memory_->get() && offset + bytes <= medium_.shape_.bytes());
    VERBENA_CHECK(offset % kLineBytes == 0 && bytes % kLineBytes == 0);
    VERBENA_CHECK(bytes == 0 || offset / block_bytes() == (offset + bytes - 1) / block_bytes());
    if (alive()) medium_.count_down();
    if (!alive() || !medium_.recording_on_ || bytes == 0) return;
    medium_.observe(offset / kLineBytes, bytes / kLineBytes);
    medium_.note({.kind = Event::Kind::kFlush,
                  .first = static_cast<uint32_t>(offset / kLineBytes),
                  .count = static_cast<uint32_t>(bytes / kLineBytes)});
  }
  [[nodiscard]] medium::Result<void> fence() override {
    const std::lock_guard lock(medium_.mutex_);
    if (alive()) medium_.count_down();
    if (!alive() || !medium_.recording_on_) return {};
    medium_.observe_all();
    medium_.note({.kind = Event::Kind::kFence});
    return {};
  }
  [[nodiscard]] medium::Result<uint32_t> trim() override {
    const std::lock_guard lock(medium_.mutex_);
    if (!alive()) return 0;
    const uint32_t before = medium_.existing_;
    while (medium_.existing_ > 0 && !held_[medium_.existing_ - 1]) --medium_.existing_;
    return before - medium_.existing_;
  }
  [[nodiscard]] uint32_t trimmed(uint32_t blocks) const override {
    return std::min(blocks, existing());
  }
  [[nodiscard]] medium::Result<void> read_medium(uint32_t position, size_t offset,
                                                 std::span<uint8_t> out) override {
    VERBENA_CHECK(offset % 4096 == 0 && out.size() % 4096 == 0);
    VERBENA_CHECK(offset + out.size() <= block_bytes());
    std::memcpy(out.data(), memory_->get() + position * block_bytes() + offset, out.size());
    return {};
  }

 private:
  [[nodiscard]] bool alive() const { return medium_.memory_ == memory_; }
  medium::Block take(uint32_t position) {
    held_[position] = true;
    if (alive()) medium_.existing_ = std::max(medium_.existing_, position + 1);
    return {.position = position, .memory = memory_->get() + position * block_bytes()};
  }
  RecordingMedium& medium_;
  const std::shared_ptr<Memory> memory_;
  std::vector<bool> held_;
};

RecordingMedium::RecordingMedium(MediumShape shape, uint64_t garbage_seed)
    : shape_(shape), memory_(std::make_shared<Memory>(shape.bytes())) {
  Image garbage;
  garbage.bytes.resize(shape_.bytes());
  SeededRandom random(garbage_seed);
  for (size_t at = 0; at < garbage.bytes.size(); at += 8) {
    const uint64_t word = random.next();
    std::memcpy(garbage.bytes.data() + at, &word, 8);
  }
  restore(garbage, true);
}

RecordingMedium::~RecordingMedium() = default;

void RecordingMedium::restore(const Image& image, bool record) {
  const std::lock_guard lock(mutex_);
  VERBENA_CHECK(image.bytes.size() <= shape_.bytes());
  std::ranges::copy(image.bytes, memory_->get());
  // What another life made behind it never was.
  if (const size_t made = existing_ * shape_.block_bytes(); made > image.bytes.size()) {
    std::memset(memory_->get() + image.bytes.size(), 0, made - image.bytes.size());
  }
  existing_ = image.existing;
  recording_on_ = record;
  recording_ = {};
  if (!record) return;
  shadow_.assign(memory_->get(), memory_->get() + shape_.bytes());
  recording_.start = {.bytes = shadow_, .existing = image.existing};
  recording_.block_bytes = shape_.block_bytes();
}

std::unique_ptr<medium::Backend> RecordingMedium::open_backend() {
  const std::lock_guard lock(mutex_);
  killed_ = false;
  kill_at_ = 0;
  return std::make_unique<Handle>(*this);
}

void RecordingMedium::kill() {
  const std::lock_guard lock(mutex_);
  kill_locked();
}

void RecordingMedium::kill_at(uint32_t n, std::optional<uint64_t> storing) {
  const std::lock_guard lock(mutex_);
  kill_at_ = n;
  storing_ = storing;
}

bool RecordingMedium::killed() {
  const std::lock_guard lock(mutex_);
  return killed_;
}

void RecordingMedium::count_down() {
  if (kill_at_ == 0) return;
  --kill_at_;
  if (kill_at_ != 0) return;
  SeededRandom random(storing_.value_or(0));
  // What was in the way of being stored goes back; the dead backend keeps the memory as it is.
  auto after = std::make_shared<Memory>(shape_.bytes());
  std::memcpy(after->get(), memory_->get(), shape_.bytes());
  for (size_t at = 0; storing_ && recording_on_ && at < shape_.bytes(); at += kLineBytes) {
    if (std::memcmp(after->get() + at, shadow_.data() + at, kLineBytes) == 0) continue;
    if (random.below(2) == 0) std::memcpy(after->get() + at, shadow_.data() + at, kLineBytes);
  }
  memory_ = std::move(after);
  kill_locked();
}

void RecordingMedium::kill_locked() {
  killed_ = true;
  kill_at_ = 0;
  if (recording_on_) {
    observe_all();
    note({.kind = Event::Kind::kKill});
  }
  auto memory = std::make_shared<Memory>(shape_.bytes());
  std::memcpy(memory->get(), memory_->get(), shape_.bytes());
  memory_ = std::move(memory);
}

void RecordingMedium::mark(uint32_t first, uint32_t count, bool closed) {
  const std::lock_guard lock(mutex_);
  if (!recording_on_) return;
  observe_all();
  note({.kind = Event::Kind::kMark, .first = first, .count = count, .closed = closed});
}

void RecordingMedium::note(Event event) {
  event.existing = existing_;
  recording_.events.push_back(event);
}

void RecordingMedium::observe(size_t first_line, size_t lines) {
  const auto begin = static_cast<uint32_t>(recording_.versions.size());
  constexpr size_t kStep = 64;  // lines that are compared at once: a chunk
  for (size_t at = first_line; at < first_line + lines; at += kStep) {
    const size_t count = std::min(kStep, first_line + lines - at);
    if (std::memcmp(memory_->get() + at * kLineBytes, shadow_.data() + at * kLineBytes,
                    count * kLineBytes) == 0) {
      continue;
    }
    for (size_t line = at; line < at + count; ++line) {
      const uint8_t* const now = memory_->get() + line * kLineBytes;
      uint8_t* const was = shadow_.data() + line * kLineBytes;
      if (std::memcmp(now, was, kLineBytes) == 0) continue;
      std::memcpy(was, now, kLineBytes);
      Version& version = recording_.versions.emplace_back();
      version.line = static_cast<uint32_t>(line);
      std::memcpy(version.bytes.data(), now, kLineBytes);
    }
  }
  const auto count = static_cast<uint32_t>(recording_.versions.size() - begin);
  if (count != 0) note({.kind = Event::Kind::kStores, .first = begin, .count = count});
}

void RecordingMedium::observe_all() { observe(0, existing_ * shape_.block_bytes() / kLineBytes); }

Walk::Walk(const Recording& recording) : recording_(recording), base_(recording.start) {}

bool Walk::next() {
  if (at_ == recording_.events.size()) return false;
  // What changed it last, and all that goes on without changing it.
  bool taken = !begun_;
  begun_ = true;
  for (; at_ < recording_.events.size(); ++at_) {
    const Event& event = recording_.events[at_];
    const bool changes = event.kind == Event::Kind::kStores || event.kind == Event::Kind::kFence;
    if (changes && taken) return true;
    taken = taken || changes;
    take(event);
  }
  return true;
}

void Walk::take(const Event& event) {
  base_.existing = event.existing;
  const auto by_line = [](const DirtyLine& dirty, uint32_t line) { return dirty.line < line; };
  switch (event.kind) {
    case Event::Kind::kMark: mark_ = event; break;
    case Event::Kind::kStores:
      for (uint32_t i = event.first; i < event.first + event.count; ++i) {
        const uint32_t line = recording_.versions[i].line;
        auto at = std::lower_bound(dirty_.begin(), dirty_.end(), line, by_line);
        if (at == dirty_.end() || at->line != line) {
          at = dirty_.insert(at, {.line = line, .versions = {}, .flushed = 0});
        }
        at->versions.push_back(i);
      }
      break;
    case Event::Kind::kFlush:
      for (auto at = std::lower_bound(dirty_.begin(), dirty_.end(), event.first, by_line);
           at != dirty_.end() && at->line < event.first + event.count; ++at) {
        at->flushed = at->versions.size();
      }
      break;
    case Event::Kind::kKill:
      for (DirtyLine& dirty : dirty_) dirty.flushed = 0;
      break;
    case Event::Kind::kFence:
      for (DirtyLine& dirty : dirty_) {
        if (dirty.flushed == 0) continue;
        const Version& version = recording_.versions[dirty.versions[dirty.flushed - 1]];
        std::memcpy(base_.bytes.data() + size_t{dirty.line} * kLineBytes, version.bytes.data(),
                    kLineBytes);
        dirty.versions.erase(dirty.versions.begin(),
                             dirty.versions.begin() + static_cast<ptrdiff_t>(dirty.flushed));
        dirty.flushed = 0;
      }
      std::erase_if(dirty_, [](const DirtyLine& dirty) { return dirty.versions.empty(); });
      break;
  }
}

Image Walk::image(std::span<const uint32_t> choice) const {
  Image image{.bytes = {base_.bytes.begin(),
                        base_.bytes.begin() +
                            static_cast<ptrdiff_t>(base_.existing * recording_.block_bytes)},
              .existing = base_.existing};
  for (size_t i = 0; i < dirty_.size(); ++i) {
    if (choice[i] == 0) continue;
    const Version& version = recording_.versions[dirty_[i].versions[choice[i] - 1]];
    if (size_t{version.line} * kLineBytes >= image.bytes.size()) continue;  // it was trimmed
    std::memcpy(image.bytes.data() + size_t{version.line} * kLineBytes, version.bytes.data(),
                kLineBytes);
  }
  return image;
}

void Walk::tear(Image& image, size_t dirty_line, uint32_t choice, RandomSource& random) const {
  const DirtyLine& dirty = dirty_[dirty_line];
  const Version& version = recording_.versions[dirty.versions[choice - 1]];
  if (size_t{dirty.line} * kLineBytes >= image.bytes.size()) return;
  uint8_t* const line = image.bytes.data() + size_t{dirty.line} * kLineBytes;
  for (size_t word = 0; word < kLineBytes; word += 8) {
    if (random.below(2) == 0) std::memcpy(line + word, version.bytes.data() + word, 8);
  }
}

}  // namespace verbena::store::trial
