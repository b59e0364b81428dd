// SPDX-License-Identifier: Apache-2.0
#include "cm_storm/process.h"

#include <utility>

namespace verbena::cm_storm {

using cm::CommId;
using cm::EventKind;

Process::Process(World& world, const wire::Gid& address, const cm::Config& config,
                 const Habits& habits, uint64_t seed)
    : world_(world),
      address_(address),
      habits_(habits),
      slot_(config.slot),
      random_(seed),
      manager_(config, *this, *this, random_) {}

void Process::listen() {
  for (const uint64_t service : {kConnections, kDatagrams}) {
    if (!manager_.listen({.service_id = service, .backlog = habits_.backlog})) {
      world_.complain("cannot listen");
    }
  }
}

void Process::later(Duration at_most, std::function<void()> what) {
  const auto delay = static_cast<Duration>(random_.below(static_cast<uint64_t>(at_most) + 1));
  world_.agenda.at(world_.now + delay, [this, what = std::move(what)] {
    if (!dead_) what();
  });
}

void Process::connect(const wire::Gid& server) {
  End end{.active = true, .peer = server, .our_qpn = world_.new_qpn(*this)};
  end.our_psn = wire::Psn(static_cast<uint32_t>(random_.next()));
  const auto id = manager_.connect({.source = address_,
                                    .destination = server,
                                    // Now and then one that nobody offers.
                                    .service_id = kConnections + (random_.below(16) == 0 ? 1 : 0),
                                    .addresses = cm::AddressHeader{1, address_, server},
                                    .qp = {.qpn = end.our_qpn, .psn = end.our_psn}},
                                   world_.now);
  if (!id) {
    if (id.error() != cm::Error::kTooMany) world_.complain("connect() refused");
    return;
  }
  ends_[id->value] = end;
  if (chance(habits_.change_mind_ppm)) {
    later(4 * kSecond, [this, id = *id] { change_mind(id); });
  }
}

void Process::ask_for_datagrams(const wire::Gid& server) {
  const auto id = manager_.sidr_request({.source = address_,
                                         .destination = server,
                                         .service_id = kDatagrams,
                                         .addresses = cm::AddressHeader{1, address_, server}},
                                        world_.now);
  if (id) questions_[id->value] = true;
}

void Process::deliver(const wire::Gid& from, cm::MadBytes mad) {
  if (!dead_) manager_.on_mad(address_, from, mad, world_.now);
}

void Process::send_mad(const wire::Gid& source, const wire::Gid& destination, cm::MadBytes mad) {
  world_.transmit(source, destination, mad);
}

const End* Process::find_end(Qpn our_qpn) const {
  for (const auto& [id, end] : ends_) {
    if (end.our_qpn == our_qpn) return &end;
  }
  return nullptr;
}

void Process::on_event(const cm::Event& event) {
  const CommId id = event.id;
  world_.note(*this, std::string(to_string(event.kind)) + " " + std::to_string(id.value));
  switch (event.kind) {
    case EventKind::kConnectRequest:
      if (ends_.contains(id.value)) world_.complain("an id is given out twice");
      ends_[id.value] = {.peer = event.destination, .peer_qpn = event.qp.qpn};
      ends_[id.value].peer_psn = event.qp.psn;
      later(habits_.think, [this, id] { answer_request(id); });
      return;
    case EventKind::kSidrRequest: later(habits_.think, [this, id] { answer_question(id); }); return;
    case EventKind::kSidrResponse:
      if (questions_.erase(id.value) != 1) world_.complain("an answer without a question");
      return;
    default: break;
  }
  if (questions_.erase(id.value) == 1) {
    if (event.kind != EventKind::kUnreachable) world_.complain("a question became a connection");
    return;
  }
  const auto found = ends_.find(id.value);
  if (found == ends_.end() || found->second.phase == Phase::kGone) {
    world_.complain("an event of an end that is gone: " + std::string(to_string(event.kind)));
    return;
  }
  End& end = found->second;
  if (event.kind == EventKind::kConnectResponse) {
    end.peer_qpn = event.qp.qpn;
    end.peer_psn = event.qp.psn;
    later(habits_.think, [this, id] { answer_reply(id); });
  } else if (event.kind == EventKind::kEstablished) {
    if (end.phase != Phase::kConnecting) world_.complain("established twice");
    end.phase = Phase::kLive;
    on_live(id);
  } else {
    on_terminal(event);
  }
}

void Process::on_terminal(const cm::Event& event) {
  End& end = ends_[event.id.value];
  switch (event.kind) {
    case EventKind::kRejected:
    case EventKind::kUnreachable:
      if (end.phase != Phase::kConnecting) world_.complain("failed when it was connected");
      end.phase = Phase::kGone;
      end.unanswered = !end.active && event.kind == EventKind::kUnreachable;
      return;
    case EventKind::kDisconnected:
    case EventKind::kDisconnectRequested:
      if (end.phase == Phase::kOver) world_.complain("ended twice");
      end.phase = Phase::kOver;
      return;
    case EventKind::kTimewaitExit:
      if (end.phase != Phase::kOver) world_.complain("timewait of what has not ended");
      end.phase = Phase::kGone;
      return;
    default: world_.complain("an event that does not belong here"); return;
  }
}

void Process::answer_request(CommId id) {
  End& end = ends_[id.value];
  if (end.phase != Phase::kConnecting) return;  // the peer has given up
  if (chance(habits_.reject_ppm)) {
    if (!manager_.reject(id, {}, world_.now)) world_.complain("reject() refused");
    end.phase = Phase::kGone;
    return;
  }
  end.our_qpn = world_.new_qpn(*this);
  end.our_psn = wire::Psn(static_cast<uint32_t>(random_.next()));
  const cm::AcceptParams params{.qp = {.qpn = end.our_qpn, .psn = end.our_psn}};
  if (!manager_.accept(id, params, world_.now)) world_.complain("accept() refused");
}

void Process::answer_reply(CommId id) {
  End& end = ends_[id.value];
  if (end.phase != Phase::kConnecting) return;
  if (chance(habits_.reject_ppm)) {
    if (!manager_.reject(id, {}, world_.now)) world_.complain("reject() of a reply refused");
    end.phase = Phase::kGone;
    return;
  }
  if (!manager_.establish(id, {}, world_.now)) world_.complain("establish() refused");
  end.phase = Phase::kLive;
  on_live(id);
}

void Process::answer_question(CommId id) {
  const cm::SidrReplyParams params{.qpn = Qpn(5), .qkey = 6};
  if (!manager_.sidr_reply(id, params, world_.now)) world_.complain("sidr_reply() refused");
}

void Process::on_live(CommId id) {
  world_.became_live(ends_[id.value]);
  if (chance(habits_.stay_ppm)) return;
  later(habits_.life, [this, id] { end(id); });
}

void Process::end(CommId id) {
  End& end = ends_[id.value];
  if (end.phase != Phase::kLive) return;
  if (chance(habits_.destroy_ppm)) {
    manager_.release(id, world_.now);
    end.phase = Phase::kGone;
  } else if (!manager_.disconnect(id, {}, world_.now)) {
    world_.complain("disconnect() refused");
  }
}

void Process::change_mind(CommId id) {
  End& end = ends_[id.value];
  if (end.phase == Phase::kGone) return;
  manager_.release(id, world_.now);
  end.phase = Phase::kGone;
}

void Process::lose(CommId id) {
  if (ends_[id.value].phase != Phase::kLive) return;
  if (!manager_.connection_lost(id, world_.now)) world_.complain("connection_lost() refused");
}

void Process::data_arrived(Qpn our_qpn) {
  for (const auto& [id, end] : ends_) {
    if (end.our_qpn != our_qpn || end.phase != Phase::kConnecting) continue;
    // It may be late data of an earlier life's connection with this number.
    if (manager_.state(CommId(id)) != cm::State::kRepSent) return;
    if (!manager_.data_arrived(CommId(id), world_.now)) world_.complain("data_arrived() refused");
    return;
  }
}

void Process::release_all() {
  for (auto& [id, end] : ends_) {
    if (end.phase == Phase::kGone) continue;
    manager_.release(CommId(id), world_.now);
    end.phase = Phase::kGone;
  }
}

}  // namespace verbena::cm_storm
