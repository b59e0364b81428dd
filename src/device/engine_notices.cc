// SPDX-License-Identifier: Apache-2.0
// What makes a program hang without a word: the engine notices it, and says it (notices.h).
#include "device/engine.h"
#include "device/route_mtu.h"

namespace verbena::device {
namespace {

// A program that reads its events does so by then.
constexpr Duration kReadsEventsWithin = kSecond;

// The largest path MTU whose packets have less payload than this.
[[nodiscard]] uint32_t mtu_below(uint32_t payload_bytes) {
  uint32_t mtu = transport::mtu_bytes(transport::Mtu::k2048);
  while (mtu > transport::mtu_bytes(transport::Mtu::k256) && mtu >= payload_bytes) mtu /= 2;
  return mtu;
}

}  // namespace

void Engine::completion_overflow(CompletionQueue& cq) {
  lock_.assert_held();
  router_.on_cq_overflow(cq);
  if (!notices_.wants(Notices::Kind::kCompletionsLost)) return;
  notices_.say(
      Notices::Kind::kCompletionsLost,
      "a completion queue of %u entries overflowed: completions are lost, and a program that "
      "waits for them hangs. Make the queue larger, or poll it more often",
      cq.entries());
  world_.wake_helper();
}

void Engine::qp_event(transport::Event event, Qpn qpn) {
  lock_.assert_held();
  router_.on_qp_event(event, qpn);
  const bool access = event == transport::Event::kQpAccessError;
  if (!access && event != transport::Event::kQpRequestError) return;
  if (silent_error_.look_at != kNever || !notices_.wants(Notices::Kind::kSilentError)) return;
  if (endpoint_->has_posted(qpn)) return;  // completions say so
  silent_error_ = {.qpn = qpn, .access = access, .look_at = clock() + kReadsEventsWithin};
  progress_.have_helper_by(silent_error_.look_at);
}

void Engine::large_packets_lost(const transport::LargePacketsLost& lost) {
  lock_.assert_held();
  if (!notices_.wants(Notices::Kind::kBlackHole)) return;
  const uint32_t mtu = mtu_below(lost.payload_bytes);
  notices_.say(Notices::Kind::kBlackHole,
               "packets with %u bytes of data %s %s do not arrive, while small ones do: some link "
               "on the way carries less, and nobody says so. Give all links of the way the same "
               "MTU, or the program that connects the option --mtu %u (VERBENA_MTU=%u)",
               lost.payload_bytes, lost.incoming ? "from" : "to", to_string(lost.peer).c_str(), mtu,
               mtu);
  world_.wake_helper();
}

// Queue pairs and connections keep the path MTU that they were made with.
void Engine::note_too_large() {
  if (!notices_.wants(Notices::Kind::kTooLarge)) return;
  const link::TransmitCounters& sent = link_->transmit_counters();
  const uint32_t carried = route_mtu(sent.too_large_to);
  const uint32_t mtu = mtu_bytes(path_mtu_for(carried));
  notices_.say(
      Notices::Kind::kTooLarge,
      "packets of %u bytes to %s are not sent: the way there now carries IP packets of %u bytes. "
      "Give the interfaces and links of the way their MTU back, or connect again with --mtu %u "
      "(VERBENA_MTU=%u)",
      sent.too_large_bytes, to_string(sent.too_large_to).c_str(), carried, mtu, mtu);
}

Time Engine::note_troubles(Time now) {
  lock_.assert_held();
  if (link_->transmit_counters().too_large != 0) note_too_large();
  if (const uint32_t dropped = link_->receive_counters().overflow;
      dropped != 0 && notices_.wants(Notices::Kind::kPacketsDropped)) {
    say_dropped(dropped);
  }
  if (const uint64_t lost = link_->transmit_counters().without_ring;
      lost != 0 && notices_.wants(Notices::Kind::kWithoutRing)) {
    notices_.say(Notices::Kind::kWithoutRing,
                 "%llu packets were not sent: no shared memory leads to whom they are for (another "
                 "host or user, or a process with --link udp), and this process may use nothing "
                 "else. Run it without --link shared (VERBENA_LINK)",
                 static_cast<unsigned long long>(lost));
  }
  if (const uint64_t dropped = link_->intake_counters().bad_tag;
      dropped != 0 && notices_.wants(Notices::Kind::kWrongTag)) {
    notices_.say(Notices::Kind::kWrongTag,
                 "packets from another host were dropped (%llu so far), because they carry no tag "
                 "that was made with this process's secret. Both ends need the same --secret "
                 "(VERBENA_SECRET)",
                 static_cast<unsigned long long>(dropped));
  }
  if (const link::IntakeCounters& taken = link_->intake_counters();
      taken.tagged != 0 && notices_.wants(Notices::Kind::kTagWithoutSecret)) {
    notices_.say(
        Notices::Kind::kTagWithoutSecret,
        "packets from %s were dropped (%llu so far), because they carry a tag that was made "
        "with a secret, and this process has none. Both ends need the same --secret "
        "(VERBENA_SECRET)",
        to_string(taken.tagged_from).c_str(), static_cast<unsigned long long>(taken.tagged));
  }
  if (silent_error_.look_at > now) return silent_error_.look_at;
  if (router_.has_unread_event(silent_error_.qpn)) {
    notices_.say(Notices::Kind::kSilentError,
                 "queue pair 0x%06x went to the error state because a request of its peer was not "
                 "%s. The program does not know: nothing was posted that would complete with an "
                 "error, and it does not read its asynchronous events",
                 silent_error_.qpn.value,
                 silent_error_.access ? "allowed (IBV_EVENT_QP_ACCESS_ERR)"
                                      : "valid (IBV_EVENT_QP_REQ_ERR)");
  }
  silent_error_ = {};
  return silent_error_.look_at;
}

void Engine::say_dropped(uint32_t packets) {
  const uint32_t has = link_->receive_buffer();
  const uint32_t wanted = link_->receive_buffer_wanted();
  if (has < wanted) {
    return notices_.say(
        Notices::Kind::kPacketsDropped,
        "the receive buffer (%u bytes) overflowed, and the kernel dropped packets (%u so far): "
        "connections send them again, datagrams are lost. The system allows no larger buffer: "
        "set net.core.rmem_max to %u, and start the program again",
        has, packets, wanted);
  }
  notices_.say(
      Notices::Kind::kPacketsDropped,
      "the receive buffer (%u bytes) overflowed, and the kernel dropped packets (%u so far): "
      "connections send them again, datagrams are lost. This process does not get enough of a "
      "processor to read them in time; a larger --receive-buffer (VERBENA_RECEIVE_BUFFER) has room "
      "for longer",
      has, packets);
}

bool Engine::has_unsaid_losses() const {
  return (link_->transmit_counters().too_large != 0 && notices_.wants(Notices::Kind::kTooLarge)) ||
         (link_->transmit_counters().without_ring != 0 &&
          notices_.wants(Notices::Kind::kWithoutRing)) ||
         (link_->intake_counters().bad_tag != 0 && notices_.wants(Notices::Kind::kWrongTag)) ||
         (link_->intake_counters().tagged != 0 && notices_.wants(Notices::Kind::kTagWithoutSecret));
}

void Engine::tell_refused_mtu(transport::Mtu wanted, transport::Mtu largest) {
  {
    const Quiet held(*this);
    notices_.say(Notices::Kind::kMtuRefused,
                 "a path MTU of %u was refused to a queue pair, because the interface carries %u. "
                 "Give the interfaces of both hosts the same MTU, or the program that connects "
                 "the option --mtu %u (VERBENA_MTU=%u)",
                 mtu_bytes(wanted), mtu_bytes(largest), mtu_bytes(largest), mtu_bytes(largest));
  }
  tell_troubles();  // at once: a program to which this was refused often ends
}

void Engine::tell_troubles() {
  if (!notices_.pending()) return;
  Notices::Lines lines;
  {
    const EngineHeldFirst held(lock_);
    lines = notices_.take();
  }
  Notices::write(lines);
}

}  // namespace verbena::device
