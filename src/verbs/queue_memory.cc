// SPDX-License-Identifier: Apache-2.0
#include "verbs/queue_memory.h"

#include <cstddef>
#include <cstdlib>
#include <string_view>

#include <sys/mman.h>

#include "identity/settings.h"

namespace verbena::verbs {

bool has_memory_for(const char* variable) {
  if (identity::settings().kind != identity::Kind::kConnectX) return true;
  const char* const wanted = std::getenv(variable);
  if (wanted == nullptr || std::string_view(wanted) != "HUGE") return true;
  constexpr size_t kHugePage = size_t{2} << 20;
  void* const page = ::mmap(nullptr, kHugePage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (page == MAP_FAILED) return false;
  ::munmap(page, kHugePage);
  return true;
}

}  // namespace verbena::verbs
