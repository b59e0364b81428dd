// SPDX-License-Identifier: Apache-2.0
// The sender's end of one connection in our mode, with no I/O: files to send and replies come in;
// what is to be read into which slot, and what is to be written to the receiver, go out. Each slot
// of the receiver has a buffer of the same number here. Its owner
//
//   - carries out take_actions() in order, and answers each Fill by on_filled();
//   - writes a buffer to the receiver's slot of that number for each Post, with the number as
//     immediate data, in the order of these, and says on_sent() when the buffer is free again.
//
// Owned by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "transfer/chunk_crcs.h"
#include "transfer/progress.h"
#include "transfer/replies.h"

namespace verbena::transfer {

struct SendOptions {
  uint16_t window = UINT16_MAX;       // slots that are used, of those there are
  uint32_t small_bytes = 256u << 10;  // files of up to so much go in one record
  uint32_t batch_files = 64;          // of these, into one frame at most
  uint32_t max_open = 8;              // files in chunks at once
  bool resume = true;
};

struct SourceFile {
  std::string path{};  // as the receiver is to call it
  uint64_t size = 0;
  Attributes attributes{};
  bool folder = false;
};

// --- what is to be done
// Read files whole, and put their records and data into a frame.
struct FillSmall {
  uint16_t slot = 0;
  std::vector<FileId> files{};
};
// Read a chunk; if it is neither a hole nor has this CRC already, put it into a frame.
struct FillChunk {
  uint16_t slot = 0;
  FileId file = 0;
  uint64_t chunk = 0;
  uint64_t offset = 0;
  uint32_t length = 0;
  std::optional<uint32_t> there{};
};
// These bytes are to be put into the buffer first, unless they are empty: it is filled already.
struct Post {
  uint16_t slot = 0;
  size_t length = 0;
  std::vector<uint8_t> bytes{};
};
// What became of a file; the last word on it.
struct FileEnded {
  FileId file = 0;
  Verdict verdict = Verdict::kStored;
  std::string text{};
};
// All files have ended.
struct AllSent {};
// The receiver breaks the rules, or has ended it.
struct SendFailed {
  std::string why{};
};
using SendAction = std::variant<FillSmall, FillChunk, Post, FileEnded, AllSent, SendFailed>;

struct Filled {
  enum class What : uint8_t { kData, kHole, kThere, kFailed } what = What::kData;
  size_t length = 0;  // of the frame
  uint32_t crc = 0;   // of the chunk
  std::string why{};  // kFailed
  // Of FillSmall: files that could not be read, and are not in the frame.
  std::vector<std::pair<FileId, std::string>> failed{};
  // Files that are to be offered again: the frame had no room for them.
  std::vector<FileId> left{};
};

class Sending {
 public:
  // `proof`: with a shared secret.
  Sending(SendOptions options, std::optional<protocol::Mac> proof)
      : options_(options), proof_(proof) {}

  // In order; numbers begin with 1.
  FileId add(SourceFile file);
  [[nodiscard]] FileId next() const { return next_; }
  void no_more();

  void on_reply(std::span<const uint8_t> bytes);
  void on_filled(uint16_t slot, Filled filled);
  void on_sent(uint16_t slot);

  [[nodiscard]] std::vector<SendAction> take_actions() { return std::move(actions_); }
  [[nodiscard]] const SourceFile& file(FileId id) const { return files_.at(id).source; }
  // Not known before the offer has come.
  [[nodiscard]] const std::optional<Offer>& offer() const { return offer_; }
  // Slots that are used.
  [[nodiscard]] size_t slots() const { return slots_.size(); }
  // Files that wait to be begun: whoever adds them can look.
  [[nodiscard]] size_t waiting() const { return queue_.size(); }
  // Of the file that was begun first.
  [[nodiscard]] FileProgress progress();
  [[nodiscard]] uint64_t sent_bytes() const { return sent_bytes_; }
  // Of these, what the receiver has not taken yet.
  [[nodiscard]] uint64_t bytes_under_way() const;
  [[nodiscard]] uint64_t skipped_bytes() const { return skipped_bytes_; }

 private:
  struct File {
    SourceFile source;
    bool sent = false;     // whole, in one record
    bool chunked = false;  // Open is queued
    bool waits_for_have = false;
    bool ended = false;       // the last word is said
    uint64_t next_chunk = 0;  // to be read
    uint64_t filling = 0;     // chunks that are being read
    ChunkCrcs crcs{};
    std::vector<uint32_t> there{};
    bool closed = false;  // Close or Abandon is queued
  };
  struct Slot {
    bool ready = true;  // the receiver's is free
    bool idle = true;   // our buffer is
    bool posted = false;
    FileId file = 0;  // whose chunk is in it; 0: none's
    uint64_t bytes = 0;
  };
  using Files = std::map<FileId, File>;

  void go_on();
  [[nodiscard]] std::optional<uint16_t> free_slot() const;
  void post_controls(uint16_t slot);
  [[nodiscard]] bool begin_next(uint16_t slot);
  [[nodiscard]] bool fill_chunk(uint16_t slot);
  void begin_chunked(FileId id, File& file);
  void finish_chunked(FileId id, File& file);
  void take(const Offer& offer);
  void take(const Ready& ready);
  void take(const Have& have);
  void take(const Done& done);
  void take(const Stored& stored);
  void take(const Bye& bye);
  void take(const Alive& /*alive*/) {}
  void on_chunk(uint16_t slot, FileId id, uint64_t chunk, Filled filled);
  void end_file(FileId id, Verdict verdict, std::string text);
  void abandon(FileId id, File& file, std::string why);
  void give_up(std::string why);

  const SendOptions options_;
  std::optional<protocol::Mac> proof_;
  std::optional<Offer> offer_;
  std::vector<Slot> slots_;
  std::map<uint16_t, std::variant<FillSmall, FillChunk>> filling_;  // by slot
  Files files_;                                                     // that have not ended
  std::deque<FileId> queue_;                                        // to be begun
  std::deque<FileId> open_;                                         // in chunks, which are read
  std::deque<FileId> begun_;  // in chunks; those that have ended are taken off by progress()
  std::deque<Record> controls_;
  std::map<FileId, std::string> paths_;  // what records in controls_ point to
  FileId next_ = 1;
  bool complete_ = false;
  bool over_ = false;
  std::vector<SendAction> actions_;
  uint64_t sent_bytes_ = 0;
  uint64_t skipped_bytes_ = 0;
};

}  // namespace verbena::transfer
