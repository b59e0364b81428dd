// SPDX-License-Identifier: Apache-2.0
#include "transfer/sending.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace verbena::transfer {

FileId Sending::add(SourceFile file) {
  const FileId id = next_++;
  files_.emplace(id, File{.source = std::move(file)});
  queue_.push_back(id);
  go_on();
  return id;
}

void Sending::no_more() {
  complete_ = true;
  go_on();
}

// --- what to do next

std::optional<uint16_t> Sending::free_slot() const {
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].ready && slots_[i].idle) return static_cast<uint16_t>(i);
  }
  return std::nullopt;
}

void Sending::go_on() {
  if (over_) return;
  while (const auto slot = free_slot()) {
    // First: files are opened before their data goes, and closed as soon as they can be.
    if (!controls_.empty()) {
      post_controls(*slot);
    } else if (!fill_chunk(*slot) && !begin_next(*slot)) {
      break;
    }
  }
  if (!complete_ || !files_.empty() || !filling_.empty()) return;
  over_ = true;
  actions_.emplace_back(AllSent{});
}

void Sending::post_controls(uint16_t slot) {
  std::vector<uint8_t> bytes(kSlotExtraBytes);
  FrameWriter frame(bytes);
  while (!controls_.empty() && frame.add(controls_.front())) {
    if (const auto* const open = std::get_if<Open>(&controls_.front())) paths_.erase(open->file);
    controls_.pop_front();
  }
  VERBENA_CHECK(!frame.empty());
  bytes.resize(frame.finish());
  slots_[slot] = {.ready = false, .idle = false, .posted = true};
  const size_t length = bytes.size();
  actions_.emplace_back(Post{slot, length, std::move(bytes)});
}

// Chunks of the files that are open, the oldest first.
bool Sending::fill_chunk(uint16_t slot) {
  for (const FileId id : open_) {
    File& file = files_.at(id);
    if (file.ended || file.waits_for_have || file.next_chunk >= file.crcs.count()) continue;
    const uint64_t chunk = file.next_chunk++;
    ++file.filling;
    FillChunk fill{.slot = slot,
                   .file = id,
                   .chunk = chunk,
                   .offset = file.crcs.offset_of(chunk),
                   .length = file.crcs.length_of(chunk),
                   .there = {}};
    if (chunk < file.there.size()) fill.there = file.there[chunk];
    slots_[slot].idle = false;
    filling_.emplace(slot, fill);
    actions_.emplace_back(fill);
    return true;
  }
  return false;
}

bool Sending::begin_next(uint16_t slot) {
  FillSmall fill{slot, {}};
  uint64_t bytes = 0;
  while (!queue_.empty()) {
    const FileId id = queue_.front();
    File& file = files_.at(id);
    const uint64_t size = file.source.folder ? 0 : file.source.size;
    if (size > std::min(options_.small_bytes, offer_->chunk_bytes)) {
      if (!fill.files.empty()) break;
      if (open_.size() >= options_.max_open) return false;
      queue_.pop_front();
      begin_chunked(id, file);
      return true;
    }
    if (!fill.files.empty() &&
        (bytes + size > offer_->chunk_bytes || fill.files.size() >= options_.batch_files)) {
      break;
    }
    bytes += size;
    fill.files.push_back(id);
    queue_.pop_front();
  }
  if (fill.files.empty()) return false;
  slots_[slot].idle = false;
  filling_.emplace(slot, fill);
  actions_.emplace_back(std::move(fill));
  return true;
}

void Sending::begin_chunked(FileId id, File& file) {
  if (file.source.size > offer_->max_file_bytes) {
    return end_file(id, Verdict::kRefused, "the file is larger than the receiver takes");
  }
  file.chunked = true;
  file.waits_for_have = options_.resume;
  file.crcs = ChunkCrcs(file.source.size, offer_->chunk_bytes);
  open_.push_back(id);
  begun_.push_back(id);
  const std::string& path = paths_[id] = file.source.path;
  controls_.push_back(Open{.file = id,
                           .size = file.source.size,
                           .attributes = file.source.attributes,
                           .resume = options_.resume,
                           .path = bytes_of(path)});
}

