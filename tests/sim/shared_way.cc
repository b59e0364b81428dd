// SPDX-License-Identifier: Apache-2.0
#include "sim/shared_way.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "base/check.h"
#include "link/simulated_node.h"
#include "sim/plain_qp.h"
#include "sim/tcp_bbr.h"
#include "sim/tcp_cubic.h"
#include "wire/network.h"

namespace verbena::sim {
namespace {

// Ethernet, IPv4, UDP, BTH and ICRC around the payload of most packets.
constexpr double kAround = 14 + 20 + 8 + 12 + 4;

// Two hosts: data goes from the left one to the right one, whoever asks for it.
struct Pair {
  std::unique_ptr<link::SimulatedNode> left;
  std::unique_ptr<link::SimulatedNode> right;
  std::vector<std::unique_ptr<PlainQp>> asking;
  std::vector<std::unique_ptr<PlainQp>> answering;
  std::vector<uint64_t> posted;
  std::unordered_map<uint32_t, uint32_t> by_qpn;  // of the asking
  Time start = 0;
  uint64_t bytes = 0;
};

class WayRun final : private link::NetworkObserver {
 public:
  WayRun(const SharedWay& what, uint64_t seed)
      : case_(what),
        random_(seed),
        faults_(random_, {.loss_ppm = what.loss_ppm,
                          .reorder_ppm = what.late_ppm,
                          .reorder_span = what.late_by}),
        network_({.delay = 0}, faults_),
        there_(queue_options(), random_),
        back_(queue_options(), random_) {
    network_.set_observer(this);
    pairs_.resize(what.hosts);
    for (uint32_t i = 0; i < what.hosts; ++i) make_pair(pairs_[i], static_cast<uint8_t>(2 * i));
    const TcpWay tcp{.queue = &there_,
                     .random = &random_,
                     .loss_ppm = what.loss_ppm,
                     .ack_delay = what.round_trip / 2};
    for (uint32_t i = 0; i < what.tcp_flows; ++i) {
      tcp_.push_back(std::make_unique<TcpCubic>(tcp, draw_start()));
    }
    for (uint32_t i = 0; i < what.bbr_flows; ++i) {
      tcp_.push_back(std::make_unique<TcpBbr>(tcp, draw_start(), random_));
    }
  }

  WayFigures run() {
    const Time end = case_.warm_up + case_.measured;
    bool warm = false;
    while (now_ < end) {
      step();
      if (!warm && now_ >= case_.warm_up) {
        warm = true;
        begin_measuring();
      }
    }
    return figures();
  }

 private:
  // The first ones begin at a time of their own within a few round trips.
  Time draw_start() {
    return 1 + static_cast<Time>(random_.below(static_cast<uint64_t>(4 * case_.round_trip)));
  }

  [[nodiscard]] link::QueueOptions queue_options() const {
    link::QueueOptions options;
    options.bits_per_second = case_.bits_per_second;
    options.delay = case_.round_trip / 2;
    options.queue_bytes = static_cast<uint64_t>(case_.queue_bdp * case_.bdp_bytes());
    options.red_from_bytes = static_cast<uint64_t>(case_.red_from_bdp * case_.bdp_bytes());
    options.red_all_from_bytes = 2 * options.red_from_bytes;
    options.marks = case_.ecn;
    return options;
  }

  void make_pair(Pair& pair, uint8_t number) {
    const bool reads = case_.op == transport::SendOp::kRead;
    const auto node = [&](uint8_t host, bool holds) {
      link::NodeOptions options{.address = wire::Gid::from_ipv4(10, 0, 0, host),
                                .limits = {.max_qps = 256, .max_srqs = 4}};
      if (!holds) options.tuning.hold_buffers = 0;
      return std::make_unique<link::SimulatedNode>(network_, random_, options);
    };
    pair.left = node(number, true);
    pair.right = node(static_cast<uint8_t>(number + 1), case_.peer_holds);
    network_.set_queue(pair.left->port(), pair.right->port(), there_);
    network_.set_queue(pair.right->port(), pair.left->port(), back_);
    link::SimulatedNode& asking = reads ? *pair.right : *pair.left;
    link::SimulatedNode& answering = reads ? *pair.left : *pair.right;
    // Enough ahead to fill the way and its queue twice over.
    const double wanted = 2 * (1 + case_.queue_bdp) * case_.bdp_bytes() /
                          (double{1} * case_.message_bytes * case_.qps);
    const auto depth = static_cast<uint32_t>(std::clamp(wanted, 4.0, 1024.0));
    for (uint32_t i = 0; i < case_.qps; ++i) {
      pair.asking.push_back(std::make_unique<PlainQp>(asking, case_.message_bytes, depth));
      pair.answering.push_back(std::make_unique<PlainQp>(answering, case_.message_bytes, depth));
      const bool marked = case_.red_from_bdp != 0 && case_.ecn;
      pair.asking[i]->connect(*pair.answering[i], case_.mtu, now_, marked);
      pair.answering[i]->connect(*pair.asking[i], case_.mtu, now_, marked);
      pair.by_qpn[pair.asking[i]->qpn().value] = i;
    }
    pair.start = draw_start();
  }

  void post(Pair& pair, uint32_t qp) {
    pair.asking[qp]->post(*pair.answering[qp], case_.op, pair.posted[qp]++, now_);
  }

