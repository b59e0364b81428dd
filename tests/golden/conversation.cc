// SPDX-License-Identifier: Apache-2.0
#include "golden/conversation.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "memory/access.h"
#include "wire/network.h"

namespace verbena::golden {
namespace {

using wire::Operation;
using wire::Psn;

constexpr uint64_t kMaxRegionBytes = uint64_t{64} << 20;
// What is known of each byte, by R_Key and offset, while a region's content is put together.
struct KnownByte {
  enum class By : uint8_t { kNothing, kRead, kWrite };
  By by = By::kNothing;
  uint8_t value = 0;
};
using Known = std::map<uint32_t, std::vector<KnownByte>>;

uint32_t psns_of(const Conversation& conversation, const wire::PacketView& request) {
  if (request.info->operation != Operation::kReadRequest) return 1;
  const uint32_t n = request.reth().length;
  return n == 0 ? 1 : (n + conversation.mtu - 1) / conversation.mtu;
}

// Requests by (who, whom, queue pair); responses go to the stream whose PSNs they answer.
std::vector<Conversation> split(const std::vector<std::pair<Message, wire::Frame>>& all) {
  std::vector<Conversation> found;
  const auto stream = [&](const wire::Frame& frame,
                          const wire::PacketView& packet) -> Conversation& {
    for (Conversation& c : found) {
      if (c.requester == frame.flow.source && c.responder == frame.flow.destination &&
          c.responder_qpn == packet.bth.dest_qp && c.service == packet.info->service) {
        return c;
      }
    }
    Conversation c;
    c.service = packet.info->service;
    c.requester = frame.flow.source;
    c.responder = frame.flow.destination;
    c.responder_qpn = packet.bth.dest_qp;
    found.push_back(std::move(c));
    return found.back();
  };
  for (const auto& [message, frame] : all) {
    if (!message.packet.info->is_response())
      stream(frame, message.packet).requests.push_back(message);
  }
  for (const auto& [message, frame] : all) {
    if (!message.packet.info->is_response()) continue;
    for (Conversation& c : found) {
      if (c.requester != frame.flow.destination || c.responder != frame.flow.source ||
          c.service != wire::Service::kRc) {
        continue;
      }
      const Qpn to = message.packet.bth.dest_qp;
      if (c.requester_qpn.value != 0 && c.requester_qpn != to) continue;
      constexpr int32_t kNear = 1 << 14;
      const int32_t ahead = distance(c.requests.front().packet.bth.psn, message.packet.bth.psn);
      if (ahead < -1 || ahead > kNear) continue;
      c.requester_qpn = to;
      c.answers.push_back(message);
      break;
    }
  }
  return found;
}

void infer_mtu(Conversation& c) {
  size_t largest = 0;
  for (const auto* list : {&c.requests, &c.answers}) {
    for (const Message& message : *list) {
      const auto position = message.packet.info->position;
      if (position == wire::Position::kFirst || position == wire::Position::kMiddle) {
        c.mtu = static_cast<uint32_t>(message.packet.payload.size());
        if (!std::has_single_bit(c.mtu) || c.mtu < 256 || c.mtu > 4096) {
          c.unusable = "a First or Middle packet of " + std::to_string(c.mtu) + " bytes";
        }
        return;
      }
      largest = std::max(largest, message.packet.payload.size());
    }
  }
  c.mtu = std::max<uint32_t>(1024, std::bit_ceil(static_cast<uint32_t>(largest)));
}

// The request whose PSNs hold `psn`, the latest before `frame`.
const Message* request_of(const Conversation& c, Psn psn, size_t frame) {
  const Message* found = nullptr;
  for (const Message& request : c.requests) {
    if (request.frame > frame) break;
    const auto offset = (psn - request.packet.bth.psn.value()).value();
    if (offset < psns_of(c, request.packet)) found = &request;
  }
  return found;
}

uint32_t right_for(Operation operation) {
  switch (operation) {
    case Operation::kWrite:
    case Operation::kAtomicWrite: return memory::kRemoteWrite;
    case Operation::kReadRequest: return memory::kRemoteRead;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:    return memory::kRemoteAtomic;
    default:                      return 0;
  }
}

// Rights, the RNR timer, and which requests were refused for their key.
std::set<uint32_t> infer_from_naks(Conversation& c) {
  std::set<uint32_t> bad_keys;  // PSNs
  c.access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
  for (const Message& answer : c.answers) {
    if (answer.packet.info->operation != Operation::kAcknowledge) continue;
    const uint8_t syndrome = answer.packet.aeth().syndrome;
    const uint32_t psn = answer.packet.bth.psn.value();
    if ((syndrome & wire::syndrome::kKindMask) == wire::syndrome::kRnrNak) {
      c.rnr_timer = syndrome & wire::syndrome::kValueMask;
      ++c.rnr_naks[psn];
    } else if (syndrome == wire::syndrome::kNakRemoteAccess) {
      bad_keys.insert(psn);
    } else if (syndrome == wire::syndrome::kNakInvalidRequest) {
      if (const Message* request = request_of(c, answer.packet.bth.psn, answer.frame)) {
        c.access &= ~right_for(request->packet.info->operation);
      }
    }
  }
  return bad_keys;
}

struct Range {
  uint32_t rkey = 0;
  uint64_t start = 0;
  uint64_t length = 0;
};
std::optional<Range> range_of(const wire::PacketView& request) {
  if (request.info->has(wire::kReth)) {
    const wire::Reth reth = request.reth();
    return Range{reth.rkey.value, reth.address, reth.length};
  }
  if (request.info->has(wire::kAtomicEth)) {
    const wire::AtomicEth eth = request.atomic_eth();
    return Range{eth.rkey.value, eth.address, 8};
  }
  return {};
}

// Each key's region spans what was used of it with success.
Known infer_regions(Conversation& c, const std::set<uint32_t>& bad_keys) {
  std::map<uint32_t, std::pair<uint64_t, uint64_t>> spans;
  for (const Message& request : c.requests) {
    const auto range = range_of(request.packet);
    if (!range || range->length == 0 || bad_keys.contains(request.packet.bth.psn.value())) continue;
    auto [place, fresh] =
        spans.try_emplace(range->rkey, range->start, range->start + range->length);
    if (fresh) continue;
    place->second.first = std::min(place->second.first, range->start);
    place->second.second = std::max(place->second.second, range->start + range->length);
  }
  Known known;
  for (const auto& [rkey, span] : spans) {
    uint64_t start = span.first & ~uint64_t{7};
    if (span.second - start > kMaxRegionBytes) {
      c.unusable = "a key that spans more than 64 MiB";
      return known;
    }
    c.regions[rkey] = {start, std::vector<uint8_t>(span.second - start)};
    known[rkey].resize(span.second - start);
  }
  return known;
}

// A READ or an atomic found these bytes. The first to touch a byte tells what was there in the
// beginning; where a READ finds another value than the READ before it, and no request wrote there,
// the program did.
void found(Conversation& c, Known& known, const Message& request, uint64_t address,
           std::span<const uint8_t> bytes) {
  const uint32_t rkey = range_of(request.packet)->rkey;
  const auto region = c.regions.find(rkey);
  if (region == c.regions.end()) return;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t at = address + i - region->second.start;
    if (at >= region->second.content.size()) return;
    KnownByte& byte = known[rkey][at];
    if (byte.by == KnownByte::By::kNothing) region->second.content[at] = bytes[i];
    if (byte.by == KnownByte::By::kRead && byte.value != bytes[i]) {
      c.changes[request.frame].push_back({rkey, address + i, bytes[i]});
    }
    byte = {KnownByte::By::kRead, bytes[i]};
  }
}

void written(const Conversation& c, Known& known, uint32_t rkey, uint64_t address, size_t n) {
  const auto region = c.regions.find(rkey);
  if (region == c.regions.end()) return;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t at = address + i - region->second.start;
    if (at < region->second.content.size()) known[rkey][at] = {KnownByte::By::kWrite, 0};
  }
}

