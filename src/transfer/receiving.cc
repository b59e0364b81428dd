// SPDX-License-Identifier: Apache-2.0
#include "transfer/receiving.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "session/secret.h"
#include "transfer/path.h"

namespace verbena::transfer {
namespace {

// Files are read by several threads at once, and so begin in almost any order.
constexpr size_t kMaxAhead = 1u << 16;

}  // namespace

void Receiving::start(uint64_t address, uint32_t rkey) {
  reply(Offer{.address = address,
              .rkey = rkey,
              .chunk_bytes = limits_.chunk_bytes,
              .slots = limits_.slots,
              .max_file_bytes = limits_.max_file_bytes});
}

// --- frames

void Receiving::on_frame(uint32_t slot, std::span<const uint8_t> bytes) {
  if (ended_) return;
  if (slot >= limits_.slots || !theirs_[slot]) {
    return cut_off("a slot was written that was not free");
  }
  theirs_[slot] = false;
  const auto index = static_cast<uint16_t>(slot);
  const auto frame = decode_frame(bytes.first(std::min(bytes.size(), slot_bytes())));
  if (!frame) return cut_off(std::string("a frame is not valid: ") + text_of(frame.error()));
  hold(index);
  for (size_t i = 0; i < frame->records.size() && !ended_; ++i) {
    handle(frame->records[i], frame->data[i], index);
  }
  release(index);
}

void Receiving::handle(const Record& record, std::span<const uint8_t> data, uint16_t slot) {
  if (proof_) {
    const auto* const proof = std::get_if<Proof>(&record);
    if (proof == nullptr || !session::same_mac(proof->mac, *proof_)) {
      return cut_off("the shared secrets of sender and receiver differ");
    }
    proof_.reset();
    return;
  }
  if (const auto* const open = std::get_if<Open>(&record)) return begin(*open);
  if (const auto* const small = std::get_if<Small>(&record)) {
    return whole(
        small->file, small->path,
        [&](JobId job, std::string path) {
          return StoreSmall{job, std::move(path), small->attributes, data, small->crc};
        },
        slot, data.size());
  }
  if (const auto* const folder = std::get_if<Folder>(&record)) {
    return whole(
        folder->file, folder->path,
        [&](JobId job, std::string path) {
          return MakeFolder{job, std::move(path), folder->attributes};
        },
        slot, 0);
  }
  std::visit(
      [&]<typename R>(const R& r) {
        if constexpr (requires { r.file; }) on_part(r.file, record, data, slot);
      },
      record);
}

// A new file, or a folder.
bool Receiving::takes(FileId file, std::span<const uint8_t> path, uint64_t bytes) {
  if (file <= used_ || !ahead_.insert(file).second || ahead_.size() > kMaxAhead) {
    cut_off("a file's number was used before, or is far ahead");
    return false;
  }
  while (!ahead_.empty() && *ahead_.begin() == used_ + 1) {
    ahead_.erase(ahead_.begin());
    ++used_;
  }
  ++count_;
  const auto refuse = [&](std::string why) {
    finish(file, std::string(text_of(path)),
           {.verdict = Verdict::kRefused, .text = std::move(why)});
    return false;
  };
  if (count_ > limits_.max_files) return refuse("the receiver takes no more files");
  if (const char* const wrong = wrong_with_path(text_of(path))) {
    return refuse(std::string("the name ") + wrong);
  }
  if (bytes > limits_.max_file_bytes) return refuse("the file is too large");
  return true;
}

void Receiving::begin(const Open& open) {
  // Those that are refused count too, until the sender has given them up.
  if (files_.size() >= limits_.max_open) return cut_off("too many files are open at once");
  const bool taken = takes(open.file, open.path, open.size);
  if (ended_) return;
  File file{.path = std::string(text_of(open.path)), .size = open.size, .resume = open.resume};
  if (!taken) {
    file.failed = true;
    files_.emplace(open.file, std::move(file));
    return;
  }
  const uint64_t chunks = open.size / limits_.chunk_bytes + 1;
  if (chunks > limits_.max_open_chunks - open_chunks_) {
    file.failed = true;
    finish(open.file, file.path, {.verdict = Verdict::kRefused, .text = "the file is too large"});
  } else {
    file.crcs = ChunkCrcs(open.size, limits_.chunk_bytes);
    file.came.resize(file.crcs.count());
    open_chunks_ += file.crcs.count();
    ++file.jobs;
    actions_.emplace_back(OpenFile{add_job({.file = open.file, .kind = Job::Kind::kOpen}),
                                   open.file, file.path, open.size, open.attributes, open.resume});
  }
  files_.emplace(open.file, std::move(file));
}

void Receiving::whole(FileId file, std::span<const uint8_t> path, auto make, uint16_t slot,
                      uint64_t bytes) {
  if (!takes(file, path, bytes)) return;
  hold(slot);
  std::string name(text_of(path));
  const JobId job = add_job(
      {.file = file, .slot = slot, .kind = Job::Kind::kWhole, .bytes = bytes, .path = name});
  actions_.emplace_back(make(job, std::move(name)));
}

// Of a file in chunks.
void Receiving::on_part(FileId id, const Record& record, std::span<const uint8_t> data,
                        uint16_t slot) {
  const auto found = files_.find(id);
  if (found == files_.end()) return cut_off("data is of a file that is not open");
  File& file = found->second;
  if (file.close_crc) return cut_off("a file has data behind its end");
  const bool last =
      std::holds_alternative<Close>(record) || std::holds_alternative<Abandon>(record);
  if (file.failed) {
    if (last) drop(found);
    return;
  }
  if (const auto* const close = std::get_if<Close>(&record)) {
    file.close_crc = close->crc;
    return try_to_close(found);
  }
  if (std::holds_alternative<Abandon>(record)) {
    finish(id, file.path, {.verdict = Verdict::kAbandoned, .text = "the sender has given it up"});
    return drop(found);
  }
  if (!file.open) {
    hold(slot);
    file.waiting.push_back({record, data, slot});
    return;
  }
  apply(file, record, data, slot);
}

void Receiving::apply(File& file, const Record& record, std::span<const uint8_t> data,
                      uint16_t slot) {
  if (const auto* const part = std::get_if<Data>(&record)) return write(file, *part, data, slot);
  if (const auto* const hole = std::get_if<Hole>(&record)) return punch(file, *hole);
  cut_off("a record has no meaning here");
}

void Receiving::write(File& file, const Data& data, std::span<const uint8_t> bytes, uint16_t slot) {
  if (data.chunk >= file.crcs.count() || data.length != file.crcs.length_of(data.chunk)) {
    return cut_off("data is outside of its file");
  }
  if (!comes_once(file, data.chunk, 1)) return;
  hold(slot);
  ++file.jobs;
  const JobId job = add_job({.file = data.file,
                             .slot = slot,
                             .chunk = std::pair(data.chunk, data.crc),
                             .kind = Job::Kind::kData,
                             .bytes = bytes.size()});
  actions_.emplace_back(
      WriteChunk{job, data.file, file.crcs.offset_of(data.chunk), bytes, data.crc});
}

// Otherwise it would depend on the order of jobs what is in the file; and holes cost the sender
// nothing.
bool Receiving::comes_once(File& file, uint64_t first, uint64_t count) {
  for (uint64_t chunk = first; chunk < first + count; ++chunk) {
    if (file.came[chunk]) {
      cut_off("a part of a file comes twice");
      return false;
    }
    file.came[chunk] = true;
  }
  return true;
}

void Receiving::punch(File& file, const Hole& hole) {
  const uint64_t count = file.crcs.count();
  if (hole.first > count || hole.count > count - hole.first) {
    return cut_off("a hole is outside of its file");
  }
  if (hole.count == 0 || !comes_once(file, hole.first, hole.count)) return;
  file.crcs.set_holes(hole.first, hole.count);
  ++file.jobs;
  const uint64_t begin = file.crcs.offset_of(hole.first);
  const uint64_t end = std::min(file.crcs.offset_of(hole.first + hole.count), file.size);
  actions_.emplace_back(PunchHole{add_job({.file = hole.file, .kind = Job::Kind::kHole}), hole.file,
                                  begin, end - begin});
}

FileProgress Receiving::progress() const {
  for (const auto& [id, file] : files_) {
    // Of what is complete only the last word is missing.
    if (!file.open || file.failed || file.crcs.complete()) continue;
    return {file.path, file.crcs.known_bytes(), file.size};
  }
  return {};
}

// --- what was done

void Receiving::on_done(JobId id, JobResult result) {
  const auto found = jobs_.find(id);
  VERBENA_CHECK(found != jobs_.end());
  const Job job = found->second;
  jobs_.erase(found);
  const bool good = result.verdict == Verdict::kStored;
  if (job.kind == Job::Kind::kWhole) {
    if (good) received_bytes_ += job.bytes;
    if (!ended_) finish(job.file, job.path, result);
  } else if (const auto at = files_.find(job.file); at != files_.end()) {
    File& file = at->second;
    --file.jobs;
    if (job.kind == Job::Kind::kClose && !ended_) {
      finish(job.file, file.path, result);
      open_chunks_ -= file.crcs.count();
      files_.erase(at);
    } else if (!good) {
      fail_file(at, result);
    } else if (job.kind == Job::Kind::kOpen) {
      file.open = true;
      for (size_t i = 0; i < result.crcs.size() && i < file.crcs.count(); ++i) {
        file.crcs.set(i, result.crcs[i]);
      }
      if (file.resume && !ended_) say_what_is_there(job.file, result.crcs);
      for (const Waiting& waiting : std::exchange(file.waiting, {})) {
        if (!ended_) apply(file, waiting.record, waiting.data, waiting.slot);
        release(waiting.slot);
      }
      if (!ended_) try_to_close(files_.find(job.file));
    } else {
      if (job.chunk) {
        file.crcs.set(job.chunk->first, job.chunk->second);
        received_bytes_ += job.bytes;
      }
      if (!ended_) try_to_close(at);
    }
    const auto still = files_.find(job.file);
    if (still != files_.end() && still->second.failed && still->second.close_crc &&
        still->second.jobs == 0) {
      drop(still);
    }
  } else if (job.kind == Job::Kind::kOpen) {
    actions_.emplace_back(DropFile{job.file});  // it was given up meanwhile
  }
  if (job.slot) release(*job.slot);
}

void Receiving::say_what_is_there(FileId file, const std::vector<uint32_t>& crcs) {
  size_t at = 0;
  do {
    Have have{.file = file, .first = at};
    for (; at < crcs.size() && have.crcs.size() < kCrcsInReply; ++at) {
      have.crcs.push_back({crcs[at]});
    }
    have.last = at == crcs.size();
    reply(have);
  } while (at < crcs.size());
}

void Receiving::say_what_is_stored() {
  const std::span<const Stored::Id> all = stored_now_;
  for (size_t at = 0; at < all.size(); at += kFilesInReply) {
    const auto some = all.subspan(at, std::min(kFilesInReply, all.size() - at));
    reply(Stored{.files = {some.begin(), some.end()}});
  }
  stored_now_.clear();
}

void Receiving::try_to_close(Files::iterator found) {
  if (found == files_.end()) return;
  File& file = found->second;
  if (!file.close_crc || file.jobs > 0 || !file.open || file.failed || file.closing) return;
  if (!file.crcs.complete()) return cut_off("a file ends before all of its data");
  if (file.crcs.of_file() != *file.close_crc) {
    fail_file(found, {.verdict = Verdict::kDamaged, .text = "the CRC of the whole file is wrong"});
    return drop(found);
  }
  file.closing = true;
  ++file.jobs;
  actions_.emplace_back(
      CloseFile{add_job({.file = found->first, .kind = Job::Kind::kClose}), found->first});
}

void Receiving::finish(FileId file, const std::string& path, const JobResult& result) {
  if (result.verdict == Verdict::kStored) {
    ++stored_;
    stored_now_.push_back({file});
    return;
  }
  ++failed_;
  actions_.emplace_back(FileFailed{path, result.text});
  reply(Done{.file = file,
             .verdict = result.verdict,
             .text = std::string_view(result.text).substr(0, protocol::kMaxTextBytes)});
}

// Its data may still be on its way: it is forgotten with its last record.
void Receiving::fail_file(Files::iterator found, const JobResult& result) {
  File& file = found->second;
  if (!file.failed && !ended_) finish(found->first, file.path, result);
  file.failed = true;
  for (const Waiting& waiting : std::exchange(file.waiting, {})) release(waiting.slot);
}

void Receiving::drop(Files::iterator found) {
  File& file = found->second;
  for (const Waiting& waiting : std::exchange(file.waiting, {})) release(waiting.slot);
  actions_.emplace_back(DropFile{found->first});
  open_chunks_ -= file.crcs.count();
  files_.erase(found);
}

// --- slots and the end

JobId Receiving::add_job(const Job& job) {
  jobs_.emplace(next_job_, job);
  return next_job_++;
}

void Receiving::release(uint16_t slot) {
  VERBENA_CHECK(held_[slot] > 0);
  if (--held_[slot] > 0 || ended_) return;
  theirs_[slot] = true;
  reply(Ready{.slot = slot});
}

void Receiving::cut_off(std::string why) {
  if (ended_) return;
  say_what_is_stored();
  reply(Bye{.text = std::string_view(why).substr(0, protocol::kMaxTextBytes)});
  actions_.emplace_back(EndConnection{std::move(why)});
  on_lost();
}

void Receiving::on_lost() {
  ended_ = true;
  while (!files_.empty()) drop(files_.begin());
}

}  // namespace verbena::transfer