// All of its chunks are on their way, or there: the CRC of the whole goes behind them.
void Sending::finish_chunked(FileId id, File& file) {
  if (file.closed || file.filling > 0 || !file.crcs.complete()) return;
  file.closed = true;
  controls_.push_back(Close{.file = id, .crc = file.crcs.of_file()});
  std::erase(open_, id);
}

FileProgress Sending::progress() {
  for (; !begun_.empty(); begun_.pop_front()) {
    const auto found = files_.find(begun_.front());
    if (found == files_.end() || found->second.ended) continue;
    const File& file = found->second;
    uint64_t under_way = 0;
    for (const Slot& slot : slots_) under_way += slot.file == found->first ? slot.bytes : 0;
    const uint64_t known = file.crcs.known_bytes();
    return {file.source.path, known - std::min(known, under_way), file.source.size};
  }
  return {};
}

uint64_t Sending::bytes_under_way() const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots_) bytes += slot.bytes;
  return bytes;
}

// --- what was done

void Sending::on_filled(uint16_t slot, Filled filled) {
  auto node = filling_.extract(slot);
  VERBENA_CHECK(!node.empty());
  if (over_) return;
  if (const auto* const chunk = std::get_if<FillChunk>(&node.mapped())) {
    on_chunk(slot, chunk->file, chunk->chunk, std::move(filled));
  } else {
    for (const FileId id : std::get<FillSmall>(node.mapped()).files) files_.at(id).sent = true;
    for (const FileId id : filled.left) files_.at(id).sent = false;
    for (auto& [id, why] : filled.failed) end_file(id, Verdict::kFailed, std::move(why));
    for (auto id = filled.left.rbegin(); id != filled.left.rend(); ++id) queue_.push_front(*id);
    if (filled.length > 0) {
      slots_[slot] = {.ready = false, .idle = false, .posted = true, .bytes = filled.length};
      sent_bytes_ += filled.length;
      actions_.emplace_back(Post{slot, filled.length, {}});
    } else {
      slots_[slot].idle = true;
    }
  }
  go_on();
}

void Sending::on_chunk(uint16_t slot, FileId id, uint64_t chunk, Filled filled) {
  slots_[slot].idle = true;
  const auto found = files_.find(id);
  if (found == files_.end()) return;
  File& file = found->second;
  --file.filling;
  if (file.ended) {
    if (file.filling == 0) files_.erase(found);
    return;
  }
  using What = Filled::What;
  if (filled.what == What::kFailed) return abandon(id, file, std::move(filled.why));
  const uint32_t length = file.crcs.length_of(chunk);
  switch (filled.what) {
    case What::kData:
      file.crcs.set(chunk, filled.crc);
      slots_[slot] = {.ready = false, .idle = false, .posted = true, .file = id, .bytes = length};
      sent_bytes_ += length;
      actions_.emplace_back(Post{slot, filled.length, {}});
      break;
    case What::kHole: {
      file.crcs.set_holes(chunk, 1);
      auto* const last = controls_.empty() ? nullptr : std::get_if<Hole>(&controls_.back());
      if (last != nullptr && last->file == id && last->first + last->count == chunk) {
        ++last->count;
      } else {
        controls_.push_back(Hole{.file = id, .first = chunk, .count = 1});
      }
      skipped_bytes_ += length;
      break;
    }
    default: file.crcs.set(chunk, filled.crc); skipped_bytes_ += length;
  }
  finish_chunked(id, file);
}

void Sending::on_sent(uint16_t slot) {
  if (over_) return;
  VERBENA_CHECK(slot < slots_.size() && slots_[slot].posted);
  slots_[slot].idle = true;
  if (slots_[slot].ready) slots_[slot].posted = false;
  go_on();
}

