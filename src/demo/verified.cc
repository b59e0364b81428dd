// SPDX-License-Identifier: Apache-2.0
#include "demo/verified.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "base/random.h"

namespace verbena::demo {
namespace {

using transport::Completion;
using transport::QpType;
using transport::SendOp;

constexpr uint8_t kFiller = 0xee;

// A verdict as it goes over the line.
struct Findings {
  uint32_t wrong = 0;
  std::array<char, 160> first{};

  [[gnu::format(printf, 2, 3)]] void add(const char* format, ...) {
    if (wrong++ != 0) return;
    va_list arguments;
    va_start(arguments, format);
    (void)std::vsnprintf(first.data(), first.size(), format, arguments);
    va_end(arguments);
  }
};

[[nodiscard]] SeededRandom random_of(const Operation& operation, uint64_t seed, uint32_t message) {
  const auto kind =
      static_cast<uint64_t>(operation.service) << 8 | static_cast<uint8_t>(operation.op);
  return SeededRandom(seed * 0x10001 + (kind << 32) + message);
}

void fill_random(std::span<uint8_t> bytes, SeededRandom random) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t word = random.next();
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, bytes.size() - at));
  }
}

[[nodiscard]] uint32_t imm_of(const Operation& operation, uint64_t seed, uint32_t message) {
  return static_cast<uint32_t>(random_of(operation, ~seed, message).next());
}

// Where a message lies in a slot: a datagram has its GRH before it.
[[nodiscard]] uint32_t offset_at_target(const Operation& operation) {
  return kGuardBytes + (operation.service == QpType::kUd ? kGrhBytes : 0);
}

void blank(End& end, uint32_t slot) { std::ranges::fill(end.slot(slot), kFiller); }

void put(End& end, const Operation& operation, uint64_t seed, uint32_t message) {
  fill_random(end.slot(message).subspan(kGuardBytes, operation.bytes_of(message)),
              random_of(operation, seed, message));
}

// The slot is as it should be: the message at `offset`, the filler around it.
void compare(End& end, const Operation& operation, uint64_t seed, uint32_t message, uint32_t offset,
             Findings& findings) {
  const uint32_t bytes = operation.bytes_of(message);
  std::vector<uint8_t> expected(bytes);
  fill_random(expected, random_of(operation, seed, message));
  const auto slot = end.slot(message);
  const auto differs = std::ranges::mismatch(slot.subspan(offset, bytes), expected);
  if (differs.in2 != expected.end()) {
    findings.add("message %u of %u bytes differs from byte %td on", message + 1, bytes,
                 differs.in2 - expected.begin());
    return;
  }
  const auto untouched = [](std::span<const uint8_t> around) {
    return std::ranges::all_of(around, [](uint8_t byte) { return byte == kFiller; });
  };
  if (!untouched(slot.first(kGuardBytes)) || !untouched(slot.subspan(offset + bytes))) {
    findings.add("message %u of %u bytes: memory beside it was written", message + 1, bytes);
  }
}

// --- atomics: all messages work on one word, which both ends follow

struct AtomicStep {
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  uint64_t after = 0;
};

[[nodiscard]] uint64_t first_word(const Operation& operation, uint64_t seed) {
  return random_of(operation, seed, kMostMessages).next();
}

[[nodiscard]] AtomicStep atomic_step(const Operation& operation, uint64_t seed, uint32_t message,
                                     uint64_t before) {
  const uint64_t value = random_of(operation, seed, message).next();
  if (operation.op == SendOp::kFetchAdd) return {value, 0, before + value};
  // Every other comparison fails, and must leave the word alone.
  if (message % 2 == 1) return {~before, value, before};
  return {before, value, value};
}

[[nodiscard]] uint64_t word_in(End& end, uint32_t slot) {
  uint64_t word = 0;
  std::memcpy(&word, end.slot(slot).data() + kGuardBytes, sizeof word);
  return word;
}

// --- the target

std::vector<RKey> prepare(End& end, const Operation& operation, uint64_t seed) {
  for (uint32_t i = 0; i < operation.messages(); ++i) {
    blank(end, i);
    if (operation.op == SendOp::kRead) put(end, operation, seed, i);
    const uint32_t grh = operation.service == QpType::kUd ? kGrhBytes : 0;
    if (operation.is_send()) {
      end.post_receive(operation.service, i, operation.bytes_of(i) + grh, i);
    } else if (operation.takes_receive()) {
      end.post_receive(operation.service, i, 0, i);
    }
  }
  if (operation.is_atomic()) {
    const uint64_t word = first_word(operation, seed);
    std::memcpy(end.slot(0).data() + kGuardBytes, &word, sizeof word);
  }
  if (operation.needs_marker()) end.post_receive(operation.service, 0, 0);
  return operation.invalidates() ? end.bind_windows(operation.messages()) : std::vector<RKey>();
}

