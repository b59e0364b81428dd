// SPDX-License-Identifier: Apache-2.0
// A medium's files: blocks.IofN.000, .001, ... in a folder, I the number of this medium and N how
// many there are. Each holds whole blocks, in order of position, and each new one is twice as large
// as the last, so that few of them serve a large store. They are never sparse: writing to a mapped
// hole when the disk is full would be SIGBUS. A file appears under its name only when it is whole.
//
// The caller makes sure that no other process has the folder open for writing. open(), grow(),
// leave_last() and remove_left() are the caller's to lock; everything else may go on beside them.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "medium/backend.h"
#include "medium/flush_queue.h"

namespace verbena::medium {

struct FileOptions {
  std::string folder;  // made if it is missing, unless read_only
  size_t block_bytes = size_t{8} << 20;
  uint32_t capacity = 0;  // blocks; if the folder has more, those count
  uint32_t medium = 0;
  uint32_t media = 1;
  bool read_only = false;
  uint64_t max_file_bytes = uint64_t{32} << 30;
  // For reading a medium of which a file is missing or was cut off: the position of the first block
  // of a file behind it, from what the file holds; nothing if it does not tell. Without this
  // function such media are refused. What is missing is zeros; has() tells.
  std::function<std::optional<uint32_t>(int fd)> position_of{};
};

struct BlockFile {
  std::string name;
  UniqueFd fd;
  UniqueFd direct;      // past the page cache; invalid where the file system refuses it
  uint32_t first = 0;   // position of its first block
  uint32_t blocks = 0;  // of which it consists
  uint64_t bytes = 0;   // that are there: fewer if it was cut off, none if it is missing
};

// A range of the medium, in bytes from the beginning of block 0, that lies in one file.
struct FilePiece {
  uint32_t file = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
};

class BlockFiles {
 public:
  static constexpr uint32_t kMaxFiles = 1000;  // three digits
  static constexpr uint32_t kFirstBlocks = 8;  // of the first file
  static constexpr std::string_view kUnfinished = ".new";

  [[nodiscard]] static Result<std::unique_ptr<BlockFiles>> open(const FileOptions& options);

  [[nodiscard]] const FileOptions& options() const { return options_; }
  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  [[nodiscard]] uint32_t existing() const;
  [[nodiscard]] uint32_t count() const { return count_.load(std::memory_order_acquire); }
  [[nodiscard]] const BlockFile& file(uint32_t index) const {
    return *files_.at(index).load(std::memory_order_acquire);
  }
  // Whether there is any of this block.
  [[nodiscard]] bool has(uint32_t position) const;
  // Which file has this block, which is below existing().
  [[nodiscard]] uint32_t index_of(uint32_t position) const;

  // Ranges of the medium, in bytes, where they cross from one file to the next cut in two.
  [[nodiscard]] std::vector<FilePiece> split(std::span<const FlushQueue::Range> ranges) const;

  // Makes the next file; it is durable, with its name, when this returns. kFull if there is no room
  // for a single block.
  [[nodiscard]] Result<void> grow();
  // The last file is not counted any more, nor are its blocks: at once. Then it is removed, before
  // the next one is made; durable when this returns.
  void leave_last();
  [[nodiscard]] Result<void> remove_left();
  // Behind which file there are at least so many blocks, as a position.
  [[nodiscard]] uint32_t end_of(uint32_t blocks) const;
  // Makes files until there is this block.
  [[nodiscard]] Result<void> grow_to(uint32_t position);

  // From the medium, past the page cache if it can be; the block is below existing().
  [[nodiscard]] Result<void> read(uint32_t position, size_t offset, std::span<uint8_t> out) const;
  [[nodiscard]] bool past_cache() const { return past_cache_.load(std::memory_order_relaxed); }
  // For errors: "FOLDER/blocks.0of1.000".
  [[nodiscard]] std::string path_of(const BlockFile& file) const;

 private:
  explicit BlockFiles(const FileOptions& options) : options_(options) {}
  [[nodiscard]] Result<void> open_folder();
  [[nodiscard]] Result<void> sync_parents() const;
  [[nodiscard]] Result<std::set<uint32_t>> scan();
  [[nodiscard]] Result<void> adopt(uint32_t index, bool last);
  [[nodiscard]] bool tolerant() const { return options_.read_only && options_.position_of; }
  // The file with this number is missing: as many blocks as it would have had.
  void leave_out(uint32_t index);
  // Before the next file is added: the last one has as many blocks as that one says.
  void correct_last(int next);
  [[nodiscard]] Result<UniqueFd> prepare(const std::string& name, uint32_t blocks) const;
  [[nodiscard]] bool like_the_others(int fd) const;
  void publish(std::unique_ptr<BlockFile> file);
  [[nodiscard]] std::string name_of(uint32_t index) const;
  [[nodiscard]] UniqueFd open_direct(const std::string& name) const;

  FileOptions options_;
  uint32_t capacity_ = 0;
  UniqueFd folder_;
  [[nodiscard]] BlockFile& last() { return *files_.at(count() - 1).load(); }

  // All there ever were: whoever looks for a block may still look at one that was removed.
  std::vector<std::unique_ptr<BlockFile>> owned_;
  std::array<std::atomic<BlockFile*>, kMaxFiles> files_{};
  std::atomic<uint32_t> count_ = 0;  // releases files_[0 .. count_)
  mutable std::atomic<bool> past_cache_ = false;
};

}  // namespace verbena::medium
