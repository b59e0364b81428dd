// SPDX-License-Identifier: Apache-2.0
// A fuzzer's input as a history: bytes become packets that arrive, work that is posted, attributes
// that change and time that passes, for an endpoint with queue pairs of every service and memory
// between guards. Broken invariants abort; what a sanitizer finds it finds.
//
// An input is a list of actions, each one byte (its low bits select, see do_action()) and its
// arguments, big-endian. Packets come in two forms: whole (length, then BTH to pad; queue pair and
// R_Key are small numbers that select one of ours) and compact (fields that keep near what the
// queue pair expects).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/fuzz_input.h"
#include "base/random.h"
#include "transport/testing.h"
#include "wire/extended_ack.h"

namespace verbena::transport::fuzzing {

using testing::kHere;
using testing::kPathThere;
using testing::kThere;

using Input = FuzzInput;

// Every work request completes at most once, and none that was not posted.
class CountingQueue final : public CompletionQueue {
 public:
  void push(const Completion& completion) override {
    VERBENA_CHECK(completion.wr_id < open_.size() && open_[completion.wr_id]);
    open_[completion.wr_id] = false;
  }
  [[nodiscard]] uint64_t next_id() {
    open_.push_back(true);
    return open_.size() - 1;
  }
  void take_back() { open_.back() = false; }

 private:
  std::vector<bool> open_;
};

class Harness {
 public:
  static constexpr size_t kGuard = 4096;
  static constexpr size_t kRegion = 16384;
  static constexpr uint64_t kIova = 0x10000;
  static constexpr uint8_t kGuardByte = 0xa5;
  static constexpr size_t kQps = 6;
  static constexpr uint32_t kHoldBuffers = 24;
  static constexpr XrcdId kDomain{1};

  explicit Harness(uint8_t options)
      : arena_(3 * kGuard + 2 * kRegion, kGuardByte),
        endpoint_(domain_, link_, events_, random_, {.max_qps = kQps, .max_srqs = 2}, tuning()) {
    link_.discard = true;
    pd_ = domain_.allocate_pd().value();
    writable_ =
        add_region(kGuard, memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead |
                               memory::kRemoteAtomic | memory::kMwBind);
    readable_ = add_region(2 * kGuard + kRegion, memory::kRemoteRead);
    window_ = domain_.allocate_window(pd_, memory::WindowType::kType2).value();
    srq_ = endpoint_.create_srq(pd_, 8, 2).value();
    xrc_srq_ = endpoint_.create_srq(pd_, 8, 2, kDomain, &receives_).value();
    mtu_ = static_cast<Mtu>(1 + options % 5);
    grants_ = options >> 5;
    for (size_t i = 0; i < kQps; ++i) make_qp(i);
  }

  // Low numbers are packets, so that random bytes mostly are.
  void do_action(Input& in, bool responses) {
    const uint8_t action = in.u8();
    switch (action % 16) {
      case 0:
      case 1:  arrive_whole(in); break;
      case 2:
      case 3:
      case 4:
      case 5:  responses ? arrive_response(in) : arrive_request(in); break;
      case 6:  post_receive(in); break;
      case 7:
      case 8:  post_send(in); break;
      case 9:  pass_time(in); break;
      case 10: endpoint_.finish_batch(now_); break;
      case 11:
        link_.room = in.u8() % 8 == 7 ? testing::RecordingLink::kUnlimited : in.u8() % 4;
        break;
      case 12: modify(in); break;
      case 13: remake_qp(in); break;
      case 14: change_memory(in); break;
      default: responses ? arrive_request(in) : arrive_response(in); break;
    }
    check();
  }

