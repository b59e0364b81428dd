// SPDX-License-Identifier: Apache-2.0
#include "places.h"

#include <cstdlib>
#include <functional>

#include "medium/balance_backend.h"
#include "medium/cache_backend.h"
#include "medium/malloc_backend.h"
#include "medium/nvdimm_backend.h"
#include "medium/staged_backend.h"
#include "medium/testing.h"

namespace verbena::store::trial {
namespace {

using MadeBackend = medium::Result<std::unique_ptr<medium::Backend>>;

MadeBackend malloc_of(const PlaceShape& shape) {
  return medium::make_malloc_backend(
      {.block_bytes = shape.block_bytes(), .capacity = shape.blocks});
}

medium::FileOptions files_in(const std::string& folder, const PlaceShape& shape) {
  medium::FileOptions options;
  options.folder = folder;
  options.block_bytes = shape.block_bytes();
  options.capacity = shape.blocks;
  return options;
}

class MallocPlace final : public Place {
 public:
  explicit MallocPlace(const PlaceShape& shape) : shape_(shape) {}
  MadeBackend backend() override { return malloc_of(shape_); }

 private:
  const PlaceShape shape_;
};

class CachePlace final : public Place {
 public:
  explicit CachePlace(const PlaceShape& shape) : shape_(shape) {}
  MadeBackend backend() override {
    auto below = malloc_of(shape_);
    if (!below.has_value()) return below;
    return medium::make_cache_backend(std::move(*below), 4);
  }

 private:
  const PlaceShape shape_;
};

class NvdimmPlace final : public Place {
 public:
  // by_line: as if the folder were on persistent memory, which is flushed by cache line.
  NvdimmPlace(const PlaceShape& shape, bool by_line) : shape_(shape), by_line_(by_line) {
    if (by_line_) ::setenv("PMEM2_FORCE_GRANULARITY", "CACHE_LINE", 1);
  }
  ~NvdimmPlace() override {
    if (by_line_) ::unsetenv("PMEM2_FORCE_GRANULARITY");
  }
  MadeBackend backend() override {
    return medium::open_nvdimm_backend({.files = files_in(folder_.path(), shape_)});
  }

 private:
  const PlaceShape shape_;
  const bool by_line_;
  const medium::TemporaryFolder folder_;
};

class StagedPlace final : public Place {
 public:
  explicit StagedPlace(const PlaceShape& shape) : shape_(shape) {}
  MadeBackend backend() override {
    return medium::open_staged_backend({.files = files_in(folder_.path(), shape_)});
  }

 private:
  const PlaceShape shape_;
  const medium::TemporaryFolder folder_;
};

// Three folders, one of them smaller than the others.
class BalancePlace final : public Place {
 public:
  explicit BalancePlace(const PlaceShape& shape) : shape_(shape) {}
  MadeBackend backend() override {
    std::vector<std::unique_ptr<medium::Backend>> media;
    for (uint32_t i = 0; i < kMedia; ++i) {
      PlaceShape part = shape_;
      part.blocks = shape_.blocks / (i == 1 ? 5 : 3) + 1;
      medium::FileOptions files = files_in(folder_.path() / std::to_string(i), part);
      files.medium = i;
      files.media = kMedia;
      auto made = medium::open_nvdimm_backend({.files = files});
      if (!made.has_value()) return made;
      media.push_back(std::move(*made));
    }
    return medium::make_balance_backend(std::move(media));
  }

 private:
  static constexpr uint32_t kMedia = 3;
  const PlaceShape shape_;
  const medium::TemporaryFolder folder_;
};

}  // namespace

const std::vector<std::string>& place_names() {
  static const std::vector<std::string> names{"malloc",       "cache",  "nvdimm",
                                              "nvdimm-lines", "staged", "balance"};
  return names;
}

std::unique_ptr<Place> make_place(const std::string& name, const PlaceShape& shape) {
  if (name == "malloc") return std::make_unique<MallocPlace>(shape);
  if (name == "cache") return std::make_unique<CachePlace>(shape);
  if (name == "nvdimm") return std::make_unique<NvdimmPlace>(shape, false);
  if (name == "nvdimm-lines") return std::make_unique<NvdimmPlace>(shape, true);
  if (name == "staged") return std::make_unique<StagedPlace>(shape);
  if (name == "balance") return std::make_unique<BalancePlace>(shape);
  return nullptr;
}

}  // namespace verbena::store::trial