// --- replies

void Sending::on_reply(std::span<const uint8_t> bytes) {
  if (over_) return;
  const auto reply = decode_reply(bytes);
  if (!reply) {
    return give_up(std::string("a reply is not valid: ") + text_of(reply.error()));
  }
  const bool first = std::holds_alternative<Offer>(*reply);
  if (first == offer_.has_value() && !std::holds_alternative<Bye>(*reply)) {
    return give_up("the receiver's replies are out of order");
  }
  std::visit([this](const auto& r) { take(r); }, *reply);
  go_on();
}

void Sending::take(const Offer& offer) {
  constexpr uint32_t kMaxChunkBytes = 64u << 20;
  constexpr uint32_t kMaxBytes = 512u << 20;  // of buffers; the receiver may offer any number
  constexpr uint32_t kMaxSlots = 64;          // a connection has work requests for them
  if (offer.chunk_bytes < 4096 || offer.chunk_bytes > kMaxChunkBytes || offer.slots == 0) {
    return give_up("the receiver offers no usable memory");
  }
  offer_ = offer;
  const uint32_t most = std::min<uint32_t>({offer.slots, kMaxSlots, kMaxBytes / offer.chunk_bytes});
  slots_.resize(std::clamp<uint32_t>(options_.window, 1, most));
  if (proof_) controls_.push_front(Proof{.mac = *proof_});
}

void Sending::take(const Ready& ready) {
  if (ready.slot >= slots_.size() || slots_[ready.slot].ready) {
    return give_up("the receiver frees a slot that is not in use");
  }
  Slot& slot = slots_[ready.slot];
  slot.ready = true;
  slot.file = 0;
  slot.bytes = 0;
  if (slot.idle) slot.posted = false;
}

void Sending::take(const Have& have) {
  const auto found = files_.find(have.file);
  if (found == files_.end()) return;  // it has ended meanwhile
  File& file = found->second;
  if (!file.waits_for_have || have.first != file.there.size() ||
      have.crcs.size() > file.crcs.count() - file.there.size()) {
    return give_up("the receiver says what it has of a file that it was not asked for");
  }
  for (const Have::Crc& crc : have.crcs) file.there.push_back(crc.value);
  if (have.last) file.waits_for_have = false;
}

void Sending::take(const Done& done) {
  const auto found = files_.find(done.file);
  if (found == files_.end()) return;
  File& file = found->second;
  if (file.ended) return;
  const bool begun = file.chunked || file.sent;
  if (!begun || (done.verdict == Verdict::kStored && file.chunked && !file.closed)) {
    return give_up("the receiver says what became of a file before it was sent");
  }
  if (file.chunked && !file.closed) controls_.push_back(Abandon{.file = done.file});
  end_file(done.file, done.verdict, std::string(done.text));
}

void Sending::take(const Stored& stored) {
  for (const Stored::Id& file : stored.files) {
    if (!over_) take(Done{.file = file.value});
  }
}

void Sending::take(const Bye& bye) { give_up("the receiver ends it: " + std::string(bye.text)); }

// --- ends

void Sending::end_file(FileId id, Verdict verdict, std::string text) {
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.ended) return;
  actions_.emplace_back(FileEnded{id, verdict, std::move(text)});
  found->second.ended = true;
  std::erase(open_, id);
  if (found->second.filling == 0) files_.erase(found);
}

void Sending::abandon(FileId id, File& file, std::string why) {
  if (!file.closed) controls_.push_back(Abandon{.file = id});
  file.closed = true;
  end_file(id, Verdict::kFailed, std::move(why));
}

void Sending::give_up(std::string why) {
  if (over_) return;
  over_ = true;
  actions_.emplace_back(SendFailed{std::move(why)});
}

}  // namespace verbena::transfer
