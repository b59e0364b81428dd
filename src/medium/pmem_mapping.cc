// SPDX-License-Identifier: Apache-2.0
#include "medium/pmem_mapping.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include <libpmem2.h>

#include "base/result.h"
#include "medium/backend.h"
#include "medium/pages.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

std::unexpected<Error> pmem_error(Code code, const std::string& what) {
  return fail(Error{code, what + ": " + pmem2_errormsg()});
}

struct DeleteConfig {
  void operator()(pmem2_config* config) const { pmem2_config_delete(&config); }
};
struct DeleteSource {
  void operator()(pmem2_source* source) const { pmem2_source_delete(&source); }
};

}  // namespace

Result<std::unique_ptr<PmemReservation>> PmemReservation::make(size_t bytes) {
  std::unique_ptr<PmemReservation> made(new PmemReservation);
  const size_t whole = (bytes + kHugePage - 1) / kHugePage * kHugePage + kHugePage;
  if (pmem2_vm_reservation_new(&made->reservation_, nullptr, whole) != 0) {
    return pmem_error(Code::kNoMemory, "reserving address space of " + size_text(whole));
  }
  auto* address = static_cast<uint8_t*>(pmem2_vm_reservation_get_address(made->reservation_));
  const size_t past = reinterpret_cast<uintptr_t>(address) % kHugePage;
  made->skipped_ = past == 0 ? 0 : kHugePage - past;
  made->base_ = address + made->skipped_;
  return made;
}

PmemReservation::~PmemReservation() {
  if (reservation_ != nullptr) pmem2_vm_reservation_delete(&reservation_);
}

Result<std::unique_ptr<PmemMapping>> PmemMapping::make(const PmemReservation& where, size_t offset,
                                                       int fd, size_t bytes, bool read_only) {
  std::unique_ptr<PmemMapping> made(new PmemMapping);
  pmem2_config* new_config = nullptr;
  pmem2_source* new_source = nullptr;
  int failed = pmem2_config_new(&new_config);
  const std::unique_ptr<pmem2_config, DeleteConfig> config(new_config);
  if (failed == 0) failed = pmem2_source_from_fd(&new_source, fd);
  const std::unique_ptr<pmem2_source, DeleteSource> source(new_source);
  const unsigned access = PMEM2_PROT_READ | (read_only ? 0 : PMEM2_PROT_WRITE);
  if (failed == 0) {
    // Whatever the medium is: page by page is the least.
    failed = pmem2_config_set_required_store_granularity(config.get(), PMEM2_GRANULARITY_PAGE);
  }
  if (failed == 0) failed = pmem2_config_set_sharing(config.get(), PMEM2_SHARED);
  if (failed == 0) failed = pmem2_config_set_protection(config.get(), access);
  if (failed == 0) failed = pmem2_config_set_length(config.get(), bytes);
  if (failed == 0) {
    failed = pmem2_config_set_vm_reservation(config.get(), where.get(), where.skipped() + offset);
  }
  if (failed == 0) failed = pmem2_map_new(&made->map_, config.get(), source.get());
  if (failed != 0) {
    return pmem_error(Code::kNoMemory, "mapping a file of " + size_text(bytes));
  }
  made->memory_ = static_cast<uint8_t*>(pmem2_map_get_address(made->map_));
  made->bytes_ = bytes;
  made->direct_ = pmem2_map_get_store_granularity(made->map_) != PMEM2_GRANULARITY_PAGE;
  made->flush_ = pmem2_get_flush_fn(made->map_);
  made->drain_ = pmem2_get_drain_fn(made->map_);
  return made;
}

PmemMapping::~PmemMapping() {
  if (map_ != nullptr) pmem2_map_delete(&map_);
}

}  // namespace verbena::medium
