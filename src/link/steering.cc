// SPDX-License-Identifier: Apache-2.0
#include "link/steering.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <sys/socket.h>

#include "link/shared_table.h"

namespace verbena::link {
namespace {

struct Leaf {
  uint8_t slot;
  uint32_t index;
};

[[nodiscard]] sock_filter load_byte(uint32_t at) { return BPF_STMT(BPF_LD | BPF_B | BPF_ABS, at); }
[[nodiscard]] sock_filter answer(uint32_t value) { return BPF_STMT(BPF_RET | BPF_K, value); }
[[nodiscard]] sock_filter jump(uint16_t test, uint32_t value, uint8_t if_true, uint8_t if_false) {
  return {static_cast<uint16_t>(BPF_JMP | test | BPF_K), if_true, if_false, value};
}

void add_tree(std::vector<sock_filter>& program, std::span<const Leaf> leaves) {
  if (leaves.empty()) {
    program.push_back(answer(kAnySocket));
    return;
  }
  if (leaves.size() == 1) {
    program.push_back(jump(BPF_JEQ, leaves[0].slot, 0, 1));
    program.push_back(answer(leaves[0].index));
    program.push_back(answer(kAnySocket));
    return;
  }
  const size_t half = leaves.size() / 2;
  // The left half comes first. It may be longer than a conditional jump reaches, an unconditional
  // one is not.
  program.push_back(jump(BPF_JGE, leaves[half].slot, 0, 1));
  const size_t over_left = program.size();
  program.push_back(jump(BPF_JA, 0, 0, 0));
  add_tree(program, leaves.first(half));
  program[over_left].k = static_cast<uint32_t>(program.size() - over_left - 1);
  add_tree(program, leaves.subspan(half));
}

// Either answers, or leaves a slot where the tree expects it.
void add_gsi(std::vector<sock_filter>& program, size_t members,
             const ManagementAttributes& messages) {
  const std::array<sock_filter, 15> gsi{{
      jump(BPF_JEQ, kGsiSlot, 0, 14),
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, kAttributeAt),
      jump(BPF_JEQ, messages.request, 6, 0),
      jump(BPF_JEQ, messages.sidr_request, 5, 0),
      jump(BPF_JEQ, messages.sidr_reply, 2, 0),
      load_byte(kRemoteIdByte),
      jump(BPF_JA, 8, 0, 0),
      load_byte(kOwnIdByte),
      jump(BPF_JA, 6, 0, 0),
      load_byte(kHintByte),
      jump(BPF_JEQ, 0, 1, 0),
      jump(BPF_JA, 3, 0, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kRandomWord),
      BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, static_cast<uint32_t>(std::max<size_t>(members, 1))),
      BPF_STMT(BPF_RET | BPF_A, 0),
  }};
  program.insert(program.end(), gsi.begin(), gsi.end());
}

}  // namespace

std::vector<sock_filter> steering_program(std::span<const uint8_t> order,
                                          const ManagementAttributes& messages) {
  std::vector<Leaf> leaves;
  for (size_t i = 0; i < order.size(); ++i) leaves.push_back({order[i], static_cast<uint32_t>(i)});
  std::ranges::sort(leaves, {}, &Leaf::slot);
  std::vector<sock_filter> program;
  program.push_back(load_byte(kSlotByte));
  program.push_back(jump(BPF_JEQ, kProbeSlot, 0, 2));
  program.push_back(load_byte(kProbeIndexByte));
  program.push_back(BPF_STMT(BPF_RET | BPF_A, 0));
  add_gsi(program, order.size(), messages);
  add_tree(program, leaves);
  return program;
}

int attach_steering(int fd, std::span<const uint8_t> order, const ManagementAttributes& messages) {
  std::vector<sock_filter> program = steering_program(order, messages);
  const sock_fprog described{static_cast<unsigned short>(program.size()), program.data()};
  return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &described, sizeof described) == 0
             ? 0
             : errno;
}

}  // namespace verbena::link
