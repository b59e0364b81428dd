// SPDX-License-Identifier: Apache-2.0
// The tests of this folder: one endpoint, whose peer is the test. A test says what arrives
// ("Receive X") and what must come of it ("Expect Y"): said() is what the endpoint sent, in words,
// with PSNs counted from the queue pair's first in each direction; sends() and recvs() are the
// completions, happened() the events.
#pragma once

#include <array>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "transport/testing.h"

namespace verbena::transport {

inline std::ostream& operator<<(std::ostream& out, Error error) { return out << to_string(error); }
inline std::ostream& operator<<(std::ostream& out, QpState state) {
  return out << to_string(state);
}
inline std::ostream& operator<<(std::ostream& out, WcStatus status) {
  return out << to_string(status);
}

namespace testing {

// Counters that some test has looked at and found raised; counters_test.cc wants all of them in the
// end.
inline std::array<bool, kCounters>& named_counters() {
  static std::array<bool, kCounters> named{};
  return named;
}

template <typename T>
::testing::AssertionResult refused(const Result<T, Error>& result, Error why) {
  if (result.has_value()) return ::testing::AssertionFailure() << "was accepted";
  if (result.error() != why)
    return ::testing::AssertionFailure() << "refused: " << to_string(result.error());
  return ::testing::AssertionSuccess();
}
template <typename T>
::testing::AssertionResult accepted(const Result<T, Error>& result) {
  if (result.has_value()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "refused: " << to_string(result.error());
}

using wire::Op;
using wire::Psn;
using Bytes = std::vector<uint8_t>;
namespace syndrome = wire::syndrome;

class EndpointTest : public ::testing::Test {
 protected:
  static constexpr Qpn kQpn{0x11};
  static constexpr Qpn kPeerQpn{0x22};
  static constexpr uint32_t kSqPsn = 0x1000;  // our requests begin here
  static constexpr uint32_t kRqPsn = 0x2000;  // and the peer's here
  static constexpr uint64_t kIova = 0x7000'0000;
  static constexpr uint32_t kAll = memory::kLocalWrite | memory::kRemoteWrite |
                                   memory::kRemoteRead | memory::kRemoteAtomic | memory::kMwBind;
  static constexpr size_t kArenaBytes = 512 * 1024;

  EndpointTest() : arena_(kArenaBytes) {
    pd_ = domain_.allocate_pd().value();
    const auto bytes = pattern(kArenaBytes, 9);
    std::ranges::copy(bytes, arena_.begin());
    keys_ =
        domain_
            .register_region(
                pd_, {.base = arena_.data(), .length = kArenaBytes, .iova = kIova, .access = kAll})
            .value();
    make();
  }

  // A window that is no matter to most tests.
  static Tuning wide() {
    Tuning tuning;
    tuning.flight.initial_bytes = 256 * 1024;
    return tuning;
  }
  // A new endpoint; call before any queue pair is made.
  void make(Tuning tuning = wide(), EndpointLimits limits = {}) {
    endpoint_.emplace(domain_, link_, events_, random_, limits, tuning);
  }

  // --- making queue pairs
  static QpAttr defaults() {
    return {.access = kAll,
            .port = 1,
            .qkey = 0x1234,
            .path = kPathThere,
            .mtu = Mtu::k1024,
            .timeout = 14,
            .retry_count = 3,
            .rnr_retry = 3,
            .rq_psn = Psn(kRqPsn),
            .sq_psn = Psn(kSqPsn),
            .max_rd_atomic = 4,
            .max_dest_rd_atomic = 4,
            .min_rnr_timer = 12,
            .dest_qpn = kPeerQpn};
  }
  static constexpr Duration kTimeout = 4096 << 14;  // of these: 67 ms
  static QpAttr with(uint8_t timeout, uint8_t retry_count) {
    QpAttr attr = defaults();
    attr.timeout = timeout;
    attr.retry_count = retry_count;
    return attr;
  }
  QpInit init(QpType type = QpType::kRc) {
    return {.type = type,
            .pd = pd_,
            .send_cq = &send_cq_,
            .recv_cq = &recv_cq_,
            .send = {.max_entries = 64, .max_sge = 4, .max_inline = 128},
            .max_recv_entries = 64,
            .max_recv_sge = 4};
  }
  static constexpr uint32_t init_mask(QpType type) {
    const uint32_t common = kAttrState | kAttrPkeyIndex | kAttrPort;
    return common | (type == QpType::kUd ? uint32_t{kAttrQkey} : uint32_t{kAttrAccess});
  }
  static constexpr uint32_t rtr_mask(QpType type) {
    if (type == QpType::kUd) return kAttrState;
    const uint32_t uc = kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn;
    return type == QpType::kUc ? uc : uc | kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
  }
  static constexpr uint32_t rts_mask(QpType type) {
    if (type != QpType::kRc) return kAttrState | kAttrSqPsn;
    return kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry |
           kAttrMaxRdAtomic;
  }
  void to_init(QpAttr attr, QpType type = QpType::kRc, Qpn qpn = kQpn) {
    step(attr, QpState::kInit, init_mask(type), qpn);
  }
  void to_rtr(QpAttr attr, QpType type = QpType::kRc, Qpn qpn = kQpn) {
    step(attr, QpState::kRtr, rtr_mask(type), qpn);
  }
  void to_rts(QpAttr attr, QpType type = QpType::kRc, Qpn qpn = kQpn) {
    step(attr, QpState::kRts, rts_mask(type), qpn);
  }
  void step(QpAttr attr, QpState to, uint32_t mask, Qpn qpn = kQpn) {
    attr.state = to;
    ASSERT_TRUE(accepted(endpoint_->modify_qp(qpn, attr, mask, now_)));
  }
  void create(const QpInit& made, Qpn qpn = kQpn) {
    ASSERT_TRUE(accepted(endpoint_->create_qp(made, qpn)));
  }
  // A queue pair ready to send.
  void connect(const QpAttr& attr = defaults(), QpType type = QpType::kRc, Qpn qpn = kQpn) {
    create(init(type), qpn);
    bring_up(attr, type, qpn);
  }
  void bring_up(const QpAttr& attr, QpType type = QpType::kRc, Qpn qpn = kQpn) {
    mtu_ = mtu_bytes(attr.mtu);
    sq_psn_ = attr.sq_psn;
    rq_psn_ = attr.rq_psn;
    to_init(attr, type, qpn);
    to_rtr(attr, type, qpn);
    to_rts(attr, type, qpn);
  }
  Result<void, Error> modify(QpState to, uint32_t more_mask = 0, QpAttr attr = {}, Qpn qpn = kQpn) {
    attr.state = to;
    return endpoint_->modify_qp(qpn, attr, kAttrState | more_mask, now_);
  }
  [[nodiscard]] QpState state(Qpn qpn = kQpn) const {
    return endpoint_->query_qp(qpn).value().state;
  }

  // --- memory
  [[nodiscard]] memory::Sge at(size_t offset, size_t n) const {
    return {kIova + offset, static_cast<uint32_t>(n), keys_.lkey};
  }
  void fill(size_t offset, const Bytes& bytes) {
    std::ranges::copy(bytes, arena_.begin() + static_cast<ptrdiff_t>(offset));
  }
  [[nodiscard]] Bytes bytes_at(size_t offset, size_t n) const {
    return {arena_.begin() + static_cast<ptrdiff_t>(offset),
            arena_.begin() + static_cast<ptrdiff_t>(offset + n)};
  }
  [[nodiscard]] uint64_t word_at(size_t offset) const {
    uint64_t word;
    std::memcpy(&word, arena_.data() + offset, sizeof word);
    return word;
  }
  void set_word(size_t offset, uint64_t word) {
    std::memcpy(arena_.data() + offset, &word, sizeof word);
  }

  // --- posting
  Result<void, Error> post(SendRequest request, std::initializer_list<memory::Sge> list = {},
                           Qpn qpn = kQpn) {
    const std::vector<memory::Sge> copy(list);
    request.list = copy;
    return endpoint_->post_send(qpn, request, now_);
  }
  // A signaled request of `n` bytes from or to the arena's offset `local`, and the peer's `remote`.
  void send(SendOp op, uint64_t wr_id, size_t n, size_t local = 0, uint64_t remote = 0x9000,
            uint32_t flags = 0) {
    SendRequest request{.wr_id = wr_id,
                        .op = op,
                        .flags = kSignaled | flags,
                        .imm = 0x1d1d1d1d,
                        .remote_addr = RemoteAddr(remote),
                        .rkey = RKey(0x5555)};
    const memory::Sge sge = at(local, n);
    if (n != 0) {
      ASSERT_TRUE(accepted(post(request, {sge})));
    } else {
      ASSERT_TRUE(accepted(post(request)));
    }
  }
  void recv(uint64_t wr_id, size_t n, size_t offset = 0, Qpn qpn = kQpn) {
    const memory::Sge sge = at(offset, n);
    ASSERT_TRUE(accepted(endpoint_->post_recv(qpn, {wr_id, {&sge, 1}})));
  }

  // --- packets from the peer; PSNs count from the first of that direction
  [[nodiscard]] wire::Headers request(Op op, uint32_t psn, bool ack = false) const {
    auto headers = headers_of(wire::Service::kRc, op, kQpn, rq_psn_ + psn);
    headers.bth.ack_request = ack;
    headers.reth = {kIova, keys_.rkey, 0};
    headers.atomic_eth = {kIova, keys_.rkey, 0, 0};
    return headers;
  }
  [[nodiscard]] wire::Headers write(Op op, uint32_t psn, size_t offset, size_t whole,
                                    bool ack = false) const {
    auto headers = request(op, psn, ack);
    headers.reth = {kIova + offset, keys_.rkey, static_cast<uint32_t>(whole)};
    return headers;
  }
  [[nodiscard]] wire::Headers read(uint32_t psn, size_t offset, size_t n) const {
    return write(Op::kReadRequest, psn, offset, n, true);
  }
  [[nodiscard]] wire::Headers fetch_add(uint32_t psn, size_t offset, uint64_t add) const {
    auto headers = request(Op::kFetchAdd, psn, true);
    headers.atomic_eth = {kIova + offset, keys_.rkey, add, 0};
    return headers;
  }
  [[nodiscard]] wire::Headers response(Op op, uint32_t psn,
                                       uint8_t with_syndrome = syndrome::kAckNoCredits) const {
    auto headers = headers_of(wire::Service::kRc, op, kQpn, sq_psn_ + psn);
    headers.aeth = {with_syndrome, 0};
    return headers;
  }
  // Receive one packet of a batch.
  void take(const wire::Headers& headers, const Bytes& payload = {}) {
    const Packet packet(headers, payload);
    InPacket in = arriving(packet);
    in.source_port = peer_port_;
    endpoint_->receive(in, now_);
  }
  // Receive a packet, and the batch is over.
  void receive(const wire::Headers& headers, const Bytes& payload = {}) {
    take(headers, payload);
    endpoint_->finish_batch(now_);
  }
  void ack(uint32_t psn) { receive(response(Op::kAcknowledge, psn)); }
  void nak(uint32_t psn, uint8_t with_syndrome) {
    receive(response(Op::kAcknowledge, psn, with_syndrome));
  }
  void read_response(Op op, uint32_t psn, const Bytes& payload) {
    receive(response(op, psn), payload);
  }
  void atomic_ack(uint32_t psn, uint64_t original) {
    auto headers = response(Op::kAtomicAcknowledge, psn);
    headers.atomic_ack_eth.original = original;
    receive(headers);
  }
  // All packets of a SEND or WRITE, as a batch.
  void take_message(const Bytes& payload, uint32_t psn, bool is_write = false, size_t offset = 0) {
    const size_t packets = std::max<size_t>((payload.size() + mtu_ - 1) / mtu_, 1);
    for (size_t i = 0; i < packets; ++i) {
      const bool first = i == 0;
      const bool last = i + 1 == packets;
      const Op send_op = first ? (last ? Op::kSendOnly : Op::kSendFirst)
                               : (last ? Op::kSendLast : Op::kSendMiddle);
      const Op write_op = first ? (last ? Op::kWriteOnly : Op::kWriteFirst)
                                : (last ? Op::kWriteLast : Op::kWriteMiddle);
      const size_t from = i * mtu_;
      const size_t to = std::min(from + mtu_, payload.size());
      take(write(is_write ? write_op : send_op, psn + static_cast<uint32_t>(i), offset,
                 payload.size(), last),
           Bytes(payload.begin() + static_cast<ptrdiff_t>(from),
                 payload.begin() + static_cast<ptrdiff_t>(to)));
    }
  }

  // --- time
  void wait(Duration duration) {
    now_ += duration;
    endpoint_->advance(now_);
  }
  // Goes from deadline to deadline until `until`.
  void run_until(Time until) {
    while (endpoint_->next_deadline() <= until) {
      now_ = std::max(now_, endpoint_->next_deadline());
      endpoint_->advance(now_);
    }
    now_ = until;
  }

  // --- what came of it
  [[nodiscard]] std::vector<Packet> sent() { return std::exchange(link_.sent, {}); }
  // "SEND_FIRST 0 (1024), SEND_LAST 1 (5) A": A is AckReq, S is solicited; or "ACK 3 msn 2".
  [[nodiscard]] std::string said() {
    std::string all;
    for (const Packet& packet : sent()) {
      if (!all.empty()) all += ", ";
      all += in_words(packet);
    }
    return all;
  }
  [[nodiscard]] std::string in_words(const Packet& packet) const {
    const wire::PacketView& view = packet.view();
    const Psn base = view.info->is_response() ? rq_psn_ : sq_psn_;
    const std::string psn = " " + std::to_string(distance(base, view.bth.psn));
    if (packet.op() == Op::kAcknowledge) {
      const wire::Aeth aeth = view.aeth();
      const uint8_t value = aeth.syndrome & syndrome::kValueMask;
      const std::string msn = " msn " + std::to_string(aeth.msn);
      switch (aeth.syndrome & syndrome::kKindMask) {
        case syndrome::kAck:    return "ACK" + psn + msn;
        case syndrome::kRnrNak: return "RNR " + std::to_string(value) + psn + msn;
        default:                break;
      }
      static constexpr const char* kReason[] = {"sequence", "invalid", "access", "operational"};
      return std::string("NAK ") + (value < 4 ? kReason[value] : "?") + psn + msn;
    }
    std::string words = view.info->name;
    words = words.substr(words.find(' ') + 1) + psn;
    if (packet.op() == Op::kReadRequest) {
      words += " [" + std::to_string(view.reth().address) + " +" +
               std::to_string(view.reth().length) + "]";
    } else if (view.info->payload != wire::PayloadRule::kNone) {
      words += " (" + std::to_string(view.payload.size()) + ")";
    }
    if (view.bth.ack_request && packet.op() != Op::kReadRequest) words += " A";
    if (view.bth.solicited) words += " S";
    return words;
  }
  [[nodiscard]] static std::string list(std::vector<Completion>& completions, bool bytes) {
    std::string all;
    for (const Completion& completion : completions) {
      if (!all.empty()) all += ", ";
      all += std::to_string(completion.wr_id) + " " + to_string(completion.status);
      if (bytes && completion.status == WcStatus::kSuccess)
        all += " " + std::to_string(completion.byte_len);
    }
    completions.clear();
    return all;
  }
  // "1 success, 2 flushed"
  [[nodiscard]] std::string sends() { return list(send_cq_.all, false); }
  // "7 success 100": with the bytes received
  [[nodiscard]] std::string recvs() { return list(recv_cq_.all, true); }
  [[nodiscard]] std::vector<Event> happened() {
    std::vector<Event> all;
    for (const auto& [event, number] : std::exchange(events_.all, {})) all.push_back(event);
    return all;
  }
  [[nodiscard]] uint64_t count(Counter counter) const {
    const uint64_t value = endpoint_->counters()[counter];
    if (value > 0) named_counters()[static_cast<size_t>(counter)] = true;
    return value;
  }

  SeededRandom random_{1};
  RepeatedMemory repeats_;
  memory::Domain domain_{random_, {.repeats = &repeats_}};
  RecordingLink link_;
  RecordingQueue send_cq_;
  RecordingQueue recv_cq_;
  RecordingEvents events_;
  std::vector<uint8_t> arena_;
  PdId pd_;
  memory::RegionKeys keys_;
  std::optional<Endpoint> endpoint_;
  uint32_t mtu_ = 1024;
  uint16_t peer_port_ = 0;  // from which its packets come
  Psn sq_psn_{kSqPsn};
  Psn rq_psn_{kRqPsn};
  Time now_ = kSecond;
};

}  // namespace testing
}  // namespace verbena::transport
