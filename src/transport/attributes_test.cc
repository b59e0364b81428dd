// SPDX-License-Identifier: Apache-2.0
// The table of transitions: type x from x to, with every attribute required, missing and extra.
#include "transport/attributes.h"

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

using enum QpState;

constexpr QpState kStates[] = {kReset, kInit, kRtr, kRts, kSqd, kSqe, kErr};
constexpr uint32_t kEveryAttr[] = {
    kAttrSqdNotify,     kAttrAccess,      kAttrPkeyIndex, kAttrPort,
    kAttrQkey,          kAttrPath,        kAttrMtu,       kAttrTimeout,
    kAttrRetryCount,    kAttrRnrRetry,    kAttrRqPsn,     kAttrMaxRdAtomic,
    kAttrAltPath,       kAttrMinRnrTimer, kAttrSqPsn,     kAttrMaxDestRdAtomic,
    kAttrPathMigration, kAttrCap,         kAttrDestQpn,   kAttrRateLimit};

struct Rule {
  uint32_t required = 0;
  uint32_t optional = 0;
};
using Key = std::tuple<QpType, QpState, QpState>;

// Written again, by type, from ibv_modify_qp(3) and IBA table 91 (and not from attributes.cc):
// CurState is optional everywhere.
std::map<Key, Rule> rules() {
  std::map<Key, Rule> table;
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    for (const QpState from : kStates) {
      table[{type, from, kReset}] = {};
      table[{type, from, kErr}] = {};
    }
    table[{type, kRts, kSqd}] = {0, kAttrSqdNotify};
  }
  const uint32_t rc_running = kAttrAccess | kAttrAltPath | kAttrPathMigration | kAttrMinRnrTimer;
  const uint32_t uc_running = kAttrAccess | kAttrAltPath | kAttrPathMigration;
  table[{QpType::kRc, kReset, kInit}] = {kAttrPkeyIndex | kAttrPort | kAttrAccess, 0};
  table[{QpType::kRc, kInit, kInit}] = {0, kAttrPkeyIndex | kAttrPort | kAttrAccess};
  table[{QpType::kRc, kInit, kRtr}] = {
      kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn | kAttrMaxDestRdAtomic | kAttrMinRnrTimer,
      kAttrAltPath | kAttrAccess | kAttrPkeyIndex};
  table[{QpType::kRc, kRtr, kRts}] = {
      kAttrTimeout | kAttrRetryCount | kAttrRnrRetry | kAttrSqPsn | kAttrMaxRdAtomic, rc_running};
  table[{QpType::kRc, kRts, kRts}] = {0, rc_running};
  table[{QpType::kRc, kSqd, kRts}] = {0, rc_running};
  table[{QpType::kRc, kSqd, kSqd}] = {0, kAttrPath | kAttrAltPath | kAttrAccess | kAttrPkeyIndex |
                                             kAttrPathMigration | kAttrPort | kAttrTimeout |
                                             kAttrRetryCount | kAttrRnrRetry | kAttrMaxRdAtomic |
                                             kAttrMaxDestRdAtomic | kAttrMinRnrTimer};
  table[{QpType::kUc, kReset, kInit}] = {kAttrPkeyIndex | kAttrPort | kAttrAccess, 0};
  table[{QpType::kUc, kInit, kInit}] = {0, kAttrPkeyIndex | kAttrPort | kAttrAccess};
  table[{QpType::kUc, kInit, kRtr}] = {kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn,
                                       kAttrAltPath | kAttrAccess | kAttrPkeyIndex};
  table[{QpType::kUc, kRtr, kRts}] = {kAttrSqPsn, uc_running};
  table[{QpType::kUc, kRts, kRts}] = {0, uc_running};
  table[{QpType::kUc, kSqd, kRts}] = {0, uc_running};
  table[{QpType::kUc, kSqd, kSqd}] = {
      0, kAttrPath | kAttrAltPath | kAttrAccess | kAttrPkeyIndex | kAttrPathMigration};
  table[{QpType::kUc, kSqe, kRts}] = {0, kAttrAccess};
  table[{QpType::kUd, kReset, kInit}] = {kAttrPkeyIndex | kAttrPort | kAttrQkey, 0};
  table[{QpType::kUd, kInit, kInit}] = {0, kAttrPkeyIndex | kAttrPort | kAttrQkey};
  table[{QpType::kUd, kInit, kRtr}] = {0, kAttrPkeyIndex | kAttrQkey};
  table[{QpType::kUd, kRtr, kRts}] = {kAttrSqPsn, kAttrQkey};
  table[{QpType::kUd, kRts, kRts}] = {0, kAttrQkey | kAttrRateLimit};
  table[{QpType::kUd, kSqd, kRts}] = {0, kAttrQkey};
  table[{QpType::kUd, kSqd, kSqd}] = {0, kAttrPkeyIndex | kAttrQkey};
  table[{QpType::kUd, kSqe, kRts}] = {0, kAttrQkey};
  return table;
}

