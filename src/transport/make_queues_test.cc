// SPDX-License-Identifier: Apache-2.0
// A queue pair made in two steps.
#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class MakeQueues : public EndpointTest {};

TEST_F(MakeQueues, QueuesAreTakenByTheNumberThatIsFree) {
  create(init(), Qpn(0x44));
  auto queues = endpoint_->make_queues(init());
  ASSERT_TRUE(accepted(queues));
  EXPECT_TRUE(refused(endpoint_->create_qp(init(), Qpn(0x44), *queues), Error::kBusy));
  ASSERT_TRUE(accepted(endpoint_->create_qp(init(), kQpn, *queues)));
  // With all the room that was asked for.
  bring_up(defaults());
  for (uint32_t i = 0; i < init().max_recv_entries; ++i) {
    ASSERT_TRUE(accepted(endpoint_->post_recv(kQpn, {})));
  }
  EXPECT_TRUE(refused(endpoint_->post_recv(kQpn, {}), Error::kQueueFull));
}

TEST_F(MakeQueues, AreNotMadeForWhatIsRefused) {
  QpInit bad = init();
  bad.send.max_entries = 1U << 31;
  EXPECT_TRUE(refused(endpoint_->make_queues(bad), Error::kInvalid));
}

}  // namespace
}  // namespace verbena::transport::testing
