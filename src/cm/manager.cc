// SPDX-License-Identifier: Apache-2.0
// What all exchanges share: the table, states, sending again, timers, telling the program.
#include "cm/manager.h"

#include <algorithm>

#include "cm/manager_send.h"

namespace verbena::cm {

Manager::Manager(const Config& config, MadSink& mads, EventSink& events, RandomSource& random)
    : config_(config),
      mads_(mads),
      events_(events),
      random_(random),
      table_(config.slot, config.max_connections, random),
      half_open_(table_, random.next()) {}

Result<ListenerId, Error> Manager::listen(const ListenParams& params) {
  return listeners_.add(params);
}

Result<void, Error> Manager::unlisten(ListenerId id) {
  if (!listeners_.remove(id)) return fail(Error::kGone);
  half_open_.forget(id);
  return {};
}

std::optional<State> Manager::state(CommId id) const {
  const Connection* const c = held(id);
  if (c == nullptr) return {};
  return c->state;
}

Result<void, Error> Manager::set_context(CommId id, uint64_t context) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  c->context = context;
  return {};
}

Connection* Manager::held(CommId id) const {
  Connection* const c = table_.find(id.value);
  return c == nullptr || c->released ? nullptr : c;
}

void Manager::count(const Connection& c, bool added) {
  const auto adjust = [added](auto& counter) { added ? ++counter : --counter; };
  if (c.is_half_open()) {
    added ? half_open_.add(c.destination) : half_open_.remove(c.destination);
  }
  if (c.lingers()) adjust(lingering_);
  if (!c.waits_for_program()) return;
  if (Listener* const listener = listeners_.find(c.listener)) adjust(listener->waiting);
}

void Manager::set_state(Connection& c, State state) {
  count(c, false);
  c.state = state;
  count(c, true);
}

void Manager::erase(Connection& c) {
  count(c, false);
  timers_.remove(c);
  table_.erase(c);
}

void Manager::emit(const Connection& c, Event event) {
  if (c.released) return;
  event.id = c.id;
  event.context = c.context;
  event.source = c.source;
  event.destination = c.destination;
  event.peer_id = c.remote_id;
  events_.on_event(event);
}

void Manager::finish(Connection& c, const Event& event) {
  const auto told = c;  // the entry must be gone before the program can ask for it
  erase(c);
  emit(told, event);
}

void Manager::put(const wire::Gid& source, const wire::Gid& destination, const MadBuffer& mad) {
  counters_.add(Counter::kMadsSent);
  mads_.send_mad(source, destination, mad);
}

void Manager::send_last(Connection& c) { put(c.source, c.destination, c.last); }

void Manager::wait_for_answer(Connection& c, Duration patience, Time now) {
  // A peer that claims to answer within microseconds would otherwise be sent all tries at once.
  c.response_time = std::max(c.response_time, config_.first_resend);
  c.resend_after = config_.first_resend;
  c.mra_honoured = false;
  c.give_up = now + std::min(c.response_time * (c.max_cm_retries + 1), patience);
  timers_.set(c, std::min(now + c.resend_after, c.give_up));
}

// Of so many in a row not all are lost.
void Manager::expect_again(Connection& c, Duration pause, Time now) {
  constexpr int kMissed = 4;
  const Duration within = std::max(c.says_again, config_.first_resend) + pause;
  timers_.set(c, now + kMissed * std::min(within, config_.max_patience));
}

void Manager::enter_timewait(Connection& c, Time now) {
  set_state(c, State::kTimewait);
  timers_.set(c, now + std::min(c.timewait, config_.max_timewait));
}

void Manager::end(Connection& c, const Event& event, Time now) {
  enter_timewait(c, now);
  if (!c.told_end) emit(c, event);
}

void Manager::linger(Connection& c, State state, Time now) {
  c.released = true;
  set_state(c, state);
  table_.forget_qpn(c);  // the peer may well try again with it
  if (lingering_ > config_.max_half_open) {
    erase(c);
  } else {
    timers_.set(c, now + std::min(c.linger, config_.max_timewait));
  }
}

void Manager::on_timer(Time now) {
  while (Connection* const c = timers_.pop_due(now)) on_timer_of(*c, now);
}

void Manager::on_timer_of(Connection& c, Time now) {
  switch (c.state) {
    case State::kReqSent:
    case State::kRepSent:
    case State::kDreqSent:
    case State::kSidrReqSent:
      if (now >= c.give_up) {
        give_up(c, now);
        return;
      }
      if (c.resends >= config_.silent_resends && half_open_.is_silent(c)) {
        // It may answer something else meanwhile; then this goes again.
        counters_.add(Counter::kKeptSilent);
      } else {
        c.resends = static_cast<uint8_t>(std::min(c.resends + 1, 255));
        counters_.add(Counter::kMadsSentAgain);
        send_last(c);
      }
      c.resend_after = std::min(c.resend_after * 2, c.response_time);
      timers_.set(c, std::min(now + c.resend_after, c.give_up));
      return;
    case State::kTimewait:    finish(c, {.kind = EventKind::kTimewaitExit}); return;
    case State::kRefused:
    case State::kSidrReplied: erase(c); return;
    case State::kReqReceived:
    case State::kRepReceived:
      counters_.add(Counter::kGaveUp);
      send_timeout_rej(c);
      finish(c, {.kind = EventKind::kRejected, .reason = RejectReason::kTimeout});
      return;
    case State::kEstablished:
    case State::kSidrReqReceived: return;  // a timer of the state before
  }
}

void Manager::give_up(Connection& c, Time now) {
  counters_.add(Counter::kGaveUp);
  if (c.state == State::kDreqSent) {
    end(c, {.kind = EventKind::kDisconnected}, now);
    return;
  }
  if (c.state != State::kSidrReqSent && !half_open_.is_silent(c)) send_timeout_rej(c);
  finish(c, {.kind = EventKind::kUnreachable});
}

// The program learns what it would have learnt in the end; the address, which is probably not the
// peer's, nothing.
void Manager::evict(Connection& c) {
  counters_.add(Counter::kEvicted);
  if (c.state == State::kRepSent) {
    finish(c, {.kind = EventKind::kUnreachable});
  } else {
    finish(c, {.kind = EventKind::kRejected, .reason = RejectReason::kTimeout});
  }
}

void Manager::on_mad(const wire::Gid& our, const wire::Gid& peer, std::span<const uint8_t> bytes,
                     Time now) {
  counters_.add(Counter::kMadsReceived);
  const auto mad = decode(bytes);
  if (!mad) {
    counters_.add(Counter::kMalformed);
    return;
  }
  std::visit([&](const auto& message) { on({our, peer, mad->header, now}, message); },
             mad->message);
}

}  // namespace verbena::cm