  void begin(Pair& pair) {
    pair.posted.resize(case_.qps);
    for (uint32_t i = 0; i < case_.qps; ++i) {
      for (uint32_t k = 0; k < pair.asking[i]->depth(); ++k) post(pair, i);
    }
    pair.start = kNever;
  }

  void take(Pair& pair) {
    for (const link::Notice& notice : pair.asking[0]->node().take_notices()) {
      if (notice.kind != link::Notice::Kind::kSendDone) continue;
      if (notice.completion.status != transport::WcStatus::kSuccess) {
        ++failed_;
        continue;
      }
      pair.bytes += case_.message_bytes;
      post(pair, pair.by_qpn.at(notice.qpn.value));
    }
    (void)pair.answering[0]->node().take_notices();
  }

  void step() {
    Time moment = network_.next_arrival();
    for (const Pair& pair : pairs_) {
      moment = std::min({moment, pair.start, pair.left->next_event(), pair.right->next_event()});
    }
    for (const auto& flow : tcp_) moment = std::min(moment, flow->next_event());
    VERBENA_CHECK(moment != kNever);
    now_ = std::max(now_, moment);
    network_.deliver_due(now_);
    for (const auto& flow : tcp_) {
      if (flow->next_event() <= now_) flow->run(now_);
    }
    for (Pair& pair : pairs_) {
      for (link::SimulatedNode* node : {pair.left.get(), pair.right.get()}) {
        node->set_time(now_);
        if (node->next_event() <= now_) node->run(now_);
      }
      if (pair.start <= now_) begin(pair);
      take(pair);
    }
  }

  // Whether a packet with payload was sent before: none of its PSN or a later one was.
  void on_frame(const link::FrameEvent& event) override {
    if (event.kind != link::FrameEvent::Kind::kSent) return;
    const auto frame = wire::dissect(event.bytes);
    if (!frame) return;
    const auto view = wire::parse(frame->transport);
    if (!view || view->payload.empty() || view->info->service == wire::Service::kCnp) return;
    if (view->info->operation == wire::Operation::kAcknowledge) return;
    ++packets_;
    const uint64_t flow = uint64_t{event.to} << 32 | view->bth.dest_qp.value;
    const auto [at, first] = ends_.try_emplace(flow, view->bth.psn.next());
    if (first) return;
    if (view->bth.psn.is_before(at->second)) {
      ++resent_;
    } else {
      at->second = view->bth.psn.next();
    }
  }

  void begin_measuring() {
    since_ = now_;
    for (Pair& pair : pairs_) pair.bytes = 0;
    for (const auto& flow : tcp_) tcp_before_.push_back(flow->delivered_bytes());
    packets_ = resent_ = 0;
    there_.reset_figures(now_);
  }

  [[nodiscard]] double share_of(uint64_t bytes, double payload, double frame) const {
    return static_cast<double>(bytes) * 8 * static_cast<double>(kSecond) /
           static_cast<double>(now_ - since_) / static_cast<double>(case_.bits_per_second) * frame /
           payload;
  }

  [[nodiscard]] WayFigures figures() const {
    WayFigures figures;
    const double mtu = transport::mtu_bytes(case_.mtu);
    for (const Pair& pair : pairs_) {
      figures.hosts.push_back(share_of(pair.bytes, mtu, mtu + kAround));
    }
    for (size_t i = 0; i < tcp_.size(); ++i) {
      figures.tcp.push_back(share_of(tcp_[i]->delivered_bytes() - tcp_before_[i],
                                     TcpFlow::kSegmentBytes, TcpFlow::kFrameBytes));
    }
    figures.resends =
        packets_ == 0 ? 0 : static_cast<double>(resent_) / static_cast<double>(packets_);
    figures.queue_mean_bdp = there_.mean_bytes(now_) / case_.bdp_bytes();
    figures.queue_most_bdp =
        static_cast<double>(there_.figures().longest_bytes) / case_.bdp_bytes();
    figures.failed = failed_;
    return figures;
  }

  SharedWay case_;
  Time now_ = 0;
  Time since_ = 0;
  SeededRandom random_;
  link::RandomFaults faults_;
  link::SimulatedNetwork network_;
  link::SimulatedQueue there_;
  link::SimulatedQueue back_;
  std::vector<Pair> pairs_;
  std::vector<std::unique_ptr<TcpFlow>> tcp_;
  std::vector<uint64_t> tcp_before_;
  std::unordered_map<uint64_t, wire::Psn> ends_;
  uint64_t packets_ = 0;
  uint64_t resent_ = 0;
  uint64_t failed_ = 0;
};

}  // namespace

double WayFigures::ours() const { return std::accumulate(hosts.begin(), hosts.end(), 0.0); }

double WayFigures::others() const { return std::accumulate(tcp.begin(), tcp.end(), 0.0); }

double jain(const std::vector<double>& shares) {
  double sum = 0;
  double squares = 0;
  for (const double share : shares) {
    sum += share;
    squares += share * share;
  }
  return squares == 0 ? 1 : sum * sum / (static_cast<double>(shares.size()) * squares);
}

WayFigures run_shared_way(const SharedWay& what, uint64_t seed) { return WayRun(what, seed).run(); }

}  // namespace verbena::sim
