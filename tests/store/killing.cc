// SPDX-License-Identifier: Apache-2.0
#include "killing.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/unique_fd.h"
#include "compare.h"
#include "medium/testing.h"
#include "model.h"
#include "operation.h"

namespace verbena::store::trial {
namespace {

// What the writer says, before and after each operation. What it draws next depends on the answers
// alone, so whoever hears them can draw the same.
struct Word {
  enum class Kind : uint8_t { kOpened, kBegins, kDone, kFailed };
  Kind kind = Kind::kFailed;
  uint8_t refused = 0;  // 0: done; else the code, plus 1
  bool operator==(const Word&) const = default;
};

constexpr uint64_t kMaxDelayUs = 40'000;

// Some flush often, and are mostly killed in the midst of it; some hardly ever.
Profile profile_of(uint64_t seed) {
  return {.objects = 6,
          .object_bytes = 400'000,
          .write_bytes = 120'000,
          .sparse_bytes = uint64_t{1} << 36,
          .flush_per_mille = seed % 2 == 0 ? 150u : 2u,
          .checkpoint_per_mille = seed % 2 == 0 ? 10u : 1u,
          .nonsense_per_mille = 0};
}

DirectoryOptions options_of(store::Kind kind) {
  DirectoryOptions options;
  options.kind = kind;
  options.capacity_bytes = 64 << 20;
  options.chunks_per_block = 64;
  options.store.flush_bytes = 1 << 20;
  return options;
}

[[noreturn]] void write_until_killed(const std::string& folder, store::Kind kind, uint64_t seed,
                                     Model model, int pipe) {
  const auto say = [pipe](Word word) {
    if (::write(pipe, &word, sizeof word) != sizeof word) ::_exit(3);
  };
  auto opened = DirectoryStore::open({folder}, options_of(kind));
  if (!opened.has_value()) {
    std::fprintf(stderr, "the writer: %s\n", opened.error().what.c_str());
    say({.kind = Word::Kind::kFailed});
    ::_exit(3);
  }
  say({.kind = Word::Kind::kOpened});
  SeededRandom random(seed);
  const Profile profile = profile_of(seed);
  for (;;) {
    const Operation operation = draw(random, model, profile);
    say({.kind = Word::Kind::kBegins});
    std::string why;
    const Refusal refusal = apply(opened->store(), operation, &why);
    say({.kind = Word::Kind::kDone,
         .refused =
             static_cast<uint8_t>(refusal.has_value() ? static_cast<uint8_t>(*refusal) + 1 : 0)});
    if (!refusal.has_value()) static_cast<void>(apply(model, operation));
  }
}

class Killer {
 public:
  Killer(uint64_t seed, store::Kind kind, bool trace) : kind_(kind), trace_(trace), random_(seed) {}

