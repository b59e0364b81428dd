// SPDX-License-Identifier: Apache-2.0
// The sums of a new version while it is written: only the pages that differ from the base's are in
// memory. For one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "backend/part_ranges.h"
#include "backend/sums.h"

namespace verbena::backend {

class SumsDraft {
 public:
  // Reads a page of the base's sums, with whatever check it has.
  using ReadBase = std::function<Result<void>(uint64_t index, SumsPage& page)>;
  struct Page {
    SumsPage bytes{};
    // What the base says of parts that are not set here is not known.
    bool base_damaged = false;
  };

  SumsDraft() = default;
  // None of the base is known, if there is none or if it is adopted: `base_pages` is 0.
  SumsDraft(uint64_t base_pages, ReadBase read) : base_pages_(base_pages), read_(std::move(read)) {}

  [[nodiscard]] Result<void> set(uint64_t part, uint32_t crc) {
    auto page = find(place_of(part).page);
    if (!page) return fail(page.error());
    set_crc((*page)->bytes, place_of(part), crc);
    return {};
  }
  // Parts [first, end) are zeros.
  [[nodiscard]] Result<void> set_holes(uint64_t first, uint64_t end) {
    while (first < end) {
      const uint64_t index = place_of(first).page;
      const uint64_t page_end = first_part_of(index) + parts_in(index);
      if (index > 0 && first == first_part_of(index) && page_end <= end) {
        const uint64_t pages = (end - first) / kPageParts;
        holes_.push_back({index, index + pages});
        first += pages * kPageParts;
        continue;
      }
      auto page = find(index);
      if (!page) return fail(page.error());
      for (; first < end && first < page_end; ++first) set_hole((*page)->bytes, place_of(first));
    }
    return {};
  }
  [[nodiscard]] Result<Page*> find(uint64_t index) {
    const auto [at, is_new] = pages_.try_emplace(index);
    if (is_new && index < base_pages_ && !is_of_holes(index)) {
      if (auto read = read_(index, at->second.bytes); !read) {
        pages_.erase(at);
        return fail(read.error());
      }
      at->second.base_damaged = !is_sealed(at->second.bytes, index);
    }
    return &at->second;
  }

  [[nodiscard]] uint64_t base_pages() const { return base_pages_; }
  // By their index.
  [[nodiscard]] std::map<uint64_t, Page>& pages() { return pages_; }
  // Pages of holes alone, which are not in memory.
  [[nodiscard]] const std::vector<PartRange>& hole_pages() const { return holes_; }

 private:
  // What the base has in it is gone.
  [[nodiscard]] bool is_of_holes(uint64_t index) const {
    return std::ranges::any_of(holes_, [index](const PartRange& range) {
      return range.first <= index && index < range.end;
    });
  }

  uint64_t base_pages_ = 0;
  ReadBase read_;
  std::map<uint64_t, Page> pages_;
  std::vector<PartRange> holes_;
};

}  // namespace verbena::backend
