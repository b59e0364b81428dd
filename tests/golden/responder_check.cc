// SPDX-License-Identifier: Apache-2.0
#include "golden/responder_check.h"

#include <algorithm>
#include <cstdio>

#include "golden/conversation.h"
#include "golden/notes.h"
#include "golden/responder.h"
#include "wire/describe.h"

namespace verbena::golden {
namespace {

using wire::Operation;
using wire::Psn;

struct Arrival {
  Time time = 0;
  const Message* request = nullptr;
};

// What reached the responder: the capture was taken before the relay's faults.
std::vector<Arrival> arrivals_of(const Conversation& conversation, const Notes& notes) {
  std::vector<Arrival> arrivals;
  std::map<uint8_t, size_t> seen;
  for (const Message& request : conversation.requests) {
    const uint8_t opcode = request.packet.bth.opcode;
    const size_t nth = seen[opcode]++;
    size_t copies = 1;
    Time time = request.time;
    for (const Fault& fault : notes.faults) {
      if (!fault.to_responder || fault.opcode != opcode || fault.nth != nth) continue;
      switch (fault.kind) {
        case Fault::Kind::kDrop:
        case Fault::Kind::kCorrupt:   copies = 0; break;
        case Fault::Kind::kDuplicate: copies = 2; break;
        case Fault::Kind::kDelay:     time += fault.delay; break;
      }
    }
    for (size_t i = 0; i < copies; ++i) arrivals.push_back({time, &request});
  }
  std::ranges::sort(arrivals, {},
                    [](const Arrival& a) { return std::pair(a.time, a.request->frame); });
  return arrivals;
}

bool is_ack(const wire::PacketView& answer) {
  return answer.info->operation == Operation::kAcknowledge &&
         (answer.aeth().syndrome & wire::syndrome::kKindMask) == wire::syndrome::kAck;
}
bool is_sequence_nak(const wire::PacketView& answer) {
  return answer.info->operation == Operation::kAcknowledge &&
         answer.aeth().syndrome == wire::syndrome::kNakSequence;
}

// Compares one conversation's answers with ours.
class Comparison {
 public:
  Comparison(const Capture& capture, const Conversation& conversation, const Notes& notes,
             Report& report)
      : capture_(capture), conversation_(conversation), notes_(notes), report_(report) {}

  void run(const std::vector<OurAnswer>& ours) {
    find_first_msn(ours);
    compare_in_order(keep(theirs()), keep(survivors(ours)));
    compare_acks(ours);
  }

 private:
  struct Entry {
    size_t frame = 0;
    const wire::PacketView* packet = nullptr;
  };

  void fail(size_t frame, const std::string& what) { report_.fail(capture_.name, frame, what); }

  // A capture may begin in mid-stream, where the MSN is not what we count from 0.
  void find_first_msn(const std::vector<OurAnswer>& ours) {
    size_t messages = 0;
    if (conversation_.answers.empty() || ours.empty()) return;
    const Message& first = conversation_.answers.front();
    if (!first.packet.info->has(wire::kAeth)) return;
    for (const Message& request : conversation_.requests) {
      if (request.frame < first.frame && request.packet.info->ends_message()) ++messages;
    }
    const uint32_t msn = first.packet.aeth().msn;
    const wire::PacketView& our_first = ours.front().packet.view();
    if (msn > messages && our_first.bth.psn == first.packet.bth.psn &&
        our_first.info->has(wire::kAeth)) {
      msn_offset_ = msn - our_first.aeth().msn;
    }
  }

  [[nodiscard]] std::vector<Entry> theirs() const {
    std::vector<Entry> all;
    all.reserve(conversation_.answers.size());
    for (const Message& answer : conversation_.answers)
      all.push_back({answer.frame, &answer.packet});
    return all;
  }
  // Ours without what the relay would have dropped.
  [[nodiscard]] std::vector<Entry> survivors(const std::vector<OurAnswer>& ours) const {
    std::vector<Entry> all;
    std::map<uint8_t, size_t> seen;
    for (const OurAnswer& answer : ours) {
      const wire::PacketView& packet = answer.packet.view();
      const size_t nth = seen[packet.bth.opcode]++;
      const bool dropped = std::ranges::any_of(notes_.faults, [&](const Fault& fault) {
        return !fault.to_responder && fault.kind == Fault::Kind::kDrop &&
               fault.opcode == packet.bth.opcode && fault.nth == nth;
      });
      if (!dropped) all.push_back({answer.because, &packet});
    }
    return all;
  }
  // ACKs may be coalesced and are compared apart. Of sequence NAKs only the first is compared: we
  // keep what comes early, so that later gaps need not be ours; and none is where a receive was
  // missing.
  [[nodiscard]] std::vector<Entry> keep(const std::vector<Entry>& all) const {
    std::vector<Entry> kept;
    bool said = false;
    for (const Entry& entry : all) {
      if (is_ack(*entry.packet)) continue;
      if (is_sequence_nak(*entry.packet)) {
        if (said || conversation_.rnr_naks.contains(entry.packet->bth.psn.value())) continue;
        said = true;
      }
      kept.push_back(entry);
    }
    return kept;
  }

