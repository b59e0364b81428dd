// SPDX-License-Identifier: Apache-2.0
// A medium behind a page cache, as the kernel has one for mapped files: memory shows the cache. A
// fence writes the pages that are dirty, and those alone. If the write of a page fails, the fence
// says so, once; the page is clean from then on, with what was not written still in it.
//
//   memory  --(fence, dirty pages)-->  medium          drop(): memory shows the medium again
//
// One backend at a time, of one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "medium/backend.h"
#include "recording_backend.h"

namespace verbena::store::trial {

class CachedMedium {
 public:
  explicit CachedMedium(MediumShape shape);
  ~CachedMedium();
  CachedMedium(const CachedMedium&) = delete;
  CachedMedium& operator=(const CachedMedium&) = delete;

  [[nodiscard]] std::unique_ptr<medium::Backend> open_backend();

  struct Failure {
    uint64_t at = 0;          // the page write that fails, counted from now; 0 is none
    bool and_after = false;   // and all that follow
    bool kill = false;        // and the process is killed before it learns of it
    bool told_again = false;  // the next process is told of it, too
  };
  void fail(Failure failure);
  [[nodiscard]] bool failed() const { return failed_; }  // since then
  [[nodiscard]] uint64_t writes() const { return writes_; }
  // What the backend does from now on goes nowhere. Memory stays as it is, dirty or not.
  void kill();
  // Dirty pages are written, and memory shows the medium.
  void drop();

 private:
  class Handle;
  class Memory;
  [[nodiscard]] bool dirty(size_t page) const;
  [[nodiscard]] bool write_page(size_t page);

  const MediumShape shape_;
  std::shared_ptr<Memory> memory_;
  std::vector<uint8_t> clean_;   // what each page was when it was read or written last
  std::vector<uint8_t> medium_;  // what it has
  std::vector<bool> touched_;    // dirty though it is the same
  uint32_t existing_ = 0;
  Failure failure_;
  uint64_t writes_ = 0;
  bool failed_ = false;
  bool tell_ = false;
};

}  // namespace verbena::store::trial
