// SPDX-License-Identifier: Apache-2.0
// For tests: another tier whose calls fail or take their time, as a seed says. A commit that fails
// may have happened: tier.h allows that. For any number of threads; with one, a seed is one
// history.
#pragma once

#include <chrono>
#include <memory>
#include <thread>
#include <utility>

#include "backend/tier.h"
#include "base/mutex.h"
#include "base/random.h"

namespace verbena::backend {

struct TierFaults {
  uint32_t fail_ppm = 0;         // of calls: kIo, nothing done
  uint32_t full_ppm = 0;         // of puts and commits: kFull, nothing done
  uint32_t lost_answer_ppm = 0;  // of commits and removals: done, and kIo nevertheless
  uint32_t short_ppm = 0;        // of puts and loads: half of them done, and kIo
  uint32_t delay_ppm = 0;        // of calls: before they are done
  uint32_t late_ppm = 0;         // of calls: after it, so that others overtake the answer
  uint32_t delay_us = 0;         // at most
  uint64_t calls = UINT64_MAX;   // that may work, as fail_ppm counts them; then all fail
};

class FaultyTier final : public Tier {
 public:
  FaultyTier(Tier& below, uint64_t seed, TierFaults faults)
      : below_(below), random_(seed), faults_(faults) {}

  void set(TierFaults faults) {
    const MutexLock lock(mutex_);
    faults_ = faults;
    calls_ = 0;
  }
  [[nodiscard]] uint64_t failed_calls() const {
    const MutexLock lock(mutex_);
    return failed_;
  }

  [[nodiscard]] std::string describe() const override { return "faulty " + below_.describe(); }
  [[nodiscard]] Result<State> state(const Key& key) override {
    if (strikes(&TierFaults::fail_ppm)) return fail(broken());
    const Late late(*this);
    return below_.state(key);
  }
  [[nodiscard]] Result<void> list(const Each& each) override {
    if (strikes(&TierFaults::fail_ppm)) return fail(broken());
    return below_.list(each);
  }
  [[nodiscard]] Result<void> load(const Key& key, uint64_t version, uint64_t first,
                                  std::span<PartToLoad> parts) override {
    if (strikes(&TierFaults::fail_ppm)) return fail(broken());
    const Late late(*this);
    if (strikes(&TierFaults::short_ppm)) {
      static_cast<void>(below_.load(key, version, first, parts.first(parts.size() / 2)));
      return fail(broken());
    }
    return below_.load(key, version, first, parts);
  }
  [[nodiscard]] Result<std::unique_ptr<Update>> update(const Key& key,
                                                       const NewState& wanted) override {
    if (strikes(&TierFaults::fail_ppm)) return fail(broken());
    auto update = below_.update(key, wanted);
    if (!update) return fail(update.error());
    return std::make_unique<FaultyUpdate>(*this, std::move(*update));
  }
  [[nodiscard]] Result<void> remove(const Key& key, uint64_t version) override {
    if (strikes(&TierFaults::fail_ppm)) return fail(broken());
    const Late late(*this);
    auto removed = below_.remove(key, version);
    if (removed && strikes(&TierFaults::lost_answer_ppm)) return fail(broken());
    return removed;
  }

 private:
  class FaultyUpdate final : public Update {
   public:
    FaultyUpdate(FaultyTier& tier, std::unique_ptr<Update> below)
        : tier_(tier), below_(std::move(below)) {}
    [[nodiscard]] Result<void> put(uint64_t first, std::span<const PartToPut> parts) override {
      if (auto spoilt = spoil(); !spoilt) return spoilt;
      const Late late(tier_);
      if (tier_.strikes(&TierFaults::short_ppm)) {
        error_ = broken();
        static_cast<void>(below_->put(first, parts.first(parts.size() / 2)));
        return fail(*error_);
      }
      return below_->put(first, parts);
    }
    [[nodiscard]] Result<void> hole(uint64_t first, uint64_t count) override {
      if (auto spoilt = spoil(); !spoilt) return spoilt;
      return below_->hole(first, count);
    }
    [[nodiscard]] Result<void> commit() override {
      if (auto spoilt = spoil(); !spoilt) return spoilt;
      const Late late(tier_);
      auto done = below_->commit();
      if (done && tier_.strikes(&TierFaults::lost_answer_ppm)) return fail(broken());
      return done;
    }

   private:
    // After one error all calls fail, as tier.h has it.
    [[nodiscard]] Result<void> spoil() {
      if (!error_ && tier_.strikes(&TierFaults::fail_ppm)) error_ = broken();
      if (!error_ && tier_.strikes(&TierFaults::full_ppm)) {
        error_ = Error{Code::kFull, "no space, says the test", {}};
      }
      if (error_) return fail(*error_);
      return {};
    }
    FaultyTier& tier_;
    const std::unique_ptr<Update> below_;
    std::optional<Error> error_;
  };

  // The answer of what is done meanwhile comes late.
  class Late {
   public:
    explicit Late(FaultyTier& tier) : tier_(tier) {}
    ~Late() { sleep(tier_.draw_delay(&TierFaults::late_ppm)); }
    Late(const Late&) = delete;
    Late& operator=(const Late&) = delete;

   private:
    FaultyTier& tier_;
  };
  static void sleep(uint64_t us) {
    if (us > 0) std::this_thread::sleep_for(std::chrono::microseconds(us));
  }
  [[nodiscard]] uint64_t draw_delay(uint32_t TierFaults::* ppm) {
    const MutexLock lock(mutex_);
    if (faults_.delay_us == 0 || faults_.*ppm == 0 || !random_.chance_ppm(faults_.*ppm)) return 0;
    return random_.below(faults_.delay_us);
  }
  [[nodiscard]] static Error broken() { return {Code::kIo, "cannot, says the test", {}}; }
  [[nodiscard]] bool strikes(uint32_t TierFaults::* ppm) {
    if (ppm == &TierFaults::fail_ppm) sleep(draw_delay(&TierFaults::delay_ppm));
    const MutexLock lock(mutex_);
    bool struck = faults_.*ppm > 0 && random_.chance_ppm(faults_.*ppm);
    if (ppm == &TierFaults::fail_ppm && calls_++ >= faults_.calls) struck = true;
    if (struck) ++failed_;
    return struck;
  }

  Tier& below_;
  mutable Mutex mutex_;
  SeededRandom random_ VERBENA_GUARDED_BY(mutex_);
  TierFaults faults_ VERBENA_GUARDED_BY(mutex_);
  uint64_t failed_ VERBENA_GUARDED_BY(mutex_) = 0;
  uint64_t calls_ VERBENA_GUARDED_BY(mutex_) = 0;
};

}  // namespace verbena::backend
