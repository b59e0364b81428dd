// SPDX-License-Identifier: Apache-2.0
#include "device/on_demand.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

namespace verbena::device {
namespace {

// Since Linux 5.14; the numbers are ABI.
constexpr int kPopulateRead = 22;
constexpr int kPopulateWrite = 23;

// Kernels that cannot populate: touch each page through the kernel instead.
[[nodiscard]] int touch_pages(uintptr_t begin, uintptr_t end, uintptr_t page, bool writable) {
  OnDemandAccessor accessor;
  for (uintptr_t at = begin; at < end; at += page) {
    std::array<uint8_t, 1> byte{};
    auto* const p = reinterpret_cast<uint8_t*>(at);
    if (accessor.read(p, byte) != memory::Fault::kNone) return EFAULT;
    if (writable && accessor.write(p, byte) != memory::Fault::kNone) return EFAULT;
  }
  return 0;
}

}  // namespace

OnDemandAccessor::OnDemandAccessor() : self_(::getpid()) {}

memory::Fault OnDemandAccessor::read(const uint8_t* from, std::span<uint8_t> to) {
  const iovec local{to.data(), to.size()};
  const iovec remote{const_cast<uint8_t*>(from), to.size()};
  const ssize_t n = ::process_vm_readv(self_, &local, 1, &remote, 1, 0);
  return n == static_cast<ssize_t>(to.size()) ? memory::Fault::kNone : memory::Fault::kPage;
}

memory::Fault OnDemandAccessor::write(uint8_t* to, std::span<const uint8_t> from) {
  const iovec local{const_cast<uint8_t*>(from.data()), from.size()};
  const iovec remote{to, from.size()};
  const ssize_t n = ::process_vm_writev(self_, &local, 1, &remote, 1, 0);
  return n == static_cast<ssize_t>(from.size()) ? memory::Fault::kNone : memory::Fault::kPage;
}

memory::Fault RepeatAccessor::read(const uint8_t* from, std::span<uint8_t> to) {
  const iovec local{to.data(), to.size()};
  const iovec remote{const_cast<uint8_t*>(from), to.size()};
  const ssize_t n = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (n == static_cast<ssize_t>(to.size())) return memory::Fault::kNone;
  if (n >= 0 || errno == EFAULT) return memory::Fault::kPage;
  std::memcpy(to.data(), from, to.size());
  return memory::Fault::kNone;
}

memory::Fault RepeatAccessor::write(uint8_t*, std::span<const uint8_t>) {
  return memory::Fault::kPage;  // nothing is written again
}

memory::Fault NullAccessor::read(const uint8_t*, std::span<uint8_t> to) {
  std::ranges::fill(to, uint8_t{0});
  return memory::Fault::kNone;
}

memory::Fault NullAccessor::write(uint8_t*, std::span<const uint8_t>) {
  return memory::Fault::kNone;
}

int populate(const void* start, uint64_t length, bool writable) {
  if (length == 0) return 0;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(start) & ~(page - 1);
  const uintptr_t last = reinterpret_cast<uintptr_t>(start) + length;
  if (last < begin || last > UINTPTR_MAX - page) return EFAULT;
  const uintptr_t end = (last + page - 1) & ~(page - 1);
  const int advice = writable ? kPopulateWrite : kPopulateRead;
  for (;;) {
    if (::madvise(reinterpret_cast<void*>(begin), end - begin, advice) == 0) return 0;
    if (errno == EAGAIN || errno == EINTR) continue;
    if (errno == EINVAL) return touch_pages(begin, end, page, writable);
    return EFAULT;
  }
}

}  // namespace verbena::device
