// SPDX-License-Identifier: Apache-2.0
#include "sim/plain_qp.h"

#include "base/check.h"

namespace verbena::sim {

PlainQp::PlainQp(link::SimulatedNode& node, uint32_t message_bytes, uint32_t depth)
    : node_(node),
      message_bytes_(message_bytes),
      depth_(depth),
      memory_(size_t{message_bytes} * depth) {
  const PdId pd = node.memory().allocate_pd().value();
  qpn_ = node.endpoint()
             .create_qp({.pd = pd,
                         .send_cq = node.send_cq(),
                         .recv_cq = node.recv_cq(),
                         .send = {.max_entries = depth, .max_sge = 1}})
             .value();
  keys_ = node.memory()
              .register_region(
                  pd, {.base = memory_.data(),
                       .length = memory_.size(),
                       .iova = kIova,
                       .access = memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead})
              .value();
}

void PlainQp::connect(const PlainQp& peer, transport::Mtu mtu, Time now, bool marked) {
  using namespace transport;
  QpAttr attr;
  attr.access = memory::kRemoteWrite | memory::kRemoteRead;
  attr.mtu = mtu;
  attr.dest_qpn = peer.qpn_;
  attr.path.source = node_.address();
  attr.path.destination = peer.node_.address();
  attr.path.may_be_marked = marked;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 16;
  attr.timeout = 14;
  attr.retry_count = attr.rnr_retry = 7;
  attr.state = QpState::kInit;
  const auto go = [&](uint32_t mask) {
    VERBENA_CHECK(node_.endpoint().modify_qp(qpn_, attr, kAttrState | mask, now).has_value());
  };
  go(kAttrPkeyIndex | kAttrPort | kAttrAccess);
  attr.state = QpState::kRtr;
  go(kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer);
  attr.state = QpState::kRts;
  go(kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic);
}

void PlainQp::post(const PlainQp& peer, transport::SendOp op, uint64_t number, Time now) {
  const uint64_t at = kIova + number % depth_ * message_bytes_;
  const memory::Sge sge{at, message_bytes_, keys_.lkey};
  transport::SendRequest request;
  request.wr_id = number;
  request.op = op;
  request.flags = transport::kSignaled;
  request.list = {&sge, 1};
  request.remote_addr = RemoteAddr(at);
  request.rkey = peer.keys_.rkey;
  VERBENA_CHECK(node_.endpoint().post_send(qpn_, request, now).has_value());
}

}  // namespace verbena::sim
