// SPDX-License-Identifier: Apache-2.0
#include "wire/run.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbena::wire {
namespace {

constexpr uint32_t kPayload = 256;
constexpr uint32_t kSegment = Bth::kBytes + kPayload + kIcrcBytes;

// Packets as the kernel joins them.
class Joined {
 public:
  explicit Joined(Psn first) : psn_(first) {}
  Joined& add(Op op, bool ack = false, Service service = Service::kRc) {
    Bth bth;
    bth.opcode = opcode_byte(service, op);
    bth.dest_qp = Qpn(0x123456);
    bth.ack_request = ack;
    bth.psn = psn_;
    psn_ = psn_.next();
    std::vector<uint8_t> packet(kSegment);
    bth.write(packet.data());
    bytes.insert(bytes.end(), packet.begin(), packet.end());
    return *this;
  }
  [[nodiscard]] uint8_t* packet(size_t i) { return bytes.data() + i * kSegment; }
  [[nodiscard]] Run run() const { return find_run(bytes, kSegment); }

  std::vector<uint8_t> bytes;

 private:
  Psn psn_;
};

[[nodiscard]] Joined middles(int count, Psn first = Psn(7)) {
  Joined joined(first);
  for (int i = 0; i < count; ++i) joined.add(Op::kWriteMiddle, i == 2);
  return joined;
}

TEST(FindRun, IsOfMiddlesOfOneMessage) {
  for (const Op op : {Op::kWriteMiddle, Op::kSendMiddle, Op::kReadResponseMiddle}) {
    const auto run = Joined(Psn(7)).add(op).add(op, true).add(op).run();
    EXPECT_EQ(run.packets, 3u);
    EXPECT_EQ(run.payload_bytes(), kPayload);
    EXPECT_EQ(run.first.bth.psn, Psn(7));
    EXPECT_EQ(run.first.bth.dest_qp, Qpn(0x123456));
  }
  EXPECT_EQ(Joined(Psn(7)).add(Op::kWriteLast).add(Op::kWriteMiddle).run().packets, 0u);
  EXPECT_EQ(
      Joined(Psn(7)).add(Op::kWriteMiddle).add(Op::kWriteMiddle).add(Op::kWriteLast).run().packets,
      2u);
  EXPECT_EQ(Joined(Psn(7)).add(Op::kWriteMiddle).add(Op::kSendMiddle).run().packets, 1u);
}

TEST(FindRun, OneIsNone) {
  EXPECT_EQ(middles(1).run().packets, 0u);
  EXPECT_EQ(find_run({}, kSegment).packets, 0u);
}

TEST(FindRun, EndsWhereAnythingButTheAckRequestDiffers) {
  for (size_t byte = 0; byte < Bth::kBytes; ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      Joined joined = middles(5);
      joined.packet(3)[byte] ^= static_cast<uint8_t>(1 << bit);
      const bool ack_request = byte == 8 && bit == 7;
      EXPECT_EQ(joined.run().packets, ack_request ? 5u : 3u) << byte << "." << bit;
    }
  }
}

TEST(FindRun, StopsBeforeAPacketThatIsCut) {
  Joined joined = middles(4);
  joined.bytes.pop_back();
  EXPECT_EQ(joined.run().packets, 3u);
}

TEST(FindRun, StopsWherePsnsBeginAgain) { EXPECT_EQ(middles(5, Psn(0xfffffe)).run().packets, 2u); }

TEST(FindRun, OfWhatIsNoPacketThereIsNone) {
  Joined joined = middles(3);
  for (size_t i = 0; i < 3; ++i) joined.packet(i)[1] |= 0x0f;  // version
  EXPECT_EQ(joined.run().packets, 0u);
  EXPECT_EQ(find_run(joined.bytes, 8).packets, 0u);
}

}  // namespace
}  // namespace verbena::wire
