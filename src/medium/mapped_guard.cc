// SPDX-License-Identifier: Apache-2.0
#include "medium/mapped_guard.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mutex.h"
#include "medium/backend.h"
#include "medium/words.h"

namespace verbena::medium {

// All guards of the process, for the signal handler, which takes no lock and allocates nothing.
class MappedGuards {
 public:
  static constexpr size_t kMost = 4096;  // media at once

  static bool add(MappedGuard* guard) {
    const MutexLock lock(mutex());
    static const bool installed = install();
    if (!installed) return false;
    for (auto& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) != nullptr) continue;
      slot.store(guard, std::memory_order_release);  // pairs with the handler's
      used_.store(std::max(used_.load(), static_cast<size_t>(&slot - slots_.data()) + 1));
      return true;
    }
    return false;
  }
  // Nobody looks at its memory any more, so no handler is working for it.
  static void remove(const MappedGuard* guard) {
    const MutexLock lock(mutex());
    for (auto& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == guard) slot.store(nullptr);
    }
  }

 private:
  static Mutex& mutex() {
    static Mutex mutex;
    return mutex;
  }

  static bool install() {
    struct sigaction action{};
    action.sa_sigaction = handle;
    // On the stack for signals, if the thread has one; what was interrupted goes on.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigemptyset(&action.sa_mask);
    return ::sigaction(SIGBUS, &action, &before_) == 0;
  }

  static void handle(int number, siginfo_t* info, void* context) {
    const int saved = errno;
    const bool from_access = info->si_code > 0;  // not sent by kill()
    const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    const bool poisoned = info->si_code == BUS_MCEERR_AR || info->si_code == BUS_MCEERR_AO;
    bool done = false;
    for (size_t i = 0; from_access && !done && i < used_.load(std::memory_order_acquire); ++i) {
      MappedGuard* const guard = slots_.at(i).load(std::memory_order_acquire);
      done = guard != nullptr && guard->replace(address, poisoned);
    }
    errno = saved;
    if (!done) pass_on(number, info, context);
  }

  static void pass_on(int number, siginfo_t* info, void* context) {
    if ((before_.sa_flags & SA_SIGINFO) != 0) {
      before_.sa_sigaction(number, info, context);
    } else if (before_.sa_handler != SIG_DFL && before_.sa_handler != SIG_IGN) {
      before_.sa_handler(number);
    } else if (info->si_code > 0 || before_.sa_handler == SIG_DFL) {
      // The access is tried again and ends the process; a signal that was sent is sent again.
      static_cast<void>(std::signal(SIGBUS, SIG_DFL));
      if (info->si_code <= 0) static_cast<void>(std::raise(SIGBUS));
    }
  }

  static inline std::array<std::atomic<MappedGuard*>, kMost> slots_{};
  static inline std::atomic<size_t> used_ = 0;  // slots that ever were
  static inline struct sigaction before_{};     // written before the handler can run
};

MappedGuard::MappedGuard(uint8_t* memory, size_t bytes, bool read_only)
    : begin_(reinterpret_cast<uintptr_t>(memory)),
      bytes_(bytes),
      page_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))),
      protection_(read_only ? PROT_READ : PROT_READ | PROT_WRITE) {}

size_t MappedGuard::map_bytes() const { return bytes_ / page_ / 8 + sizeof(uint64_t); }

Result<std::unique_ptr<MappedGuard>> MappedGuard::make(uint8_t* memory, size_t bytes,
                                                       bool read_only) {
  std::unique_ptr<MappedGuard> made(new MappedGuard(memory, bytes, read_only));
  void* const map = ::mmap(nullptr, made->map_bytes(), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) {
    return system_error(Code::kNoMemory, "mapping " + size_text(made->map_bytes()), errno);
  }
  made->replaced_ = static_cast<std::atomic<uint64_t>*>(map);
  if (!MappedGuards::add(made.get())) {
    return fail(Error{Code::kNoMemory, "too many stores are open in this process"});
  }
  return made;
}

MappedGuard::~MappedGuard() {
  MappedGuards::remove(this);
  if (replaced_ != nullptr) ::munmap(replaced_, map_bytes());
}

bool MappedGuard::replace(uintptr_t address, bool poisoned) {
  if (address - begin_ >= bytes_) return false;
  const size_t index = (address - begin_) / page_;
  const uint64_t bit = uint64_t{1} << index % 64;
  // One thread replaces it, or what another has written there meanwhile would be gone. The others
  // try again until it is there.
  if ((replaced_[index / 64].fetch_or(bit, std::memory_order_acq_rel) & bit) != 0) return !poisoned;
  // By number: ThreadSanitizer's mmap() counts as a write to the page, which others use at once.
  const uintptr_t page = begin_ + index * page_;
  if (static_cast<uintptr_t>(::syscall(SYS_mmap, page, page_, protection_,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)) != page) {
    return false;
  }
  any_.store(true, std::memory_order_release);
  return true;
}

bool MappedGuard::lost(const uint8_t* memory, size_t bytes) const {
  if (!any() || bytes == 0) return false;
  const auto offset = reinterpret_cast<uintptr_t>(memory) - begin_;
  for (size_t index = offset / page_; index <= (offset + bytes - 1) / page_; ++index) {
    const uint64_t bits = replaced_[index / 64].load(std::memory_order_acquire);
    if ((bits >> index % 64 & 1) != 0) return true;
  }
  return false;
}

}  // namespace verbena::medium