  void compare_in_order(const std::vector<Entry>& theirs, const std::vector<Entry>& ours) {
    size_t next = 0;
    size_t missed = 0;
    for (const Entry& their : theirs) {
      while (next < ours.size() && capture_missed(*ours[next].packet)) {
        ++next;
        ++missed;
      }
      if (next == ours.size()) {
        fail(their.frame, "we give no such answer: " + describe(*their.packet));
        return;
      }
      ++report_.answers;
      const Entry& our = ours[next++];
      const std::string difference = differs(*their.packet, *our.packet);
      if (!difference.empty()) {
        fail(their.frame, difference + ": " + describe(*their.packet) + "; we answer frame " +
                              std::to_string(our.frame) + " with " + describe(*our.packet));
        return;
      }
    }
    if (missed != 0) {
      std::printf("%s: the capture misses %zu packets of READ responses; not compared\n",
                  capture_.name.c_str(), missed);
    }
    if (next < ours.size() && !conversation_.ends_unanswered) {
      fail(ours[next].frame,
           "we answer what the capture does not: " + describe(*ours[next].packet));
    }
  }

  // Every packet of a READ is answered; one whose PSN is nowhere in the capture, though later ones
  // are, was not seen by whoever captured.
  [[nodiscard]] bool capture_missed(const wire::PacketView& ours) const {
    if (ours.info->operation != Operation::kReadResponse) return false;
    bool later = false;
    for (const Message& answer : conversation_.answers) {
      if (answer.packet.bth.psn == ours.bth.psn) return false;
      later = later || answer.packet.bth.psn.is_after(ours.bth.psn);
    }
    return later;
  }

  [[nodiscard]] std::string differs(const wire::PacketView& theirs,
                                    const wire::PacketView& ours) const {
    if (theirs.bth.psn != ours.bth.psn) return "PSN differs";
    if (theirs.bth.dest_qp != ours.bth.dest_qp) return "queue pair differs";
    // How the packets of a repeated READ are numbered First to Last is the responder's choice.
    const bool replay = theirs.info->operation == Operation::kReadResponse &&
                        ours.info->operation == Operation::kReadResponse &&
                        conversation_.repeated.contains(theirs.bth.psn.value());
    if (theirs.bth.opcode != ours.bth.opcode && !replay) return "opcode differs";
    if (theirs.info->has(wire::kAeth) && ours.info->has(wire::kAeth)) {
      const uint8_t a = theirs.aeth().syndrome;
      const uint8_t b = ours.aeth().syndrome;
      const bool acks =
          (a & wire::syndrome::kKindMask) == 0 && (b & wire::syndrome::kKindMask) == 0;
      if (a != b && !acks) return "syndrome differs";
      if (theirs.aeth().msn != ((ours.aeth().msn + msn_offset_) & 0xffffff)) return "MSN differs";
    }
    if (theirs.info->has(wire::kAtomicAckEth) &&
        theirs.atomic_ack_eth().original != ours.atomic_ack_eth().original) {
      return "original value differs";
    }
    if (!std::ranges::equal(theirs.payload, ours.payload)) return "data differs";
    return {};
  }

  // Each ACK of theirs: we, too, acknowledge as much, and with the same MSN. (Not "by then":
  // captures show ACKs before the requests they answer, when the two directions are captured
  // apart.)
  void compare_acks(const std::vector<OurAnswer>& ours) {
    Psn highest = conversation_.requests.front().packet.bth.psn.previous();
    const Psn first = highest;
    for (const Message& answer : conversation_.answers) {
      if (!is_ack(answer.packet)) continue;
      ++report_.answers;
      const Psn psn = answer.packet.bth.psn;
      if (psn.is_after(highest)) highest = psn;
      bool covered = false;
      for (const OurAnswer& our : ours) {
        const wire::PacketView& packet = our.packet.view();
        if (!is_ack(packet) || packet.bth.psn.is_before(psn)) continue;
        covered = true;
        if (packet.bth.psn == psn &&
            ((packet.aeth().msn + msn_offset_) & 0xffffff) != answer.packet.aeth().msn) {
          fail(answer.frame,
               "MSN differs: " + describe(answer.packet) + "; we say " + describe(packet));
          return;
        }
      }
      // Before anything was accepted rxe acknowledges 0xffffff; so do we, if asked.
      if (!covered && psn != first) {
        fail(answer.frame, "we have not acknowledged this much: " + describe(answer.packet));
        return;
      }
    }
    for (const OurAnswer& our : ours) {
      const wire::PacketView& packet = our.packet.view();
      if (!is_ack(packet) || !packet.bth.psn.is_after(highest)) continue;
      if (conversation_.ends_unanswered || !notes_.faults.empty()) continue;
      // A later response acknowledges it in the capture.
      const bool answered = std::ranges::any_of(conversation_.answers, [&](const Message& answer) {
        return answer.packet.bth.psn.is_after(packet.bth.psn);
      });
      if (!answered) fail(our.because, "we acknowledge more than the capture: " + describe(packet));
    }
  }

