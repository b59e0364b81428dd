// SPDX-License-Identifier: Apache-2.0
// The receiver's end of one connection in our mode, with no I/O: frames come in, and what was done
// with files; replies, and what is to be done with files, go out. Its owner
//
//   - sends the first reply when it has accepted the connection (start());
//   - passes on each frame, and leaves its slot alone until Ready has gone out for it;
//   - carries out take_actions() in order, and answers each that has a job by on_done().
//
// Whatever a frame says is checked here or in the job; a sender that breaks the rules is cut off,
// and its files stay incomplete. Owned by one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "transfer/chunk_crcs.h"
#include "transfer/progress.h"
#include "transfer/replies.h"

namespace verbena::transfer {

using JobId = uint64_t;

struct ReceiveLimits {
  uint32_t chunk_bytes = 1u << 20;
  uint16_t slots = 8;
  uint64_t max_file_bytes = uint64_t{1} << 40;
  uint64_t max_files = 1'000'000;       // of a connection
  uint32_t max_open = 64;               // at once
  uint64_t max_open_chunks = 4u << 20;  // of these, all together
};

// --- what is to be done
struct OpenFile {  // an incomplete one, or what there is of it
  JobId job = 0;
  FileId file = 0;
  std::string path{};
  uint64_t size = 0;
  Attributes attributes{};
  bool resume = false;
};
struct WriteChunk {  // if the data has this CRC
  JobId job = 0;
  FileId file = 0;
  uint64_t offset = 0;
  std::span<const uint8_t> data{};  // in the slot
  uint32_t crc = 0;
};
struct PunchHole {
  JobId job = 0;
  FileId file = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};
struct CloseFile {  // it is complete: under its own name from now on
  JobId job = 0;
  FileId file = 0;
};
struct StoreSmall {
  JobId job = 0;
  std::string path{};
  Attributes attributes{};
  std::span<const uint8_t> data{};  // in the slot
  uint32_t crc = 0;
};
struct MakeFolder {
  JobId job = 0;
  std::string path{};
  Attributes attributes{};
};
struct DropFile {  // no job: it stays incomplete
  FileId file = 0;
};
// No job: what became of a file that is not stored, and whose sender is there to be told.
struct FileFailed {
  std::string path{};
  std::string text{};
};
struct SendReply {
  std::vector<uint8_t> bytes{};
};
struct EndConnection {  // after the replies before it
  std::string why{};
};
using ReceiveAction = std::variant<OpenFile, WriteChunk, PunchHole, CloseFile, StoreSmall,
                                   MakeFolder, DropFile, FileFailed, SendReply, EndConnection>;

struct JobResult {
  Verdict verdict = Verdict::kStored;
  std::string text{};            // unless it is kStored
  std::vector<uint32_t> crcs{};  // OpenFile: of the chunks that are there, from the first on
};

class Receiving {
 public:
  // With a shared secret, nothing is done before the proof has come. Empty: none is asked for.
  Receiving(ReceiveLimits limits, std::optional<protocol::Mac> proof)
      : limits_(limits), proof_(proof), held_(limits.slots, 0), theirs_(limits.slots, true) {}

  // `address`, `rkey`: of the slots.
  void start(uint64_t address, uint32_t rkey);
  [[nodiscard]] size_t slot_bytes() const { return limits_.chunk_bytes + kSlotExtraBytes; }

  void on_frame(uint32_t slot, std::span<const uint8_t> bytes);
  void on_done(JobId job, JobResult result);
  // The connection is gone: incomplete files are dropped.
  void on_lost();
  // Tells the sender why, and ends the connection.
  void cut_off(std::string why);

  [[nodiscard]] std::vector<ReceiveAction> take_actions() {
    say_what_is_stored();
    return std::move(actions_);
  }
  [[nodiscard]] bool ended() const { return ended_; }
  // The sender has proved that it has the secret, if there is one.
  [[nodiscard]] bool proven() const { return !proof_; }
  // Jobs that are not done: their slots are in use.
  [[nodiscard]] size_t jobs() const { return jobs_.size(); }
  // No file is begun and not yet ended.
  [[nodiscard]] bool idle() const { return files_.empty() && jobs_.empty(); }

  // Of the file that was begun first.
  [[nodiscard]] FileProgress progress() const;
  [[nodiscard]] uint64_t stored() const { return stored_; }
  [[nodiscard]] uint64_t failed() const { return failed_; }
  [[nodiscard]] uint64_t received_bytes() const { return received_bytes_; }

 private:
  struct Waiting {  // for the file to be open
    Record record;
    std::span<const uint8_t> data;
    uint16_t slot;
  };
  struct File {
    std::string path{};
    uint64_t size = 0;
    bool open = false;
    bool failed = false;   // the sender was told
    bool closing = false;  // CloseFile is under way
    bool resume = false;
    uint32_t jobs = 0;
    ChunkCrcs crcs{};
    std::vector<bool> came{};  // chunks: each comes once at most
    std::optional<uint32_t> close_crc{};
    std::deque<Waiting> waiting{};
  };
  struct Job {
    FileId file = 0;
    std::optional<uint16_t> slot{};
    std::optional<std::pair<uint64_t, uint32_t>> chunk{};  // and its CRC
    enum class Kind : uint8_t { kOpen, kData, kHole, kClose, kWhole } kind = Kind::kData;
    uint64_t bytes = 0;
    std::string path{};  // kWhole
  };
  using Files = std::map<FileId, File>;

  void handle(const Record& record, std::span<const uint8_t> data, uint16_t slot);
  void begin(const Open& open);
  void whole(FileId file, std::span<const uint8_t> path, auto make, uint16_t slot, uint64_t bytes);
  void on_part(FileId file, const Record& record, std::span<const uint8_t> data, uint16_t slot);
  void apply(File& file, const Record& record, std::span<const uint8_t> data, uint16_t slot);
  void write(File& file, const Data& data, std::span<const uint8_t> bytes, uint16_t slot);
  void punch(File& file, const Hole& hole);
  void try_to_close(Files::iterator found);
  void finish(FileId file, const std::string& path, const JobResult& result);
  void fail_file(Files::iterator found, const JobResult& result);
  void drop(Files::iterator found);
  void say_what_is_there(FileId file, const std::vector<uint32_t>& crcs);
  void say_what_is_stored();
  [[nodiscard]] bool takes(FileId file, std::span<const uint8_t> path, uint64_t bytes);
  [[nodiscard]] bool comes_once(File& file, uint64_t first, uint64_t count);
  [[nodiscard]] JobId add_job(const Job& job);
  void hold(uint16_t slot) { ++held_[slot]; }
  void release(uint16_t slot);
  void reply(const Reply& reply) { actions_.push_back(SendReply{encode(reply)}); }

  const ReceiveLimits limits_;
  std::optional<protocol::Mac> proof_;
  std::vector<uint32_t> held_;  // by how many, of each slot
  std::vector<bool> theirs_;    // the sender may write there
  Files files_;
  uint64_t open_chunks_ = 0;
  FileId used_ = 0;         // this number and all below it
  std::set<FileId> ahead_;  // and these
  uint64_t count_ = 0;
  std::unordered_map<JobId, Job> jobs_;
  JobId next_job_ = 1;
  bool ended_ = false;
  std::vector<ReceiveAction> actions_;
  std::vector<Stored::Id> stored_now_;  // and the sender is still to be told
  uint64_t stored_ = 0;
  uint64_t failed_ = 0;
  uint64_t received_bytes_ = 0;
};

}  // namespace verbena::transfer