  KillResult run(uint64_t rounds) {
    auto created = DirectoryStore::create({path()}, options_of(kind_));
    if (!created.has_value()) {
      result_.violation = "creating: " + created.error().what;
      return result_;
    }
    if (const auto closed = created->store().close(); !closed.has_value()) {
      result_.violation = "closing: " + closed.error().what;
      return result_;
    }
    { const DirectoryStore gone = std::move(*created); }
    for (uint64_t round = 0; round < rounds && result_.violation.empty(); ++round) {
      result_.trace.clear();
      result_.violation = one(round);
    }
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::string path() const { return folder_.path() / "store"; }
  void tell(std::string line) {
    if (trace_) std::printf("%s\n", line.c_str());
    result_.trace.push_back(std::move(line));
  }

  std::string one(uint64_t round) {
    const uint64_t seed = random_.next();
    tell("round " + std::to_string(round));
    const std::vector<Word> words = write_and_kill(seed);
    ++result_.kills;
    if (words.empty()) ++result_.while_opening;
    if (!words.empty() && words.back().kind == Word::Kind::kFailed) {
      return "the writer could not open the store";
    }
    std::string violation = replay(seed, words);
    return violation.empty() ? look() : violation;
  }

  std::vector<Word> write_and_kill(uint64_t seed) {
    std::array<int, 2> ends{};
    VERBENA_CHECK(::pipe2(ends.data(), O_CLOEXEC) == 0);
    UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    std::fflush(nullptr);
    const pid_t child = ::fork();
    VERBENA_CHECK(child >= 0);
    if (child == 0) {
      reader = UniqueFd();
      write_until_killed(path(), kind_, seed, model_, writer.get());
    }
    writer = UniqueFd();
    // Sometimes while it opens the store, mostly a while after that.
    const bool soon = random_.below(5) == 0;
    const auto delay =
        std::chrono::microseconds(random_.below(soon ? kMaxDelayUs / 10 : kMaxDelayUs));
    std::vector<Word> words;
    auto deadline = std::chrono::steady_clock::now() + delay;
    if (!soon) {
      read_words(reader.get(), words, std::chrono::steady_clock::now() + std::chrono::seconds(30),
                 1);
      deadline = std::chrono::steady_clock::now() + delay;
    }
    read_words(reader.get(), words, deadline, SIZE_MAX);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    read_words(reader.get(), words, std::chrono::steady_clock::now() + std::chrono::seconds(30),
               SIZE_MAX);
    return words;
  }

  // Until there are so many, it is late, or the other end is closed.
  static void read_words(int fd, std::vector<Word>& words,
                         std::chrono::steady_clock::time_point deadline, size_t enough) {
    while (words.size() < enough) {
      const auto left = std::chrono::duration_cast<std::chrono::microseconds>(
          deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return;
      pollfd poll{.fd = fd, .events = POLLIN, .revents = 0};
      const timespec patience{.tv_sec = left.count() / 1'000'000,
                              .tv_nsec = left.count() % 1'000'000 * 1000};
      if (::ppoll(&poll, 1, &patience, nullptr) <= 0) return;
      std::array<Word, 256> batch{};
      const ssize_t got = ::read(fd, batch.data(), sizeof batch);
      if (got <= 0) return;
      words.insert(words.end(), batch.begin(),
                   batch.begin() + got / static_cast<ssize_t>(sizeof(Word)));
    }
  }

  // Draws what the writer drew: what it may have left is candidates_.
  std::string replay(uint64_t seed, const std::vector<Word>& words) {
    candidates_ = {model_};
    SeededRandom random(seed);
    const Profile profile = profile_of(seed);
    std::optional<Operation> begun;
    for (const Word& word : words) {
      if (word.kind == Word::Kind::kBegins) {
        begun = draw(random, candidates_.back(), profile);
        tell(describe(*begun));
        ++result_.operations;
        continue;
      }
      if (word.kind != Word::Kind::kDone) continue;
      Model next = candidates_.back();
      const Refusal expected = apply(next, *begun);
      const Refusal actual =
          word.refused == 0 ? Refusal{} : Refusal{static_cast<Code>(word.refused - 1)};
      if (actual != expected && actual != Code::kFull) {
        return describe(*begun) + " was " + describe(actual) + ", not " + describe(expected);
      }
      if (!actual.has_value()) candidates_.push_back(std::move(next));
      if (makes_durable(*begun) && !actual.has_value()) {
        candidates_.erase(candidates_.begin(), candidates_.end() - 1);
        tell("acknowledged");
      }
      begun.reset();
    }
    if (begun.has_value()) {
      Model next = candidates_.back();
      if (!apply(next, *begun).has_value()) candidates_.push_back(std::move(next));
    }
    return {};
  }

  // A kill is no damage.
  std::string look_unopened() {
    OpenReport report;
    DirectoryOptions options = options_of(kind_);
    options.store.read_only = true;
    {
      const auto opened = DirectoryStore::open({path()}, options, &report);
      if (!opened.has_value()) return "opening for reading: " + opened.error().what;
    }
    if (!report.damage.empty()) return "opening finds damage: " + report.damage.front().field;
    const auto found = scrub({path()});
    if (!found.has_value()) return "scrub: " + found.error().what;
    return found->damaged == 0 ? "" : "scrub finds damage: " + found->damage.front().field;
  }

  std::string look() {
    if (std::string what = look_unopened(); !what.empty()) return what;
    auto opened = DirectoryStore::open({path()}, options_of(kind_));
    if (!opened.has_value()) {
      return std::string("opening after the kill: ") + store::name_of(opened.error().code) + ": " +
             opened.error().what;
    }
    std::string first;
    for (size_t i = candidates_.size(); i-- > 0;) {
      const std::string what = compare(opened->store(), candidates_[i], random_);
      if (what.empty()) {
        result_.kept += i;
        result_.lost += candidates_.size() - 1 - i;
        model_ = candidates_[i];
        return close(*opened);
      }
      first = what;
    }
    return "it is none of the " + std::to_string(candidates_.size()) +
           " that it may be; of what was flushed: " + first;
  }

  // Closed in order, it has the files that it always has.
  std::string close(DirectoryStore& store) {
    const auto closed = store->close();
    if (!closed.has_value()) return "closing: " + closed.error().what;
    { const DirectoryStore gone = std::move(store); }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
      const std::string name = entry.path().filename();
      const bool known = name.starts_with("blocks.") || name == "lock";
      if (!known) return "the store has left " + name;
    }
    return {};
  }

  const store::Kind kind_;
  const bool trace_;
  SeededRandom random_;
  const medium::TemporaryFolder folder_;
  Model model_;
  std::vector<Model> candidates_;
  KillResult result_;
};

}  // namespace

KillResult run_kills(uint64_t seed, store::Kind kind, uint64_t rounds, bool trace) {
  return Killer(seed, kind, trace).run(rounds);
}

}  // namespace verbena::store::trial
