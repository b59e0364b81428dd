// SPDX-License-Identifier: Apache-2.0
// Our end of one conversation: an endpoint made so that it must answer as the capture's responder
// did.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/random.h"
#include "golden/conversation.h"
#include "golden/notes.h"
#include "transport/testing.h"

namespace verbena::golden {

inline constexpr size_t kReceiveBytes = 1 << 20;

struct OurAnswer {
  size_t because = 0;  // frame of the request that drew it
  transport::testing::Packet packet;
};

class Responder {
 public:
  explicit Responder(const Conversation& conversation)
      : conversation_(conversation),
        memory_(kReceiveBytes),
        endpoint_(domain_, link_, events_, random_) {
    pd_ = domain_.allocate_pd().value();
    receive_keys_ = domain_
                        .register_region(pd_, {.base = memory_.data(),
                                               .length = memory_.size(),
                                               .iova = 0,
                                               .access = memory::kLocalWrite})
                        .value();
    for (const auto& [rkey, region] : conversation.regions) {
      std::vector<uint8_t>& content = contents_[rkey];
      content = region.content;
      const uint32_t access =
          memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
      keys_[rkey] = domain_
                        .register_region(pd_, {.base = content.data(),
                                               .length = content.size(),
                                               .iova = region.start,
                                               .access = access})
                        .value()
                        .rkey;
    }
  }

  void make_qp(uint32_t qkey) {
    const transport::QpType type =
        conversation_.service == wire::Service::kRc   ? transport::QpType::kRc
        : conversation_.service == wire::Service::kUc ? transport::QpType::kUc
                                                      : transport::QpType::kUd;
    const transport::QpInit init{.type = type,
                                 .pd = pd_,
                                 .send_cq = &sends_,
                                 .recv_cq = &receives_,
                                 .send = {.max_entries = 1, .max_sge = 1},
                                 .max_recv_entries = 1024,
                                 .max_recv_sge = 1};
    VERBENA_CHECK(endpoint_.create_qp(init, conversation_.responder_qpn).has_value());
    transport::QpAttr attr{.access = conversation_.access, .port = 1, .qkey = qkey};
    attr.path = {.source = conversation_.responder, .destination = conversation_.requester};
    attr.mtu = static_cast<transport::Mtu>(std::countr_zero(conversation_.mtu) - 7);
    attr.rq_psn = conversation_.requests.front().packet.bth.psn;
    attr.max_dest_rd_atomic = 128;
    attr.min_rnr_timer = conversation_.rnr_timer;
    attr.dest_qpn = conversation_.requester_qpn;
    using namespace transport;  // NOLINT(google-build-using-namespace): the masks
    const uint32_t connected = kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn;
    const uint32_t to_init =
        kAttrPkeyIndex | kAttrPort | (type == transport::QpType::kUd ? kAttrQkey : kAttrAccess);
    const uint32_t to_rtr = type == transport::QpType::kRc
                                ? connected | kAttrMaxDestRdAtomic | kAttrMinRnrTimer
                            : type == transport::QpType::kUc ? connected
                                                             : 0;
    const uint32_t to_rts =
        kAttrSqPsn | (type == transport::QpType::kRc
                          ? kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic
                          : 0);
    step(attr, transport::QpState::kInit, to_init);
    step(attr, transport::QpState::kRtr, to_rtr);
    step(attr, transport::QpState::kRts, to_rts);
  }

  // A receive for each request that needs one and was not told that there is none.
  void post_receive_for(const wire::PacketView& request) {
    const bool consumes =
        request.info->operation == wire::Operation::kSend
            ? request.info->starts_message()
            : request.info->operation == wire::Operation::kWrite && request.info->has(wire::kImmDt);
    const uint32_t psn = request.bth.psn.value();
    if (!consumes || posted_.contains(psn)) return;
    if (told_not_ready_[psn]++ < refusals(psn)) return;
    posted_.insert(psn);
    const memory::Sge sge{0, static_cast<uint32_t>(memory_.size()), receive_keys_.lkey};
    VERBENA_CHECK(endpoint_.post_recv(conversation_.responder_qpn, {psn, {&sge, 1}}).has_value());
  }

