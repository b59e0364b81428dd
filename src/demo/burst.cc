// SPDX-License-Identifier: Apache-2.0
#include "demo/burst.h"

namespace verbena::demo {
namespace {

using std::chrono::steady_clock;
using transport::QpType;
using transport::SendOp;

// Posted together, with one completion.
constexpr uint32_t kChain = 16;
constexpr uint32_t kChainsInFlight = 8;
constexpr uint32_t kCreditChains = 4;
constexpr uint32_t kReceives = kQueueEntries;
constexpr uint32_t kReceiveChains = kReceives / kChain;
constexpr uint32_t kCreditReceives = 2 * kReceiveChains / kCreditChains;
// Keys are used up by being invalidated; the target makes so many at a time.
constexpr uint32_t kKeys = 4 * kChain;

[[nodiscard]] double seconds_since(steady_clock::time_point start) {
  return std::chrono::duration<double>(steady_clock::now() - start).count();
}

void receive_again(End& end, QpType service) {
  end.post_receive(service, 0, kMaxMessageBytes + kGrhBytes);
}

// A request without data.
void post_empty(End& end, QpType service, SendOp op) {
  std::array<transport::SendRequest, 1> request{};
  request[0].op = op;
  request[0].flags = transport::kSignaled;
  end.post(service, request);
}

// The requests of one chain.
class Chain {
 public:
  Chain(End& end, const Operation& operation, uint32_t length)
      : piece_{end.piece(0, operation.burst_bytes)},
        requests_(length, end.request(operation, 0, piece_)) {
    requests_.back().flags = transport::kSignaled;
  }
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  [[nodiscard]] std::span<transport::SendRequest> requests() { return requests_; }

 private:
  std::array<memory::Sge, 1> piece_;
  std::vector<transport::SendRequest> requests_;
};

// The initiator's view of what is on its way.
struct Flight {
  uint64_t posted = 0;  // chains
  uint64_t completed = 0;
  uint64_t credited = 0;
};

// Takes completions and credits; false: there were none.
bool collect(End& end, Flight& flight) {
  const size_t completed = end.poll_sent().size();
  flight.completed += completed;
  const size_t credits = end.poll_received().size();
  for (size_t i = 0; i < credits; ++i) end.post_receive(QpType::kRc, 0, 0);
  flight.credited += credits * kCreditChains;
  return completed + credits != 0;
}

// The target counts what arrives until it is told how much there is, and all of it has.
void take_messages(End& end, QpType service) {
  Watch watch(end.line(), "messages of a burst do not arrive");
  uint64_t total = ~uint64_t{0};
  uint64_t credits = 0;  // sent, not yet complete
  for (uint64_t received = 0; received < total;) {
    const size_t got = end.poll_received().size();
    for (size_t i = 0; i < got; ++i) {
      receive_again(end, service);
      if (++received % (kChain * kCreditChains) == 0) {
        post_empty(end, QpType::kRc, SendOp::kSendImm);
        ++credits;
      }
    }
    if (got != 0) {
      watch.seen();
      continue;
    }
    credits -= end.poll_sent().size();
    if (total == ~uint64_t{0} && end.line().waiting()) total = end.line().hear<uint64_t>();
    watch.again();
  }
  end.wait_sent(credits);
}

// --- SEND with invalidate: each message needs a key of its own

void take_invalidations(End& end) {
  while (end.line().hear<bool>()) {
    const std::vector<RKey> keys = end.bind_windows(kKeys);
    end.line().tell_bytes(keys.data(), keys.size() * sizeof(RKey));
    for (size_t i = end.wait_received(kKeys).size(); i > 0; --i) receive_again(end, QpType::kRc);
    end.free_windows(keys);
  }
}

// Times the messages, not the making of keys between them.
[[nodiscard]] Rate send_invalidations(End& end, const Operation& operation,
                                      std::chrono::milliseconds length) {
  Rate rate;
  Chain chain(end, operation, kKeys);
  const auto start = steady_clock::now();
  while (steady_clock::now() - start < length) {
    end.line().tell(true);
    for (transport::SendRequest& request : chain.requests()) {
      request.invalidate = end.line().hear<RKey>();
    }
    const auto begin = steady_clock::now();
    end.post(operation.service, chain.requests());
    end.wait_sent(1);
    rate.seconds += seconds_since(begin);
    rate.messages += kKeys;
  }
  end.line().tell(false);
  return rate;
}

}  // namespace

void prepare_bursts_as_target(End& end) {
  for (const QpType service : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    for (uint32_t i = 0; i < kReceives; ++i) receive_again(end, service);
  }
}

void prepare_bursts_as_initiator(End& end) {
  for (uint32_t i = 0; i < kCreditReceives; ++i) end.post_receive(QpType::kRc, 0, 0);
}

void burst_as_target(End& end, const Operation& operation) {
  end.line().meet();
  if (operation.invalidates()) {
    take_invalidations(end);
  } else if (operation.takes_receive()) {
    take_messages(end, operation.service);
  } else {
    // The device serves the initiator without us: we sleep.
    (void)end.line().hear<uint64_t>();
    if (operation.needs_marker()) {
      (void)end.wait_received(1);
      receive_again(end, operation.service);
    }
  }
  end.line().tell('.');
}

Rate burst_as_initiator(End& end, const Operation& operation, std::chrono::milliseconds length) {
  end.line().meet();
  if (operation.invalidates()) {
    const Rate rate = send_invalidations(end, operation, length);
    (void)end.line().hear<char>();
    return rate;
  }
  Chain chain(end, operation, kChain);
  Flight flight;
  Watch watch(end.line(), "a burst does not go on");
  const auto start = steady_clock::now();
  while (steady_clock::now() - start < length || flight.completed < flight.posted) {
    const bool may_post =
        steady_clock::now() - start < length &&
        flight.posted - flight.completed < kChainsInFlight &&
        (!operation.takes_receive() || flight.posted - flight.credited < kReceiveChains);
    if (may_post) {
      end.post(operation.service, chain.requests());
      ++flight.posted;
      watch.seen();
    } else if (collect(end, flight)) {
      watch.seen();
    } else {
      watch.again();
    }
  }
  if (operation.needs_marker()) {
    post_empty(end, operation.service, SendOp::kSend);
    end.wait_sent(1);
  }
  const uint64_t messages = flight.posted * kChain;
  end.line().tell(messages);
  (void)end.line().hear<char>();
  const double seconds = seconds_since(start);
  // Credits of the last messages must not count for the next burst's.
  while (operation.takes_receive() &&
         flight.credited < flight.posted / kCreditChains * kCreditChains) {
    if (!collect(end, flight)) watch.again();
  }
  return {messages, seconds};
}

}  // namespace verbena::demo