  // Everything must come to rest: what is left to send is sent, or its retries run out.
  void finish() {
    link_.room = testing::RecordingLink::kUnlimited;
    endpoint_.finish_batch(now_);
    for (int i = 0; i < 2000 && endpoint_.next_deadline() != kNever; ++i) {
      now_ = std::max(now_, endpoint_.next_deadline());
      endpoint_.advance(now_);
    }
    VERBENA_CHECK(endpoint_.next_deadline() != 0);
    check();
    const auto quiet = [](std::span<const uint8_t> bytes) {
      return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == kGuardByte; });
    };
    const std::span<const uint8_t> all(arena_);
    // The guards, and the region that grants nobody to write.
    VERBENA_CHECK(quiet(all.first(kGuard)));
    VERBENA_CHECK(quiet(all.subspan(kGuard + kRegion)));
  }

 private:
  static Tuning tuning() {
    Tuning small;
    small.hold_buffers = kHoldBuffers;
    small.flight.max_bytes = 24 * 1024;
    small.flight.initial_bytes = 16 * 1024;
    small.flight.max_packets = 24;
    small.quantum = 8;
    return small;
  }
  memory::RegionKeys add_region(size_t at, uint32_t access) {
    return domain_
        .register_region(
            pd_, {.base = arena_.data() + at, .length = kRegion, .iova = kIova, .access = access})
        .value();
  }

  // --- queue pairs: 0 RC, 1 UC, 2 UD, 3 RC with the shared receive queue,
  // 4 and 5 XRC's halves
  static QpType type_of(size_t i) {
    constexpr QpType kTypes[kQps] = {QpType::kRc, QpType::kUc,      QpType::kUd,
                                     QpType::kRc, QpType::kXrcSend, QpType::kXrcRecv};
    return kTypes[i];
  }
  static Qpn qpn_of(size_t i) { return Qpn(static_cast<uint32_t>(i) + 1); }
  static wire::Service service_of(size_t i) {
    constexpr wire::Service kServices[kQps] = {wire::Service::kRc,  wire::Service::kUc,
                                               wire::Service::kUd,  wire::Service::kRc,
                                               wire::Service::kXrc, wire::Service::kXrc};
    return kServices[i];
  }
  [[nodiscard]] QpAttr attributes() const {
    QpAttr attr{.access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic,
                .port = 1,
                .qkey = 7};
    attr.path = kPathThere;
    attr.mtu = mtu_;
    attr.timeout = 8;
    attr.retry_count = grants_;
    attr.rnr_retry = grants_;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = grants_;
    attr.min_rnr_timer = 1;
    attr.dest_qpn = Qpn(0x77);
    return attr;
  }
  static uint32_t mask_to(QpType type, QpState to) {
    const uint32_t uc = kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn;
    switch (to) {
      case QpState::kInit:
        return kAttrState | kAttrPkeyIndex | kAttrPort |
               (type == QpType::kUd ? kAttrQkey : kAttrAccess);
      case QpState::kRtr:
        if (type == QpType::kUd) return kAttrState;
        return kAttrState | uc |
               (is_reliable_responder(type) ? kAttrMaxDestRdAtomic | kAttrMinRnrTimer : 0u);
      case QpState::kRts:
        if (type == QpType::kXrcRecv) return kAttrState | kAttrSqPsn | kAttrTimeout;
        if (!is_reliable(type)) return kAttrState | kAttrSqPsn;
        return kAttrState | kAttrSqPsn | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry |
               kAttrMaxRdAtomic;
      default: return kAttrState;
    }
  }
  void make_qp(size_t i) {
    QpInit init{.type = type_of(i), .pd = pd_, .send_cq = &sends_, .recv_cq = &receives_};
    init.send = {.max_entries = 8, .max_sge = 3, .max_inline = 32};
    init.max_recv_entries = 4;
    init.max_recv_sge = 3;
    init.signal_all = true;
    if (i == 3) init.srq = srq_;
    if (i == 4 || i == 5) {
      init.recv_cq = nullptr;
      init.max_recv_entries = 0;
    }
    if (i == 5) {
      init.send_cq = nullptr;
      init.send = {};
      init.xrcd = kDomain;
    }
    VERBENA_CHECK(endpoint_.create_qp(init, qpn_of(i)).has_value());
    QpAttr attr = attributes();
    for (const QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      attr.state = to;
      VERBENA_CHECK(
          endpoint_.modify_qp(qpn_of(i), attr, mask_to(type_of(i), to), now_).has_value());
    }
    request_psn_[i] = 0;
    response_psn_[i] = 0;
  }
  void remake_qp(Input& in) {
    const size_t i = in.u8() % kQps;
    VERBENA_CHECK(endpoint_.destroy_qp(qpn_of(i)).has_value());
    make_qp(i);
  }
  void modify(Input& in) {
    const size_t i = in.u8() % kQps;
    QpAttr attr = attributes();
    attr.state = static_cast<QpState>(in.u8() % kQpStates);
    attr.sqd_notify = true;
    const uint32_t extra = in.u8() == 0xff ? in.u32() : 0;
    const bool fresh = endpoint_.query_qp(qpn_of(i)).value().state == QpState::kReset;
    (void)endpoint_.modify_qp(qpn_of(i), attr, mask_to(type_of(i), attr.state) ^ extra, now_);
    if (fresh) request_psn_[i] = response_psn_[i] = 0;
  }

  // --- packets
  [[nodiscard]] RKey key(uint32_t number) const {
    switch (number) {
      case 0:  return writable_.rkey;
      case 1:  return readable_.rkey;
      case 2:  return RKey((window_.value & ~0xffu) | 1);
      default: return RKey(number);
    }
  }
  void arrive(std::span<const uint8_t> bth_to_pad, const wire::Gid& from = kThere,
              uint8_t traffic_class = 0) {
    std::vector<uint8_t> bytes(bth_to_pad.begin(), bth_to_pad.end());
    bytes.resize(bytes.size() + wire::kIcrcBytes);
    const auto view = wire::parse(bytes);
    if (!view) return;
    endpoint_.receive({.view = *view,
                       .source = from,
                       .destination = kHere,
                       .traffic_class = traffic_class,
                       .hop_limit = 1},
                      now_);
  }
  void arrive_whole(Input& in) {
    const auto taken = in.bytes(in.u16());
    std::vector<uint8_t> bytes(taken.begin(), taken.end());
    if (bytes.size() >= wire::Bth::kBytes) {
      const wire::OpcodeInfo& info = wire::opcode_info(bytes[0]);
      store_be16(bytes.data() + 2, 0xffff);
      const uint32_t qp = load_be24(bytes.data() + 5);
      if (qp < kQps) store_be24(bytes.data() + 5, qpn_of(qp).value);
      for (const wire::HeaderSet header : {wire::kReth, wire::kAtomicEth}) {
        const size_t at = info.offset_of(header) + 8;
        if (!info.exists() || !info.has(header) || bytes.size() < at + 4) continue;
        store_be32(bytes.data() + at, key(load_be32(bytes.data() + at)).value);
      }
    }
    arrive(bytes);
  }
  void arrive_request(Input& in) {
    const size_t i = in.u8() % kQps;
    wire::Headers headers;
    // Its opcode; whether it understands extended acknowledgements; what became of its ECN bits.
    const uint8_t kind = in.u8();
    const auto op = static_cast<uint8_t>(kind & 0x1f);
    headers.bth.opcode = static_cast<uint8_t>(static_cast<uint8_t>(service_of(i)) << 5 | op);
    headers.bth.reserved7 = kind >> 5 & 1;
    const wire::OpcodeInfo& info = wire::opcode_info(headers.bth.opcode);
    const auto ahead = static_cast<int8_t>(in.u8());
    const uint8_t flags = in.u8();
    const uint16_t place = in.u16();
    uint32_t length = in.u16();
    if (!info.exists() || info.is_response()) return;
    headers.bth.dest_qp = qpn_of(i);
    headers.bth.psn = wire::Psn(request_psn_[i] + static_cast<uint32_t>(ahead));
    headers.bth.ack_request = (flags & 1) != 0;
    headers.bth.solicited = (flags & 2) != 0;
    const uint32_t mtu = mtu_bytes(mtu_);
    const bool whole = !info.ends_message() && (flags & 4) == 0;
    const bool has_payload = info.payload != wire::PayloadRule::kNone;
    const uint32_t payload = !has_payload                                     ? 0
                             : whole                                          ? mtu
                             : info.payload == wire::PayloadRule::kEightBytes ? 8
                                                                              : length % 5000;
    if (info.position == wire::Position::kOnly && has_payload && (flags & 8) == 0) length = payload;
    headers.reth = {kIova + place, key(flags >> 5), length};
    headers.atomic_eth = {kIova + place, key(flags >> 5), length, flags};
    headers.deth = {(flags & 16) == 0 ? 7u : length, 0, Qpn(9)};
    headers.ieth.rkey = key(flags >> 5);
    // Mostly the right one; the plain one now and then.
    headers.xrceth.srq = (place & 0x3f) == 0 ? srq_->id : xrc_srq_->id;
    headers.imm.value = length;
    const std::vector<uint8_t> bytes(payload, static_cast<uint8_t>(flags));
    arrive(wire::encode(headers, bytes), kThere, kind >> 6);
    if (ahead != 0) return;
    const bool read = info.operation == wire::Operation::kReadRequest;
    request_psn_[i] += read ? std::max<uint32_t>((length + mtu - 1) / mtu, 1) : 1;
  }
  // What an ACK says of packets that are held (wire/extended_ack.h), or nearly that.
  [[nodiscard]] static std::vector<uint8_t> extension(Input& in) {
    const uint32_t words = in.u8() % 9;
    std::vector<uint8_t> bytes(wire::ExtendedAck::kHeaderBytes + words * 4);
    for (uint8_t& byte : bytes) byte = in.u8();
    if ((bytes[0] & 0x80) == 0) {
      bytes[0] = static_cast<uint8_t>(wire::ExtendedAck::kVersion << 4 | (bytes[0] & 0xf));
      bytes[1] = static_cast<uint8_t>(words);
    }
    return bytes;
  }
  void arrive_response(Input& in) {
    constexpr size_t kRequesters[] = {0, 3, 0, 4};
    const size_t i = kRequesters[in.u8() % 4];
    wire::Headers headers;
    constexpr wire::Op kResponses[] = {wire::Op::kAcknowledge,       wire::Op::kAcknowledge,
                                       wire::Op::kReadResponseFirst, wire::Op::kReadResponseMiddle,
                                       wire::Op::kReadResponseLast,  wire::Op::kReadResponseOnly,
                                       wire::Op::kAtomicAcknowledge, wire::Op::kReadResponseOnly};
    const wire::Op op = kResponses[in.u8() % 8];
    headers.bth.opcode = wire::opcode_byte(service_of(i), op);
    headers.bth.dest_qp = qpn_of(i);
    const auto ahead = static_cast<int8_t>(in.u8());
    headers.bth.psn = wire::Psn(response_psn_[i] + static_cast<uint32_t>(ahead));
    headers.aeth = {in.u8(), in.u8()};
    const uint16_t length = in.u16();
    headers.atomic_ack_eth.original = length;
    const uint32_t mtu = mtu_bytes(mtu_);
    if (op == wire::Op::kAcknowledge && (length & 0x4000) != 0) {
      arrive(wire::encode(headers, extension(in)));
    } else {
      const bool none = op == wire::Op::kAcknowledge || op == wire::Op::kAtomicAcknowledge;
      const uint32_t payload = none ? 0 : (length & 0x8000) != 0 ? mtu : length % 5000;
      arrive(wire::encode(headers, std::vector<uint8_t>(payload, 0x3c)));
    }
    if (ahead >= 0) response_psn_[i] = headers.bth.psn.value() + 1;
  }

  // --- work
  [[nodiscard]] std::vector<memory::Sge> list(Input& in) const {
    const uint8_t shape = in.u8();
    std::vector<memory::Sge> entries(shape & 3);
    for (memory::Sge& sge : entries) {
      sge.addr = kIova + in.u16();
      sge.length = in.u16();
      // Never the readable region where we would write ourselves; now and then a key that does not
      // exist.
      sge.lkey = shape >= 0xf0 ? LKey(5) : writable_.lkey;
    }
    return entries;
  }
  void post_receive(Input& in) {
    const uint8_t which = in.u8();
    const auto entries = list(in);
    const uint64_t id = receives_.next_id();
    const size_t i = which % kQps;
    const SharedRecvQueue* const shared = i == 3 ? srq_ : i == 5 ? xrc_srq_ : nullptr;
    const auto posted = shared != nullptr ? endpoint_.post_srq_recv(shared->id, {id, entries})
                                          : endpoint_.post_recv(qpn_of(i), {id, entries});
    if (!posted) receives_.take_back();
  }
  void post_send(Input& in) {
    const size_t i = in.u8() % kQps;
    SendRequest request;
    request.op = static_cast<SendOp>(in.u8() % 16);
    const uint8_t flags = in.u8();
    request.flags = flags & (kFence | kSignaled | kSolicited);
    std::vector<memory::Sge> entries = list(in);
    request.remote_addr = RemoteAddr(kIova);
    request.remote_srq = SrqId(5);
    request.rkey = RKey(0x1234);
    request.path = kPathThere;
    request.remote_qpn = Qpn(0x77);
    request.remote_qkey = flags < 8 ? 0x80000000 : 7;
    request.invalidate = key(2);
    request.window = RKey((window_.value & ~0xffu) | (flags >> 7));
    request.bind = {.region = writable_.lkey,
                    .addr = kIova,
                    .length = 64,
                    .access = memory::kRemoteWrite,
                    .tag = 1};
    if (request.op == SendOp::kLocalInvalidate || request.op == SendOp::kBindWindow)
      entries.clear();
    if ((request.op == SendOp::kCompareSwap || request.op == SendOp::kFetchAdd ||
         request.op == SendOp::kAtomicWrite) &&
        !entries.empty()) {
      entries.resize(1);
      entries[0].length = 8;
    }
    if ((flags & 0x40) != 0) {
      // Inline: the address is our own.
      request.flags |= kInline;
      for (memory::Sge& sge : entries) {
        sge.addr = reinterpret_cast<uint64_t>(arena_.data() + kGuard);
        sge.length %= 20;
      }
    }
    request.list = entries;
    request.wr_id = sends_.next_id();
    if (!endpoint_.post_send(qpn_of(i), request, now_)) sends_.take_back();
  }

  void pass_time(Input& in) {
    now_ += Duration{1} << (in.u8() % 30);
    endpoint_.advance(now_);
    const Time next = endpoint_.next_deadline();
    VERBENA_CHECK(next == 0 || next > now_);
  }
  void change_memory(Input& in) {
    const uint8_t what = in.u8();
    if (what % 4 == 0) {
      (void)domain_.invalidate_local(key(2), pd_);
    } else if (what % 4 == 1) {
      (void)endpoint_.arm_srq_limit(srq_->id, what / 4);
    } else if (what == 2 && domain_.deregister_region(writable_.lkey).has_value()) {
      // New keys for the same memory: what is under way loses its own.
      writable_ =
          add_region(kGuard, memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead |
                                 memory::kRemoteAtomic | memory::kMwBind);
    }
  }

  void check() {
    VERBENA_CHECK(endpoint_.held_packets() <= kHoldBuffers);
    VERBENA_CHECK(endpoint_.qp_count() == kQps);
    for (size_t i = 0; i < kQps; ++i) {
      const QpState state = endpoint_.query_qp(qpn_of(i)).value().state;
      VERBENA_CHECK(state != QpState::kSqe || !is_reliable(type_of(i)));
    }
  }

  SeededRandom random_{1};
  // Small tables: a fuzzer makes them anew for each input.
  memory::Domain domain_{random_, {.limits = {.max_pds = 1, .max_regions = 8, .max_windows = 8}}};
  testing::RecordingLink link_;
  testing::RecordingEvents events_;
  CountingQueue sends_;
  CountingQueue receives_;
  std::vector<uint8_t> arena_;
  PdId pd_;
  memory::RegionKeys writable_;
  memory::RegionKeys readable_;
  RKey window_;
  SharedRecvQueue* srq_ = nullptr;
  SharedRecvQueue* xrc_srq_ = nullptr;
  Endpoint endpoint_;
  Mtu mtu_ = Mtu::k256;
  uint8_t grants_ = 0;
  std::array<uint32_t, kQps> request_psn_{};
  std::array<uint32_t, kQps> response_psn_{};
  Time now_ = kSecond;
};

}  // namespace verbena::transport::fuzzing