TEST(Attributes, TheWholeTableOfTransitions) {
  const auto table = rules();
  int allowed = 0;
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd}) {
    for (const QpState from : kStates) {
      for (const QpState to : kStates) {
        SCOPED_TRACE(std::to_string(static_cast<int>(type)) + " " + to_string(from) + " -> " +
                     to_string(to));
        const auto rule = table.find({type, from, to});
        if (rule == table.end()) {
          EXPECT_FALSE(transition_allowed(type, from, to, kAttrState));
          EXPECT_FALSE(transition_allowed(type, from, to, ~0u));
          continue;
        }
        ++allowed;
        const auto [required, optional] = rule->second;
        EXPECT_TRUE(transition_allowed(type, from, to, kAttrState | required));
        EXPECT_TRUE(
            transition_allowed(type, from, to, kAttrState | kAttrCurState | required | optional));
        for (const uint32_t attr : kEveryAttr) {
          if ((required & attr) != 0) {
            EXPECT_FALSE(transition_allowed(type, from, to, kAttrState | (required & ~attr)))
                << "without " << attr;
          } else {
            EXPECT_EQ(transition_allowed(type, from, to, kAttrState | required | attr),
                      (optional & attr) != 0)
                << "with " << attr;
          }
        }
      }
    }
  }
  EXPECT_EQ(allowed, 3 * (14 + 1) + 7 + 8 + 8);
}

class AttributeValues : public EndpointTest {};

TEST_F(AttributeValues, RefusedOnesLeaveTheQueuePairAsItWas) {
  create(init());
  QpAttr attr = defaults();
  attr.state = kInit;
  EXPECT_TRUE(refused(endpoint_->modify_qp(kQpn, attr, init_mask(QpType::kRc) & ~kAttrPort, now_),
                      Error::kInvalid));
  EXPECT_EQ(state(), kReset);
  to_init(attr);

  const auto bad = [&](auto change, QpState to, uint32_t mask) {
    QpAttr wrong = defaults();
    change(wrong);
    wrong.state = to;
    const QpState before = state();
    EXPECT_TRUE(refused(endpoint_->modify_qp(kQpn, wrong, mask, now_), Error::kInvalid));
    EXPECT_EQ(state(), before);
  };
  const uint32_t rtr = rtr_mask(QpType::kRc);
  bad([](QpAttr& a) { a.mtu = static_cast<Mtu>(0); }, kRtr, rtr);
  bad([](QpAttr& a) { a.mtu = static_cast<Mtu>(6); }, kRtr, rtr);
  bad([](QpAttr& a) { a.min_rnr_timer = 32; }, kRtr, rtr);
  bad([](QpAttr& a) { a.max_dest_rd_atomic = 129; }, kRtr, rtr);
  bad([](QpAttr& a) { a.dest_qpn = Qpn(0x1000000); }, kRtr, rtr);
  bad([](QpAttr&) {}, kRtr, rtr | kAttrAltPath);  // not offered
  to_rtr(attr);
  const uint32_t rts = rts_mask(QpType::kRc);
  bad([](QpAttr& a) { a.timeout = 32; }, kRts, rts);
  bad([](QpAttr& a) { a.retry_count = 8; }, kRts, rts);
  bad([](QpAttr& a) { a.rnr_retry = 8; }, kRts, rts);
  bad([](QpAttr& a) { a.max_rd_atomic = 129; }, kRts, rts);
  bad([](QpAttr& a) { a.cur_state = kRts; }, kRts, rts | kAttrCurState);
  to_rts(attr);
  const QpAttr now = endpoint_->query_qp(kQpn).value();
  EXPECT_EQ(now.timeout, attr.timeout);
  EXPECT_EQ(now.sq_psn, attr.sq_psn);
  EXPECT_EQ(now.dest_qpn, attr.dest_qpn);
  EXPECT_EQ(now.access, attr.access);
}

TEST_F(AttributeValues, OnlyWhatTheMaskNamesIsTaken) {
  connect();
  QpAttr attr;
  attr.access = memory::kRemoteRead;
  attr.min_rnr_timer = 5;
  attr.timeout = 1;
  ASSERT_TRUE(accepted(endpoint_->modify_qp(kQpn, attr, kAttrAccess, now_)));
  const QpAttr now = endpoint_->query_qp(kQpn).value();
  EXPECT_EQ(now.access, uint32_t{memory::kRemoteRead});
  EXPECT_EQ(now.min_rnr_timer, defaults().min_rnr_timer);
  EXPECT_EQ(now.timeout, defaults().timeout);
  EXPECT_EQ(now.state, kRts);
}

TEST_F(AttributeValues, AccessTakenAwayIsTakenAway) {
  connect();
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  QpAttr attr;
  attr.access = memory::kRemoteRead;
  ASSERT_TRUE(accepted(endpoint_->modify_qp(kQpn, attr, kAttrAccess, now_)));
  receive(write(Op::kWriteOnly, 1, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "ACK 0 msn 1, NAK invalid 1 msn 1");
}

TEST_F(AttributeValues, AQueuePairThatDoesNotExist) {
  EXPECT_TRUE(refused(endpoint_->modify_qp(Qpn(5), {}, kAttrState, now_), Error::kNoSuchQp));
  EXPECT_TRUE(refused(endpoint_->query_qp(Qpn(5)), Error::kNoSuchQp));
}

}  // namespace
}  // namespace verbena::transport::testing