void check_receives(End& end, const Operation& operation, uint64_t seed,
                    std::span<const RKey> windows, Findings& findings) {
  uint32_t message = 0;
  for (const Completion& got : end.wait_received(operation.messages())) {
    const uint32_t grh = operation.service == QpType::kUd ? kGrhBytes : 0;
    if (got.wr_id != message || got.byte_len != operation.bytes_of(message) + grh) {
      findings.add("message %u arrived as %u bytes", message + 1, got.byte_len);
    } else if (operation.has_imm() && ((got.flags & transport::kWcWithImm) == 0 ||
                                       got.imm_or_rkey != imm_of(operation, seed, message))) {
      findings.add("message %u has the wrong immediate data", message + 1);
    } else if (operation.invalidates() && ((got.flags & transport::kWcWithInvalidate) == 0 ||
                                           got.imm_or_rkey != windows[message].value)) {
      findings.add("message %u invalidated the wrong key", message + 1);
    }
    ++message;
  }
}

void check_word(End& end, const Operation& operation, uint64_t seed, Findings& findings) {
  uint64_t word = first_word(operation, seed);
  for (uint32_t i = 0; i < operation.messages(); ++i) {
    word = atomic_step(operation, seed, i, word).after;
  }
  if (word_in(end, 0) != word) findings.add("the word at the target is wrong");
}

// --- the initiator

void post_all(End& end, const Operation& operation, uint64_t seed, std::span<const RKey> windows) {
  std::array<memory::Sge, kMostMessages> pieces{};
  std::vector<transport::SendRequest> requests;
  uint64_t word = operation.is_atomic() ? first_word(operation, seed) : 0;
  for (uint32_t i = 0; i < operation.messages(); ++i) {
    pieces[i] = end.piece(i, operation.bytes_of(i));
    transport::SendRequest& request = requests.emplace_back(
        end.request(operation, operation.is_atomic() ? 0 : i, std::span(pieces).subspan(i, 1)));
    request.flags = transport::kSignaled;
    request.imm = imm_of(operation, seed, i);
    if (operation.invalidates()) request.invalidate = windows[i];
    if (operation.is_atomic()) {
      const AtomicStep step = atomic_step(operation, seed, i, word);
      request.compare_add = step.compare_add;
      request.swap = step.swap;
      word = step.after;
    }
  }
  if (operation.needs_marker()) {
    requests.emplace_back().op = SendOp::kSend;
    requests.back().flags = transport::kSignaled;
  }
  end.post(operation.service, requests);
  end.wait_sent(requests.size());
}

void check_results(End& end, const Operation& operation, uint64_t seed, Findings& findings) {
  uint64_t word = operation.is_atomic() ? first_word(operation, seed) : 0;
  for (uint32_t i = 0; i < operation.messages(); ++i) {
    if (operation.op == SendOp::kRead) {
      compare(end, operation, seed, i, kGuardBytes, findings);
    } else if (operation.is_atomic()) {
      if (word_in(end, i) != word) findings.add("operation %u gave the wrong word", i + 1);
      word = atomic_step(operation, seed, i, word).after;
    }
  }
}

}  // namespace

void verify_as_target(End& end, const Operation& operation, uint64_t seed) {
  const std::vector<RKey> windows = prepare(end, operation, seed);
  end.settle();
  end.line().tell('.');
  end.line().tell_bytes(windows.data(), windows.size() * sizeof(RKey));
  Findings findings;
  if (operation.takes_receive()) check_receives(end, operation, seed, windows, findings);
  if (operation.needs_marker()) (void)end.wait_received(1);
  (void)end.line().hear<char>();  // the initiator has its completions
  end.settle();
  if (operation.is_atomic()) {
    check_word(end, operation, seed, findings);
  } else if (operation.op != SendOp::kRead) {
    for (uint32_t i = 0; i < operation.messages(); ++i) {
      compare(end, operation, seed, i, offset_at_target(operation), findings);
    }
  }
  end.free_windows(windows);
  end.line().tell(findings);
}

Verdict verify_as_initiator(End& end, const Operation& operation, uint64_t seed) {
  for (uint32_t i = 0; i < operation.messages(); ++i) {
    blank(end, i);
    if (operation.op != SendOp::kRead) put(end, operation, seed, i);
  }
  (void)end.line().hear<char>();
  std::vector<RKey> windows(operation.invalidates() ? operation.messages() : 0);
  end.line().hear_bytes(windows.data(), windows.size() * sizeof(RKey));
  post_all(end, operation, seed, windows);
  Findings findings;
  check_results(end, operation, seed, findings);
  end.line().tell('.');
  const auto theirs = end.line().hear<Findings>();
  return {findings.wrong + theirs.wrong,
          findings.wrong != 0 ? findings.first.data() : theirs.first.data()};
}

}  // namespace verbena::demo
