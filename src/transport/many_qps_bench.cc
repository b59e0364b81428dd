// SPDX-License-Identifier: Apache-2.0
// Many queue pairs that go to one other host: what one of them costs must not depend on how many
// there are.
#include <memory>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.h"
#include "transport/testing.h"

namespace verbena::transport::testing {
namespace {

constexpr Duration kRoundTrip = 10 * kMillisecond;

// All have a message posted; the window lets the first ones send, the others wait in line.
class ManyQps {
 public:
  explicit ManyQps(uint32_t count) {
    link_.discard = true;
    pd_ = domain_.allocate_pd().value();
    keys_ = domain_
                .register_region(pd_, {.base = memory_.data(),
                                       .length = memory_.size(),
                                       .iova = kIova,
                                       .access = memory::kLocalWrite})
                .value();
    endpoint_ = std::make_unique<Endpoint>(domain_, link_, events_, random_,
                                           EndpointLimits{.max_qps = count}, Tuning{});
    for (uint32_t i = 0; i < count; ++i) add(Qpn(0x100 + i));
    // The round trip is known, and one has lost something: a timer of the host's runs.
    for (const Qpn qpn : qpns_) post(qpn);
    now_ += kRoundTrip;
    respond(qpns_[0], wire::Psn(1), wire::syndrome::kAck);
    respond(qpns_[0], wire::Psn(2), wire::syndrome::kNakSequence);
  }

  // Wherever in the line it is.
  void destroy_one() {
    std::swap(qpns_[random_.below(qpns_.size())], qpns_.back());
    VERBENA_CHECK(endpoint_->destroy_qp(qpns_.back()).has_value());
    qpns_.pop_back();
  }
  [[nodiscard]] bool empty() const { return qpns_.empty(); }
  void advance() {
    now_ = std::max(now_ + 1, endpoint_->next_deadline());
    endpoint_->advance(now_);
  }

 private:
  static constexpr uint64_t kIova = 0x10000;

  void add(Qpn qpn) {
    const QpInit init{.type = QpType::kRc,
                      .pd = pd_,
                      .send_cq = &cq_,
                      .recv_cq = &cq_,
                      .send = {.max_entries = 4, .max_sge = 1}};
    auto queues = endpoint_->make_queues(init).value();
    VERBENA_CHECK(endpoint_->create_qp(init, qpn, queues).has_value());
    QpAttr attr{.port = 1, .path = kPathThere, .mtu = Mtu::k1024, .timeout = 0};
    attr.dest_qpn = qpn;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 1;
    const auto step = [&](QpState to, uint32_t mask) {
      attr.state = to;
      VERBENA_CHECK(endpoint_->modify_qp(qpn, attr, kAttrState | mask, now_).has_value());
    };
    step(QpState::kInit, kAttrPkeyIndex | kAttrPort | kAttrAccess);
    step(QpState::kRtr, kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic |
                            kAttrMinRnrTimer);
    step(QpState::kRts,
         kAttrSqPsn | kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic);
    qpns_.push_back(qpn);
  }
  void post(Qpn qpn) {
    const memory::Sge sge{.addr = kIova, .length = 64 * 1024, .lkey = keys_.lkey};
    const SendRequest request{
        .wr_id = 1, .op = SendOp::kSend, .flags = kSignaled, .list = {&sge, 1}};
    VERBENA_CHECK(endpoint_->post_send(qpn, request, now_).has_value());
  }
  void respond(Qpn qpn, wire::Psn psn, uint8_t syndrome) {
    auto headers = headers_of(wire::Service::kRc, wire::Op::kAcknowledge, qpn, psn);
    headers.aeth = {syndrome, 0};
    const Packet packet(headers, {});
    endpoint_->receive(arriving(packet), now_);
    endpoint_->finish_batch(now_);
  }

  SeededRandom random_{1};
  memory::Domain domain_{random_, {}};
  RecordingLink link_;
  RecordingEvents events_;
  RecordingQueue cq_;
  std::vector<uint8_t> memory_ = std::vector<uint8_t>(64 * 1024);
  PdId pd_;
  memory::RegionKeys keys_;
  std::unique_ptr<Endpoint> endpoint_;
  std::vector<Qpn> qpns_;
  Time now_ = kSecond;
};

void destroy_one_that_waits(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto all = std::make_unique<ManyQps>(static_cast<uint32_t>(state.range(0)));
    state.ResumeTiming();
    while (!all->empty()) all->destroy_one();
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(destroy_one_that_waits)->Arg(64)->Arg(4096)->Iterations(3);

void timer_of_a_host(benchmark::State& state) {
  ManyQps all(static_cast<uint32_t>(state.range(0)));
  for (auto _ : state) all.advance();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(timer_of_a_host)->Arg(64)->Arg(4096)->Iterations(2000);

}  // namespace
}  // namespace verbena::transport::testing