// What the memory held in the beginning, from READ responses and atomics' originals before any
// write.
void infer_content(Conversation& c, Known known) {
  std::optional<Range> writing;
  uint64_t so_far = 0;
  size_t next_answer = 0;
  std::set<uint32_t> asked;
  const auto take_answers_before = [&](size_t frame) {
    for (; next_answer < c.answers.size() && c.answers[next_answer].frame < frame; ++next_answer) {
      const Message& answer = c.answers[next_answer];
      const Message* request = request_of(c, answer.packet.bth.psn, answer.frame);
      if (request == nullptr) continue;
      const auto range = range_of(request->packet);
      if (!range) continue;
      if (answer.packet.info->operation == Operation::kReadResponse) {
        const uint64_t offset =
            uint64_t{(answer.packet.bth.psn - request->packet.bth.psn.value()).value()} * c.mtu;
        found(c, known, *request, range->start + offset, answer.packet.payload);
      } else if (answer.packet.info->operation == Operation::kAtomicAcknowledge) {
        // Atomics are on the host's words.
        const uint64_t original = answer.packet.atomic_ack_eth().original;
        uint8_t bytes[8];
        std::memcpy(bytes, &original, sizeof original);
        found(c, known, *request, range->start, bytes);
        written(c, known, range->rkey, range->start, sizeof bytes);
      }
    }
  };
  for (const Message& request : c.requests) {
    take_answers_before(request.frame);
    const uint32_t psns = psns_of(c, request.packet);
    for (uint32_t i = 0; i < psns; ++i) {
      const uint32_t psn = (request.packet.bth.psn + i).value();
      if (!asked.insert(psn).second) c.repeated.insert(psn);
    }
    if (request.packet.info->operation == Operation::kWrite) {
      if (request.packet.info->starts_message()) {
        writing = range_of(request.packet);
        so_far = 0;
      }
      if (writing) {
        written(c, known, writing->rkey, writing->start + so_far, request.packet.payload.size());
        so_far += request.packet.payload.size();
      }
    }
  }
  take_answers_before(~size_t{0});
}