  void give(const Message& request, Time now) {
    if (endpoint_.qp_count() > 0) post_receive_for(request.packet);
    if (const auto changes = conversation_.changes.find(request.frame);
        changes != conversation_.changes.end()) {
      for (const Change& change : changes->second) {
        const size_t at = change.address - conversation_.regions.at(change.rkey).start;
        contents_[change.rkey][at] = change.value;
      }
    }
    const transport::testing::Packet packet = with_our_key(request.packet);
    endpoint_.receive({.view = packet.view(),
                       .source = conversation_.requester,
                       .destination = conversation_.responder,
                       .traffic_class = request.traffic_class,
                       .hop_limit = request.hop_limit},
                      now);
    endpoint_.finish_batch(now);
    while (endpoint_.next_deadline() == 0) endpoint_.advance(now);
    for (auto& sent : link_.sent) answers.push_back({request.frame, std::move(sent)});
    link_.sent.clear();
  }

  [[nodiscard]] transport::QpState state() const {
    return endpoint_.query_qp(conversation_.responder_qpn).value().state;
  }
  [[nodiscard]] std::vector<SeenCompletion> completions() const {
    std::vector<SeenCompletion> seen;
    seen.reserve(receives_.all.size());
    for (const transport::Completion& c : receives_.all) {
      seen.push_back({static_cast<uint32_t>(c.status), static_cast<uint32_t>(c.opcode), c.byte_len,
                      (c.flags & transport::kWcWithImm) != 0 ? c.imm_or_rkey : 0});
    }
    return seen;
  }

  // What the peer may reach now; nothing unless that is one region.
  [[nodiscard]] std::span<const uint8_t> region() const {
    if (contents_.size() != 1) return {};
    return contents_.begin()->second;
  }

  std::vector<OurAnswer> answers;

 private:
  void step(transport::QpAttr attr, transport::QpState to, uint32_t mask) {
    attr.state = to;
    VERBENA_CHECK(
        endpoint_.modify_qp(conversation_.responder_qpn, attr, transport::kAttrState | mask, 0)
            .has_value());
  }
  [[nodiscard]] size_t refusals(uint32_t psn) const {
    const auto found = conversation_.rnr_naks.find(psn);
    return found == conversation_.rnr_naks.end() ? 0 : found->second;
  }
  // Our keys are random: the capture's is exchanged for the one that leads to the same memory.
  [[nodiscard]] transport::testing::Packet with_our_key(const wire::PacketView& request) const {
    wire::Headers headers = wire::decode(request);
    const auto ours = [this](RKey theirs) {
      const auto found = keys_.find(theirs.value);
      return found != keys_.end() ? found->second : RKey(0);
    };
    if (request.info->has(wire::kReth)) headers.reth.rkey = ours(headers.reth.rkey);
    if (request.info->has(wire::kAtomicEth))
      headers.atomic_eth.rkey = ours(headers.atomic_eth.rkey);
    return {headers, request.payload};
  }

  const Conversation& conversation_;
  SeededRandom random_{1};
  memory::Domain domain_{random_, {}};
  transport::testing::RecordingLink link_;
  transport::testing::RecordingEvents events_;
  transport::testing::RecordingQueue sends_;
  transport::testing::RecordingQueue receives_;
  std::vector<uint8_t> memory_;
  std::map<uint32_t, std::vector<uint8_t>> contents_;
  std::map<uint32_t, RKey> keys_;
  std::map<uint32_t, size_t> told_not_ready_;
  std::set<uint32_t> posted_;
  PdId pd_;
  memory::RegionKeys receive_keys_;
  transport::Endpoint endpoint_;
};

}  // namespace verbena::golden
