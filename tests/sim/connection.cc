// SPDX-License-Identifier: Apache-2.0
#include "sim/connection.h"

namespace verbena::sim {

using namespace transport;

namespace {

void modify(World& world, const End& end, const QpAttr& attr, uint32_t mask) {
  const auto done = world.endpoint(end.host).modify_qp(end.qpn, attr, mask, world.now());
  SIM_REQUIRE(done.has_value(), "modify_qp to %s refused: %s", to_string(attr.state),
              to_string(done.error()));
}

}  // namespace

void connect(World& world, const End& end, QpType type, const End& peer, const Terms& terms) {
  const bool rc = type == QpType::kRc;
  const bool ud = type == QpType::kUd;
  QpAttr attr;
  attr.port = 1;
  attr.access = terms.access;
  attr.qkey = terms.qkey;
  attr.mtu = terms.mtu;
  attr.dest_qpn = peer.qpn;
  attr.path.source = world.node(end.host).address();
  attr.path.destination = world.node(peer.host).address();
  attr.path.source_port = terms.source_port;
  attr.path.may_be_marked = terms.may_be_marked;
  attr.rq_psn = terms.recv_psn;
  attr.sq_psn = terms.send_psn;
  attr.timeout = terms.timeout;
  attr.retry_count = terms.retry_count;
  attr.rnr_retry = terms.rnr_retry;
  attr.min_rnr_timer = terms.min_rnr_timer;
  attr.max_rd_atomic = terms.max_rd_atomic;
  attr.max_dest_rd_atomic = terms.max_dest_rd_atomic;

  attr.state = QpState::kInit;
  modify(world, end, attr,
         kAttrState | kAttrPkeyIndex | kAttrPort | (ud ? kAttrQkey : kAttrAccess));
  attr.state = QpState::kRtr;
  uint32_t mask = kAttrState;
  if (!ud) mask |= kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn;
  if (rc) mask |= kAttrMaxDestRdAtomic | kAttrMinRnrTimer;
  modify(world, end, attr, mask);
  attr.state = QpState::kRts;
  mask = kAttrState | kAttrSqPsn;
  if (rc) mask |= kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic;
  modify(world, end, attr, mask);
}

void move_to(World& world, const End& end, QpState state) {
  QpAttr attr;
  attr.state = state;
  attr.sqd_notify = true;
  modify(world, end, attr, kAttrState | (state == QpState::kSqd ? uint32_t{kAttrSqdNotify} : 0));
}

}  // namespace verbena::sim
