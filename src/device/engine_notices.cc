// SPDX-License-Identifier: Apache-2.0
// What makes a program hang without a word: the engine notices it, and says it (notices.h).
#include "device/engine.h"

namespace verbena::device {
namespace {

// A program that reads its events does so by then.
constexpr Duration kReadsEventsWithin = kSecond;

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

Time Engine::note_troubles(Time now) {
  lock_.assert_held();
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
  const uint32_t has = link_->host().receive_buffer();
  const uint32_t wanted = link_->host().receive_buffer_wanted();
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
  return (link_->transmit_counters().without_ring != 0 &&
          notices_.wants(Notices::Kind::kWithoutRing)) ||
         (link_->intake_counters().bad_tag != 0 && notices_.wants(Notices::Kind::kWrongTag));
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
