// SPDX-License-Identifier: Apache-2.0
// Packets through requester and responder with no link between: what the transport itself costs,
// apart from the kernel. Each line is per packet; the Step lines say where that goes. Two endpoints
// share one thread; the "wire" is an array of packets whose payload is not copied until the
// responder places it.
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>

#include "transport/endpoint.h"
#include "wire/icrc.h"

namespace verbena::transport {
namespace {

using wire::Gid;

// Takes packets whole, one after the other in one block, as a link's send buffer would.
class Wire final : public PacketSink {
 public:
  void send(const OutPacket& packet) override {
    uint8_t* const at = block_.data() + used_;
    std::memcpy(at, packet.headers.data(), packet.headers.size());
    size_t n = packet.headers.size();
    for (const auto piece : packet.payload) {
      std::memcpy(at + n, piece.data(), piece.size());
      n += piece.size();
    }
    std::memset(at + n, 0, packet.pad_bytes + size_t{wire::kIcrcBytes});
    n += packet.pad_bytes + size_t{wire::kIcrcBytes};
    ends_.push_back(used_ + n);
    used_ += (n + 63) & ~size_t{63};
  }
  [[nodiscard]] bool has_room() const override {
    return used_ + wire::kMaxPacketBytes + 64 < block_.size();
  }
  [[nodiscard]] std::span<uint8_t> staging() override { return staging_; }

  template <typename F>
  size_t deliver(F&& to) {
    size_t begin = 0;
    for (const size_t end : ends_) {
      to(std::span<const uint8_t>(block_.data() + begin, end - begin));
      begin += (end - begin + 63) & ~size_t{63};
    }
    const size_t n = ends_.size();
    ends_.clear();
    used_ = 0;
    return n;
  }

 private:
  std::vector<uint8_t> block_ = std::vector<uint8_t>(1 << 20);
  std::vector<size_t> ends_;
  size_t used_ = 0;
  std::array<uint8_t, wire::kMaxMtu> staging_{};
};

class CountingCq final : public CompletionQueue {
 public:
  void push(const Completion& completion) override {
    ++count;
    if (completion.status != WcStatus::kSuccess) ++errors;
  }
  uint64_t count = 0;
  uint64_t errors = 0;
};

class NoEvents final : public EventSink {
 public:
  void qp_event(Event, Qpn) override {}
  void srq_event(Event, SrqId) override {}
};

constexpr uint32_t kMemoryBytes = 1 << 20;
constexpr uint32_t kDepth = 64;

struct Side {
  explicit Side(uint64_t seed)
      : random(seed), domain(random, {}), endpoint(domain, wire, events, random) {
    pd = *domain.allocate_pd();
    keys = *domain.register_region(
        pd,
        {memory.data(), memory.size(), reinterpret_cast<uint64_t>(memory.data()),
         memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic,
         nullptr});
    qpn = *endpoint.create_qp({.type = QpType::kRc,
                               .pd = pd,
                               .send_cq = &cq,
                               .recv_cq = &cq,
                               .srq = nullptr,
                               .send = {kDepth, 1, 64},
                               .max_recv_entries = kDepth,
                               .max_recv_sge = 1,
                               .signal_all = true});
  }
  void connect(const Side& peer, Gid self, Gid other, Mtu mtu) {
    QpAttr attr;
    attr.access = memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
    attr.path = {.source = self, .destination = other};
    attr.mtu = mtu;
    attr.dest_qpn = peer.qpn;
    attr.timeout = 14;
    attr.retry_count = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 16;
    attr.state = QpState::kInit;
    (void)endpoint.modify_qp(qpn, attr, kAttrState | kAttrPkeyIndex | kAttrPort | kAttrAccess, 0);
    attr.state = QpState::kRtr;
    (void)endpoint.modify_qp(qpn, attr,
                             kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn |
                                 kAttrMaxDestRdAtomic | kAttrMinRnrTimer,
                             0);
    attr.state = QpState::kRts;
    (void)endpoint.modify_qp(
        qpn, attr,
        kAttrState | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic,
        0);
  }
  void post(SendOp op, uint32_t bytes, const Side& peer) {
    const std::array<memory::Sge, 1> list{
        memory::Sge{reinterpret_cast<uint64_t>(memory.data()), bytes, keys.lkey}};
    SendRequest request;
    request.op = op;
    request.list = list;
    request.remote_addr = RemoteAddr(reinterpret_cast<uint64_t>(peer.memory.data()));
    request.rkey = peer.keys.rkey;
    (void)endpoint.post_send(qpn, request, ++now);
  }
  void post_receive() {
    const std::array<memory::Sge, 1> list{
        memory::Sge{reinterpret_cast<uint64_t>(memory.data()), kMemoryBytes, keys.lkey}};
    (void)endpoint.post_recv(qpn, {0, list});
  }
  void take(std::span<const uint8_t> packet, Gid from, Gid to) {
    const auto view = wire::parse(packet);
    if (view) endpoint.receive({*view, from, to, 0, 64}, ++now);
  }

