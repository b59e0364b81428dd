// SPDX-License-Identifier: Apache-2.0
#include "transfers.h"

#include <algorithm>
#include <cerrno>

#include "common/side.h"

namespace verbena::bench {
namespace {

using transport::SendOp;

constexpr uint32_t kPieces = 256;
constexpr uint32_t kBlock = 4048;
constexpr uint32_t kChunk = 4096;
constexpr uint32_t kCrcOffset = 4084;  // of the data's CRC in a chunk
constexpr uint64_t kMemory = 4u << 20;

// Unequal pieces that end where the message does, with gaps between them.
[[nodiscard]] std::vector<memory::KeyBlock> pieces(uint64_t base, LKey key) {
  std::vector<memory::KeyBlock> blocks;
  uint64_t at = base + 3;
  uint32_t left = kMessageBytes;
  for (uint32_t i = 0; i < kPieces; ++i) {
    const uint32_t even = left / (kPieces - i);
    const uint32_t n = i + 1 == kPieces ? left : even - 61 + (i * 37) % 123;
    blocks.push_back({at, n, 0, key});
    at += n + 13;
    left -= n;
  }
  return blocks;
}

[[nodiscard]] memory::KeyConfig shape_of(Shape shape, uint64_t base, LKey key) {
  memory::KeyConfig config;
  config.access = memory::kLocalWrite | memory::kRemoteRead | memory::kRemoteWrite;
  config.has_layout = true;
  switch (shape) {
    case Shape::kPlain: config.blocks = {{base, kMessageBytes, 0, key}}; break;
    case Shape::kList:  config.blocks = pieces(base, key); break;
    case Shape::kInterleave:
    case Shape::kSigned:
      config.interleaved = true;
      config.repeat = kMessageBytes / kBlock;
      config.blocks = {{base, kBlock, kChunk - kBlock, key}};
      break;
  }
  if (shape == Shape::kSigned) {
    config.blocks.push_back({base + kCrcOffset, 4, kChunk - 4, key});
    config.signature = memory::Signature{
        .memory = {.kind = memory::SignatureKind::kCrc32, .block = kBlock, .seed = 0xffffffff},
        .check_mask = 0xf0};
  }
  return config;
}

}  // namespace

std::vector<double> transfer(Role role, const Control& control, const Transfer& what,
                             uint64_t total_bytes) {
  constexpr uint32_t kUnderWay = 16;
  SideOptions options;
  options.mtu = what.mtu;
  options.depth = kUnderWay;
  options.memory_bytes = kMemory;
  Side side(control, options);
  const Shape shape = role == Role::kTarget ? what.target : what.source;
  memory::RegionKeys keys{side.mr().lkey, side.mr().rkey};
  uint64_t addr = side.mr().iova;
  if (shape != Shape::kPlain) {
    const device::Engine::Quiet locked(side.context().device().engine());
    keys = *locked.memory().create_key(side.pd().id, {.max_entries = 512, .signature = true});
    const auto fault = locked.memory().configure_key(keys.lkey, side.pd().id,
                                                     shape_of(shape, addr, side.mr().lkey));
    must(fault == memory::Fault::kNone ? 0 : EINVAL, "configure_key");
    addr = 0;
  }
  control.tell(&addr, sizeof addr);
  control.tell(&keys.rkey.value, 4);
  uint64_t remote_addr = 0;
  uint32_t remote_key = 0;
  control.hear(&remote_addr, sizeof remote_addr);
  control.hear(&remote_key, 4);

  double rate = 0;
  if (role == Role::kInitiator) {
    const memory::Sge sge{addr, kMessageBytes, keys.lkey};
    transport::SendRequest request;
    request.op = SendOp::kWrite;
    request.flags = transport::kSignaled;
    request.list = {&sge, 1};
    request.remote_addr = RemoteAddr(remote_addr);
    request.rkey = RKey(remote_key);
    const uint64_t messages = std::max<uint64_t>(total_bytes / kMessageBytes, kUnderWay);
    const double begin = now_s();
    for (uint64_t posted = 0, done = 0; done < messages; ++done) {
      for (; posted < messages && posted - done < kUnderWay; ++posted) side.post(0, request);
      side.wait(1);
    }
    rate = static_cast<double>(messages) * kMessageBytes / (now_s() - begin);
  }
  control.barrier();
  if (shape != Shape::kPlain) {
    const device::Engine::Locked locked(side.context().device().engine());
    (void)locked.memory().destroy_key(keys.lkey);
  }
  return {rate};
}

}  // namespace verbena::bench
