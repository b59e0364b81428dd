// SPDX-License-Identifier: Apache-2.0
#include "sim/loss_table.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/check.h"
#include "link/simulated_node.h"
#include "sim/plain_qp.h"

namespace verbena::sim {
namespace {

using transport::SendOp;

constexpr uint64_t kLinkBitsPerSecond = 25'000'000'000;
constexpr Duration kLinkDelay = 10 * kMicrosecond;
constexpr std::array<uint32_t, 4> kLossPpm = {0, 1'000, 10'000, 50'000};
constexpr uint32_t kWorkDepth = 4;

struct Case {
  SendOp op;
  uint32_t message_bytes;
  transport::Mtu mtu;
  bool keeps[2];  // whether this end keeps early packets; the standard's only goes back
  uint32_t loss_ppm;
};

struct Measured {
  double bits_per_second = 0;
  transport::Counters counters;
};

// One queue pair between two hosts; A posts `op` over and over, kWorkDepth at a time.
class Measurement {
 public:
  explicit Measurement(const Case& what, uint64_t seed)
      : case_(what),
        random_(seed),
        faults_(random_, {.loss_ppm = what.loss_ppm}),
        network_({.delay = kLinkDelay,
                  .bits_per_second = kLinkBitsPerSecond,
                  .queue = 20 * kMicrosecond},
                 faults_),
        a_(network_, random_, options(1, what)),
        b_(network_, random_, options(2, what)),
        qp_a_(a_, what.message_bytes, kWorkDepth),
        qp_b_(b_, what.message_bytes, kWorkDepth) {
    qp_a_.connect(qp_b_, what.mtu, now_);
    qp_b_.connect(qp_a_, what.mtu, now_);
  }

  Measured run(uint32_t messages) {
    uint32_t posted = 0;
    uint32_t done = 0;
    while (posted < std::min(messages, kWorkDepth)) post(posted++);
    while (done < messages) {
      step();
      for (const link::Notice& notice : a_.take_notices()) {
        VERBENA_CHECK(notice.completion.status == transport::WcStatus::kSuccess);
        ++done;
        if (posted < messages) post(posted++);
      }
    }
    const double bits = 8.0 * case_.message_bytes * messages;
    return {bits * 1e9 / static_cast<double>(now_), a_.endpoint().counters()};
  }

 private:
  static link::NodeOptions options(uint8_t host, const Case& what) {
    link::NodeOptions options{.address = wire::Gid::from_ipv4(10, 0, 0, host),
                              .limits = {.max_qps = 4, .max_srqs = 4}};
    if (!what.keeps[host - 1]) options.tuning.hold_buffers = 0;
    return options;
  }

  void post(uint32_t number) { qp_a_.post(qp_b_, case_.op, number, now_); }

  void step() {
    now_ = std::min({network_.next_arrival(), a_.next_event(), b_.next_event()});
    VERBENA_CHECK(now_ != kNever);
    network_.deliver_due(now_);
    for (link::SimulatedNode* node : {&a_, &b_}) {
      node->set_time(now_);
      if (node->next_event() <= now_) node->run(now_);
    }
  }

  Case case_;
  Time now_ = 0;
  SeededRandom random_;
  link::RandomFaults faults_;
  link::SimulatedNetwork network_;
  link::SimulatedNode a_;
  link::SimulatedNode b_;
  PlainQp qp_a_;
  PlainQp qp_b_;
};

// Enough bytes for hundreds of losses at the lowest rate.
constexpr uint64_t kBytesPerCase = 128 << 20;

void print_row(Case what) {
  const char* const op = what.op == SendOp::kWrite ? "WRITE" : "READ";
  const bool mebi = what.message_bytes >= (1 << 20);
  std::printf("| %s | %s | %u %s | %u |",
              what.keeps[0] ? (what.keeps[1] ? "both ends" : "requester") : "neither", op,
              what.message_bytes >> (mebi ? 20 : 10), mebi ? "MiB" : "KiB",
              transport::mtu_bytes(what.mtu));
  double clean = 0;
  for (const uint32_t loss : kLossPpm) {
    what.loss_ppm = loss;
    const auto messages = static_cast<uint32_t>(kBytesPerCase / what.message_bytes);
    const Measured measured = Measurement(what, 1 + loss).run(messages);
    if (loss == 0) {
      clean = measured.bits_per_second;
      std::printf(" %.1f Gb/s |", clean / 1e9);
    } else {
      std::printf(" %.2f |", measured.bits_per_second / clean);
    }
    std::fflush(stdout);
  }
  std::printf("\n");
}

}  // namespace

bool check_loss_floors() {
  struct Floor {
    SendOp op;
    transport::Mtu mtu;
    double least;  // of the loss-free goodput, at 1 % loss
  };
  constexpr uint32_t kMessage = 1 << 20;
  constexpr uint32_t kMessages = 32;
  bool good = true;
  for (const Floor& floor : {Floor{SendOp::kWrite, transport::Mtu::k1024, 0.65},
                             Floor{SendOp::kWrite, transport::Mtu::k4096, 0.85},
                             Floor{SendOp::kRead, transport::Mtu::k1024, 0.65},
                             Floor{SendOp::kRead, transport::Mtu::k4096, 0.80}}) {
    Case what{floor.op, kMessage, floor.mtu, {true, true}, 0};
    const double clean = Measurement(what, 1).run(kMessages).bits_per_second;
    what.loss_ppm = 10'000;
    const double share = Measurement(what, 2).run(kMessages).bits_per_second / clean;
    const bool enough = share >= floor.least;
    good = good && enough;
    std::printf("%s, MTU %u, 1 %% loss: %.2f of the goodput remains, at least %.2f wanted%s\n",
                floor.op == SendOp::kWrite ? "WRITE" : "READ", transport::mtu_bytes(floor.mtu),
                share, floor.least, enough ? "" : ": TOO LITTLE");
  }
  return good;
}

void print_loss_table() {
  std::printf(
      "Link of %llu Gb/s, %lld us one way; one RC queue pair, %u messages posted ahead; loss in "
      "both\n"
      "directions alike. Goodput without loss, then the share of it that remains.\n\n"
      "| holds early packets | operation | message | MTU | no loss | 0.1%% | 1%% | 5%% |\n"
      "|---|---|---|---|---|---|---|---|\n",
      static_cast<unsigned long long>(kLinkBitsPerSecond / 1'000'000'000),
      static_cast<long long>(kLinkDelay / kMicrosecond), kWorkDepth);
  constexpr std::array<std::array<bool, 2>, 3> kKeeps = {
      {{true, true}, {true, false}, {false, false}}};
  for (const auto& keeps : kKeeps) {
    for (const SendOp op : {SendOp::kWrite, SendOp::kRead}) {
      for (const uint32_t bytes : {64u << 10, 1u << 20}) {
        for (const transport::Mtu mtu : {transport::Mtu::k1024, transport::Mtu::k4096}) {
          print_row({op, bytes, mtu, {keeps[0], keeps[1]}, 0});
        }
      }
    }
  }
}

}  // namespace verbena::sim
