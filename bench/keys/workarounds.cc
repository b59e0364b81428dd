// SPDX-License-Identifier: Apache-2.0
#include "workarounds.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "common/side.h"

namespace verbena::bench {
namespace {

using transport::kSignaled;
using transport::SendOp;

constexpr uint32_t kPieceCount = 256;
constexpr uint32_t kUnit = 64;  // pieces are multiples of it, and lie on its multiples
constexpr uint32_t kBytes = 1 << 20;
constexpr uint64_t kMemoryBytes = 8u << 20;
constexpr uint64_t kNotes = 0;            // where announcements are made, and arrive
constexpr uint64_t kScattered = 1 << 20;  // the pieces' memory
constexpr uint64_t kBuffer = 4 << 20;     // side by side
constexpr uint32_t kEntries = 32768;

struct Piece {
  uint64_t addr = 0;
  uint32_t bytes = 0;
  uint32_t key = 0;
};
// What the target tells the initiator: where to write.
struct Note {
  uint32_t count = 0;
  uint32_t unused = 0;
  std::array<Piece, kPieceCount> pieces;
};

// Pieces of unequal length, in no order, with gaps.
[[nodiscard]] std::vector<Piece> scattered(uint64_t base) {
  std::vector<Piece> pieces;
  uint64_t at = base + kUnit;
  uint32_t left = kBytes;
  for (uint32_t i = 0; i < kPieceCount; ++i) {
    const uint32_t even = left / (kPieceCount - i) / kUnit;
    const uint32_t n = i + 1 == kPieceCount ? left : (even - 15 + (i * 7) % 31) * kUnit;
    pieces.push_back({at, n, 0});
    at += n + kUnit * (1 + i % 3);
    left -= n;
  }
  for (uint32_t i = kPieceCount - 1; i > 0; --i) {
    std::swap(pieces[i], pieces[(i * 2654435761u) % (i + 1)]);
  }
  return pieces;
}

class Target {
 public:
  Target(Side& side, Way way)
      : side_(side),
        way_(way),
        base_(reinterpret_cast<uint64_t>(side.memory())),
        pieces_(scattered(base_ + kScattered)) {
    if (way == Way::kIndirectKey || way == Way::kSmallBlocks) {
      const device::Engine::Quiet locked(engine());
      key_ = *locked.memory().create_key(side.pd().id, {.max_entries = kEntries});
    }
  }
  ~Target() {
    if (key_.lkey.value == 0) return;
    const device::Engine::Locked locked(engine());
    (void)locked.memory().destroy_key(key_.lkey);
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Makes the list writable for the peer, and says how.
  void prepare(Note& note) {
    switch (way_) {
      case Way::kIndirectKey:
      case Way::kSmallBlocks: {
        configure();
        note.count = 1;
        note.pieces[0] = {0, kBytes, key_.rkey.value};
        return;
      }
      case Way::kBounce:
        note.count = 1;
        note.pieces[0] = {base_ + kBuffer, kBytes, side_.mr().rkey.value};
        return;
      case Way::kManyRegions:
        for (const Piece& piece : pieces_) {
          auto region =
              side_.context().reg_mr(side_.pd(), side_.memory() + (piece.addr - base_), piece.bytes,
                                     piece.addr, memory::kLocalWrite | memory::kRemoteWrite);
          must(region ? 0 : region.error(), "reg_mr");
          regions_.push_back(std::move(*region));
        }
        break;
      case Way::kPieceByPiece: break;
    }
    note.count = kPieceCount;
    for (uint32_t i = 0; i < kPieceCount; ++i) {
      note.pieces[i] = pieces_[i];
      note.pieces[i].key =
          way_ == Way::kManyRegions ? regions_[i]->rkey.value : side_.mr().rkey.value;
    }
  }
  // The data is there: takes the peer's right away again, and puts the data in its place.
  void finish() {
    for (const auto& region : regions_) must(side_.context().dereg_mr(*region), "dereg_mr");
    regions_.clear();
    if (key_.lkey.value != 0) {
      const device::Engine::Quiet locked(engine());
      (void)locked.memory().invalidate_local(key_.rkey, side_.pd().id);
    }
    if (way_ != Way::kBounce) return;
    const uint8_t* from = side_.memory() + kBuffer;
    for (const Piece& piece : pieces_) {
      std::memcpy(side_.memory() + (piece.addr - base_), from, piece.bytes);
      from += piece.bytes;
    }
  }

 private:
  [[nodiscard]] device::Engine& engine() { return side_.context().device().engine(); }
  void configure() {
    config_.access = memory::kLocalWrite | memory::kRemoteWrite;
    config_.has_layout = true;
    config_.blocks.clear();
    for (const Piece& piece : pieces_) {
      const uint32_t block = way_ == Way::kSmallBlocks ? kUnit : piece.bytes;
      for (uint32_t at = 0; at < piece.bytes; at += block) {
        config_.blocks.push_back({piece.addr + at, block, 0, side_.mr().lkey});
      }
    }
    const device::Engine::Quiet locked(engine());
    const auto fault = locked.memory().configure_key(key_.lkey, side_.pd().id, config_);
    must(fault == memory::Fault::kNone ? 0 : EINVAL, "configure_key");
  }

  Side& side_;
  Way way_;
  uint64_t base_;
  std::vector<Piece> pieces_;
  memory::RegionKeys key_;
  memory::KeyConfig config_;
  std::vector<std::unique_ptr<device::Mr>> regions_;
};

void serve(Side& side, Way way, uint32_t transfers) {
  Target target(side, way);
  Note& note = *reinterpret_cast<Note*>(side.memory() + kNotes);
  for (uint32_t i = 0; i < transfers; ++i) {
    side.post_recv(0, kNotes + sizeof(Note), 0);  // for the WRITE with immediate
    target.prepare(note);
    side.post(0, SendOp::kSend, kNotes, sizeof(Note), kSignaled);
    side.wait(2);  // the announcement went, the data came
    target.finish();
  }
}

// Piece by piece; the last one tells the target.
void drive(Side& side, Way way, uint32_t transfers) {
  constexpr uint32_t kUnderWay = 64;
  const Note& note = *reinterpret_cast<const Note*>(side.memory() + kNotes);
  const uint64_t base = reinterpret_cast<uint64_t>(side.memory());
  for (uint32_t i = 0; i < transfers; ++i) {
    side.wait(1);
    const Note heard = note;
    side.post_recv(0, kNotes, sizeof(Note));
    uint64_t at = base + kBuffer;
    uint32_t out = 0;
    for (uint32_t n = 0; n < heard.count; ++n) {
      const Piece& piece = heard.pieces[n];
      const bool last = n + 1 == heard.count;
      const bool transaction = way == Way::kPieceByPiece || last || n % (kUnderWay / 2) == 0;
      const memory::Sge sge{at, piece.bytes, side.mr().lkey};
      transport::SendRequest request;
      request.op = last ? SendOp::kWriteImm : SendOp::kWrite;
      request.flags = transaction ? uint32_t{kSignaled} : 0;
      request.list = {&sge, 1};
      request.remote_addr = RemoteAddr(piece.addr);
      request.rkey = RKey(piece.key);
      side.post(0, request);
      at += piece.bytes;
      out += transaction ? 1 : 0;
      const uint32_t most = way == Way::kPieceByPiece ? kUnderWay : 2;
      for (; out > (last ? 0 : most); --out) side.wait(1);
    }
  }
}

}  // namespace

const char* name_of(Way way) {
  switch (way) {
    case Way::kIndirectKey:  return "indirect key";
    case Way::kManyRegions:  return "a region for each piece";
    case Way::kBounce:       return "bounce buffer";
    case Way::kPieceByPiece: return "a transaction for each piece";
    case Way::kSmallBlocks:  return "blocks of 64 bytes";
  }
  return "?";
}

std::vector<double> fill_list(Role role, const Control& control, Way way, uint32_t transfers) {
  SideOptions options;
  options.memory_bytes = kMemoryBytes;
  options.depth = 256;
  Side side(control, options);
  // Both ends are ready to receive before either sends.
  if (role == Role::kTarget) {
    control.barrier();
    serve(side, way, transfers);
    return {};
  }
  side.post_recv(0, kNotes, sizeof(Note));
  control.barrier();
  const double begin = now_s();
  drive(side, way, transfers);
  return {static_cast<double>(transfers) * kBytes / (now_s() - begin)};
}

std::vector<double> keys_per_second(Role role, const Control& control, uint32_t pieces,
                                    uint32_t count) {
  constexpr uint32_t kUnderWay = 32;
  SideOptions options;
  options.memory_bytes = kMemoryBytes;
  options.depth = 2 * kUnderWay;
  Side side(control, options);
  if (role == Role::kTarget) return {};
  memory::RegionKeys key;
  {
    const device::Engine::Quiet locked(side.context().device().engine());
    key = *locked.memory().create_key(side.pd().id, {.max_entries = pieces});
  }
  memory::KeyConfig config;
  config.access = memory::kLocalWrite | memory::kRemoteWrite;
  config.has_layout = true;
  for (uint32_t i = 0; i < pieces; ++i) {
    config.blocks.push_back({side.mr().iova + uint64_t{i} * 8192, 4096, 0, side.mr().lkey});
  }
  transport::SendRequest configure;
  configure.op = SendOp::kConfigureKey;
  configure.key = key.lkey;
  configure.config = &config;
  transport::SendRequest invalidate;
  invalidate.op = SendOp::kLocalInvalidate;
  invalidate.invalidate = key.rkey;
  const double begin = now_s();
  for (uint32_t done = 0; done < count; ++done) {
    const bool ask = done % kUnderWay == kUnderWay - 1;
    side.post(0, configure);
    invalidate.flags = ask ? uint32_t{kSignaled} : 0;
    side.post(0, invalidate);
    if (ask) side.wait(1);
  }
  const double rate = count / (now_s() - begin);
  const device::Engine::Locked locked(side.context().device().engine());
  (void)locked.memory().destroy_key(key.lkey);
  return {rate};
}

std::vector<double> regions_per_second(Role role, const Control& control, uint32_t bytes,
                                       uint32_t count) {
  SideOptions options;
  options.memory_bytes = kMemoryBytes;
  Side side(control, options);
  if (role == Role::kTarget) return {};
  const double begin = now_s();
  for (uint32_t i = 0; i < count; ++i) {
    const auto region =
        side.context().reg_mr(side.pd(), side.memory(), bytes,
                              reinterpret_cast<uint64_t>(side.memory()), memory::kLocalWrite);
    must(region ? 0 : region.error(), "reg_mr");
    must(side.context().dereg_mr(**region), "dereg_mr");
  }
  return {count / (now_s() - begin)};
}

}  // namespace verbena::bench