void find_end(Conversation& c) {
  Psn asked = c.requests.front().packet.bth.psn;
  for (const Message& request : c.requests) {
    const Psn last = request.packet.bth.psn + (psns_of(c, request.packet) - 1);
    if (last.is_after(asked)) asked = last;
  }
  Psn answered = c.requests.front().packet.bth.psn.previous();
  bool refused = false;
  for (const Message& answer : c.answers) {
    if (answer.packet.bth.psn.is_after(answered)) answered = answer.packet.bth.psn;
    if (answer.packet.info->operation == Operation::kAcknowledge &&
        answer.packet.aeth().syndrome > wire::syndrome::kNakSequence) {
      refused = true;
    }
  }
  c.ends_unanswered = !refused && answered.is_before(asked);
}

void infer(Conversation& c) {
  if (c.service == wire::Service::kUd) {
    if (c.responder_qpn == kGsiQpn)
      c.unusable = "connection management (QP 1) is not the transport's";
    if (c.responder_qpn == kMulticastQpn) c.unusable = "multicast is not the transport's";
    return;
  }
  if (c.service != wire::Service::kRc && c.service != wire::Service::kUc) {
    c.unusable = "a service that is not served";
    return;
  }
  if (!c.requests.front().packet.info->starts_message()) {
    c.unusable = "it begins in the middle of a message";
    return;
  }
  infer_mtu(c);
  if (!c.unusable.empty()) return;
  const std::set<uint32_t> bad_keys = infer_from_naks(c);
  Known known = infer_regions(c, bad_keys);
  if (!c.unusable.empty()) return;
  infer_content(c, std::move(known));
  find_end(c);
}

}  // namespace

std::vector<Conversation> find_conversations(const Capture& capture) {
  std::vector<std::pair<Message, wire::Frame>> all;
  for (const CapturedFrame& captured : capture.frames) {
    const auto frame = wire::dissect(captured.bytes);
    if (!frame) continue;
    const auto packet = wire::parse(frame->transport);
    if (!packet) continue;
    all.push_back({{captured.number, captured.time, *packet, frame->tos, frame->ttl}, *frame});
  }
  std::vector<Conversation> found = split(all);
  for (Conversation& conversation : found) infer(conversation);
  return found;
}

}  // namespace verbena::golden