  std::vector<uint8_t> memory = std::vector<uint8_t>(kMemoryBytes);
  SeededRandom random;
  memory::Domain domain;
  Wire wire;
  NoEvents events;
  CountingCq cq;
  Endpoint endpoint;
  PdId pd;
  memory::RegionKeys keys;
  Qpn qpn;
  Time now = 0;
};

struct Pair {
  explicit Pair(Mtu mtu) : a(1), b(2) {
    a.connect(b, gid_a, gid_b, mtu);
    b.connect(a, gid_b, gid_a, mtu);
  }
  // Moves packets until both are silent; gives how many moved.
  size_t settle() {
    size_t moved = 0;
    for (;;) {
      size_t n = a.wire.deliver([&](auto packet) { b.take(packet, gid_a, gid_b); });
      b.endpoint.finish_batch(++b.now);
      n += b.wire.deliver([&](auto packet) { a.take(packet, gid_b, gid_a); });
      a.endpoint.finish_batch(++a.now);
      if (n == 0) return moved;
      moved += n;
    }
  }
  Gid gid_a = Gid::from_ipv4(127, 0, 0, 1);
  Gid gid_b = Gid::from_ipv4(127, 0, 0, 2);
  Side a;
  Side b;
};

void report(benchmark::State& state, size_t packets, size_t bytes, const Pair& pair) {
  if (pair.a.cq.errors + pair.b.cq.errors != 0) state.SkipWithError("work request failed");
  state.SetItemsProcessed(static_cast<int64_t>(packets));
  state.SetBytesProcessed(static_cast<int64_t>(bytes));
  state.counters["per_packet"] = benchmark::Counter(
      static_cast<double>(packets), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Messages of range(0) bytes at MTU range(1), kDepth / 4 in the queue at a time.
template <SendOp kOp>
void through_both(benchmark::State& state) {
  const auto bytes = static_cast<uint32_t>(state.range(0));
  const auto mtu = static_cast<Mtu>(state.range(1));
  Pair pair(mtu);
  size_t packets = 0;
  size_t moved = 0;
  for ([[maybe_unused]] auto _ : state) {
    for (uint32_t i = 0; i < kDepth / 4; ++i) {
      if constexpr (kOp == SendOp::kSend) pair.b.post_receive();
      pair.a.post(kOp, bytes, pair.b);
    }
    packets += pair.settle();
    moved += size_t{bytes} * (kDepth / 4);
  }
  report(state, packets, moved, pair);
}
void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const auto mtu : {Mtu::k1024, Mtu::k4096}) {
    for (const int bytes : {8, 4096, 65536}) benchmark->Args({bytes, static_cast<int>(mtu)});
  }
}
BENCHMARK(through_both<SendOp::kWrite>)->Name("WriteThroughBoth")->Apply(sizes);
BENCHMARK(through_both<SendOp::kSend>)->Name("SendThroughBoth")->Apply(sizes);
BENCHMARK(through_both<SendOp::kRead>)->Name("ReadThroughBoth")->Apply(sizes);

// --- where it goes, for one packet of 4096 bytes

std::vector<uint8_t> write_packet(const Side& target, uint32_t payload) {
  std::vector<uint8_t> packet(wire::Bth::kBytes + wire::Reth::kBytes + payload + wire::kIcrcBytes);
  wire::Bth bth;
  bth.opcode = wire::opcode_byte(wire::Service::kRc, wire::Op::kWriteOnly);
  bth.dest_qp = target.qpn;
  bth.write(packet.data());
  wire::Reth{reinterpret_cast<uint64_t>(target.memory.data()), target.keys.rkey, payload}.write(
      packet.data() + wire::Bth::kBytes);
  return packet;
}

void step_parse(benchmark::State& state) {
  const Side side(1);
  const auto packet = write_packet(side, 4096);
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(wire::parse(packet));
}
BENCHMARK(step_parse)->Name("Step/parse");

void step_check_key(benchmark::State& state) {
  Side side(1);
  const auto at = RemoteAddr(reinterpret_cast<uint64_t>(side.memory.data()));
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(side.domain.check_remote({side.pd, side.qpn}, side.keys.rkey, at, 4096,
                                                      memory::kRemoteWrite));
  }
}
BENCHMARK(step_check_key)->Name("Step/check_key");

void step_place(benchmark::State& state) {
  Side side(1);
  const std::vector<uint8_t> payload(static_cast<size_t>(state.range(0)));
  const auto at = RemoteAddr(reinterpret_cast<uint64_t>(side.memory.data()));
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(
        side.domain.remote_write({side.pd, side.qpn}, side.keys.rkey, at, payload, true));
  }
}
BENCHMARK(step_place)->Name("Step/place")->Arg(8)->Arg(4096);

void step_icrc(benchmark::State& state) {
  const Side side(1);
  const auto packet = write_packet(side, static_cast<uint32_t>(state.range(0)));
  const wire::IcrcFlow flow{.source = Gid::from_ipv4(127, 0, 0, 1),
                            .destination = Gid::from_ipv4(127, 0, 0, 2)};
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(wire::icrc(flow, packet));
}
BENCHMARK(step_icrc)->Name("Step/icrc (the link's)")->Arg(8)->Arg(4096);

}  // namespace
}  // namespace verbena::transport
