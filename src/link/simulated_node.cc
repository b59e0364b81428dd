// SPDX-License-Identifier: Apache-2.0
#include "link/simulated_node.h"

#include <algorithm>

#include "wire/network.h"

namespace verbena::link {

SimulatedNode::SimulatedNode(SimulatedNetwork& network, RandomSource& random,
                             const NodeOptions& options)
    : network_(network),
      random_(random),
      options_(options),
      port_(network.attach(options.address, *this)),
      staging_(wire::kMaxMtu),
      send_cq_(*this, Notice::Kind::kSendDone),
      recv_cq_(*this, Notice::Kind::kReceiveDone),
      memory_(random, options.memory),
      endpoint_(memory_, *this, *this, random, options.limits, options.tuning) {}

// The frame is built here and now, so payload pieces need not stay (work.h asks less of us than it
// may).
void SimulatedNode::send(const transport::OutPacket& packet) {
  network_.send(port_, packet.path->destination, frame_of(packet, next_ipv4_id_++), now_);
}

void SimulatedNode::on_arrival(std::vector<uint8_t> frame, Time now) {
  arrived_.push_back(std::move(frame));
  if (poll_at_ != kNever) return;
  poll_at_ = now;
  if (options_.max_poll_delay > 0) {
    poll_at_ +=
        static_cast<Duration>(random_.below(static_cast<uint64_t>(options_.max_poll_delay)));
  }
}

Time SimulatedNode::next_event() const {
  Time deadline = endpoint_.next_deadline();
  if (deadline == 0) deadline = has_room() ? now_ : std::max(now_, network_.room_at(port_));
  return std::min(poll_at_, deadline);
}

void SimulatedNode::receive(std::span<const uint8_t> frame) {
  if (const auto packet = open_frame(frame)) {
    endpoint_.receive(*packet, now_);
  } else {
    ++bad_frames_;
  }
}

size_t SimulatedNode::receive_joined(size_t most) {
  const auto first = wire::dissect(arrived_.front());
  if (!first) return 0;
  joined_.clear();
  size_t count = 0;
  for (; count < std::min(most, arrived_.size()); ++count) {
    const auto frame = wire::dissect(arrived_[count]);
    if (!frame || frame->transport.size() != first->transport.size() ||
        frame->flow.source != first->flow.source || frame->tos != first->tos ||
        frame->flow.source_port != first->flow.source_port) {
      break;
    }
    joined_.insert(joined_.end(), frame->transport.begin(), frame->transport.end());
  }
  return endpoint_.receive_run(
      joined_, static_cast<uint32_t>(first->transport.size()), first->flow.source,
      first->flow.destination, first->tos, now_,
      [&](uint32_t i, std::span<const uint8_t>) { return open_frame(arrived_[i]).has_value(); });
}

void SimulatedNode::handle_now(std::span<const uint8_t> frame, Time now) {
  now_ = now;
  receive(frame);
  endpoint_.finish_batch(now);
}

void SimulatedNode::run(Time now) {
  now_ = now;
  if (poll_at_ <= now) {
    const size_t batch = 1 + random_.below(options_.max_batch);
    for (size_t left = batch; left > 0 && !arrived_.empty();) {
      if (const size_t joined = receive_joined(left); joined != 0) {
        arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<ptrdiff_t>(joined));
        left -= joined;
        continue;
      }
      const std::vector<uint8_t> frame = std::move(arrived_.front());
      arrived_.pop_front();
      receive(frame);
      --left;
    }
    endpoint_.finish_batch(now);
    poll_at_ = arrived_.empty() ? kNever : now;
  }
  if (endpoint_.next_deadline() <= now) endpoint_.advance(now);
}

}  // namespace verbena::link