  const Capture& capture_;
  const Conversation& conversation_;
  const Notes& notes_;
  Report& report_;
  uint32_t msn_offset_ = 0;
};

void check_completions(const Capture& capture, const Notes& notes, const Responder& responder,
                       Report& report) {
  if (notes.responder_completions && responder.completions() != *notes.responder_completions) {
    report.fail(capture.name, 0,
                "its program saw " + std::to_string(notes.responder_completions->size()) +
                    " receive completions; ours sees " +
                    std::to_string(responder.completions().size()) + ", or others");
  }
}

void check_connected(const Capture& capture, const Conversation& conversation, const Notes& notes,
                     bool alone, Report& report) {
  Responder responder(conversation);
  // Never answered, and nothing on the way explains it: there was no such queue pair.
  const bool exists =
      conversation.service == wire::Service::kUc || !conversation.answers.empty() ||
      std::ranges::any_of(notes.faults, [](const Fault& fault) { return !fault.to_responder; });
  if (exists) responder.make_qp(0);
  for (const Arrival& arrival : arrivals_of(conversation, notes))
    responder.give(*arrival.request, arrival.time);
  Comparison(capture, conversation, notes, report).run(responder.answers);
  if (!exists || !alone) return;
  check_completions(capture, notes, responder, report);
  if (notes.responder_state && static_cast<uint32_t>(responder.state()) != *notes.responder_state) {
    report.fail(capture.name, 0,
                std::string("the queue pair ends in ") + to_string(responder.state()) +
                    ", the capture's in state " + std::to_string(*notes.responder_state));
  }
  // The agents' requests begin at the start of the other's buffer, of which the notes have the
  // first bytes; so do their receives, whose place in it the wire does not tell.
  if (!responder.completions().empty()) return;
  const auto region = responder.region();
  const size_t known = std::min(region.size(), notes.responder_memory.size());
  if (!std::ranges::equal(region.first(known), std::span(notes.responder_memory).first(known))) {
    report.fail(capture.name, 0, "memory is not what it was at the end of the capture");
  }
}

// Datagrams draw no answer: what counts is which of them arrive.
void check_datagrams(const Capture& capture, const Conversation& conversation, const Notes& notes,
                     Report& report) {
  std::set<uint32_t> qkeys;
  for (const Message& request : conversation.requests) qkeys.insert(request.packet.deth().qkey);
  std::string why = "the program saw other datagrams, whichever Q_Key it had";
  for (const uint32_t qkey : qkeys) {
    Responder responder(conversation);
    responder.make_qp(qkey);
    size_t good = 0;
    for (const Message& request : conversation.requests) {
      responder.give(request, request.time);
      good += request.packet.deth().qkey == qkey ? 1 : 0;
    }
    if (!responder.answers.empty()) {
      why = "a datagram was answered";
      break;
    }
    const bool right = notes.responder_completions
                           ? responder.completions() == *notes.responder_completions
                           : responder.completions().size() == good;
    if (right) return;
  }
  report.fail(capture.name, 0, why);
}

}  // namespace

void check_responder(const Capture& capture, Report& report) {
  const Notes notes = read_notes(std::filesystem::path(capture.path).replace_extension(".txt"));
  const std::vector<Conversation> conversations = find_conversations(capture);
  const auto usable = std::ranges::count_if(
      conversations, [](const Conversation& c) { return c.unusable.empty(); });
  for (const Conversation& conversation : conversations) {
    if (!conversation.unusable.empty()) {
      std::printf("%s, to QP 0x%06x: decode only: %s\n", capture.name.c_str(),
                  conversation.responder_qpn.value, conversation.unusable.c_str());
      continue;
    }
    ++report.conversations;
    if (conversation.service == wire::Service::kUd) {
      check_datagrams(capture, conversation, notes, report);
    } else {
      check_connected(capture, conversation, notes, usable == 1, report);
    }
  }
}

}  // namespace verbena::golden
