// SPDX-License-Identifier: Apache-2.0
// A member that writes anything into its ring, also while it is read: nothing may be read outside
// the ring, and whatever is handed on must be a packet for this process. The words of ring.h as
// well as what SharedLink and Intake make of records. The corpus is in tests/corpus/ring.
//
// An input is a row of steps, each a byte that says what happens, then what it needs:
//
//   0x00-0x3f  a record behind the last: its word (8 bytes), then as many headers as the word says.
//              Bit 0: a flow of this host's addresses instead of the headers; bit 1: to the
//              receiver
//   0x40-0x7f  a word (8 bytes) anywhere: the line (2 bytes), the word in it by bits 0..2
//   0x80-0xbf  the receiver reads. Bit 0: when it has been handed the first packet, the word that
//              follows (as above) is written
//   0xc0-0xdf  how far the receiver is: 8 bytes
//   0xe0-0xff  from here on packets go past a filter (bit 0), or do not
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include <poll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/random.h"
#include "link/bell.h"
#include "link/clock.h"
#include "link/host_link.h"
#include "link/ring_test_fixture.h"

namespace verbena::link {
namespace {

constexpr uint32_t kRingBytes = Ring::kLeastBytes;
constexpr wire::Gid kLoopback = wire::Gid::from_ipv4(127, 0, 0, 1);

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  // Zeroes after the end.
  void take(std::span<uint8_t> room) {
    const auto part = bytes_.first(std::min(room.size(), bytes_.size()));
    std::ranges::fill(std::ranges::copy(part, room.begin()).out, room.end(), uint8_t{0});
    bytes_ = bytes_.subspan(part.size());
  }
  template <typename T>
  [[nodiscard]] T take() {
    T value{};
    take({reinterpret_cast<uint8_t*>(&value), sizeof value});
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
};

struct Change {
  size_t at = 0;
  uint64_t word = 0;
};

// What is handed on is right, and can be read to its last byte.
class Checker final : public Arrivals, public ReceiveFilter {
 public:
  void on_packet(const transport::InPacket& packet, Time) override {
    check(packet.view);
    VERBENA_CHECK(packet.source == kLoopback && packet.destination == kLoopback);
  }
  [[nodiscard]] uint32_t on_joined(const Joined&, PacketCheck&, Time) override { return 0; }
  [[nodiscard]] uint32_t on_run(const wire::Run& run, std::span<const uint8_t> payload,
                                const wire::Gid&, const wire::Gid&, bool, Time) override {
    check(run.first);
    VERBENA_CHECK(run.packets >= 2 && payload.size() == run.packets * run.payload_bytes());
    read(payload);
    return run.packets / 2;
  }
  void pass(const Datagram& datagram, Time, DatagramHandler& next) override {
    next.on_datagram(datagram);
  }
  [[nodiscard]] Time release(Time, DatagramHandler&) override { return kNever; }

  uint8_t slot = 0;
  const testing::RingFile* file = nullptr;
  std::optional<Change> change;

 private:
  void check(const wire::PacketView& view) {
    const Qpn qpn = view.bth.dest_qp;
    VERBENA_CHECK(qpn.value >> 16 == slot || qpn == kGsiQpn);
    VERBENA_CHECK(view.payload.size() <= wire::kMaxMtu && view.info != nullptr);
    read({view.data, view.info->header_bytes});
    read(view.payload);
    if (change) file->data_word(change->at).store(change->word);
    change.reset();
  }
  void read(std::span<const uint8_t> bytes) {
    uint8_t all = 0;
    for (const uint8_t byte : bytes) all ^= byte;
    sum_ = sum_ ^ all;
  }
  volatile uint8_t sum_ = 0;
};

// Two members of a group of their own: one that reads, and one that writes.
class Pair {
 public:
  Pair() {
    MembershipOptions options;
    options.udp.port = static_cast<uint16_t>(16'000 + ::getpid() % 8'000);
    options.group = "vfuzz" + std::to_string(::getpid());
    options.takes_rings = true;
    SeededRandom random(1);
    auto joined = HostLink::join({.host = options}, random, checker_);
    VERBENA_CHECK(joined);
    reader_ = std::move(*joined);
    checker_.slot = reader_->slot();
    std::atomic<bool> done{false};
    std::jthread thread([&] {
      SeededRandom other(2);
      auto host = Membership::join(options, other);
      VERBENA_CHECK(host);
      writer_ = std::move(*host);
      done = true;
    });
    while (!done) {
      hear();
      ::usleep(100);
    }
  }

  void run(Input input) {
    auto made = Ring::make(kRingBytes);
    VERBENA_CHECK(made);
    const testing::RingFile file(made->fd.get(), kRingBytes);
    checker_.file = &file;
    VERBENA_CHECK(writer_->offer_ring(reader_->slot(), made->fd.get(), bell_.get()));
    hear();
    head_ = 0;
    while (!input.empty()) step(input, file);
    read();
    (void)reader_->prepare_sleep();
    checker_.change.reset();
    checker_.file = nullptr;
    reader_->set_taps(nullptr, nullptr);
    writer_->on_ready(ignore_);
  }

 private:
  struct Ignore final : DatagramHandler {
    void on_datagram(const Datagram&) override {}
    void on_consumed(const Datagram&, uint32_t) override {}
  };

  void hear() {
    pollfd ready{reader_->control_fd(), POLLIN, 0};
    for (int i = 0; i < 4 && ::poll(&ready, 1, 0) > 0; ++i)
      reader_->on_ready(monotonic_now(), true);
  }
  // Bounded: a ring that is not cleared is read around and around.
  void read() {
    for (int i = 0; i < 4; ++i) (void)reader_->receive(Look::kAll, 1);
    reader_->flush();
  }
  [[nodiscard]] static Change change_of(Input& input, uint8_t step) {
    const size_t line = input.take<uint16_t>() % (kRingBytes / Ring::kLine);
    return {line * Ring::kLine + (step & 7U) * sizeof(uint64_t), input.take<uint64_t>()};
  }
  void step(Input& input, const testing::RingFile& file) {
    const auto step = input.take<uint8_t>();
    if (step < 0x40) {
      put(input, file, step);
    } else if (step < 0x80) {
      const Change change = change_of(input, step);
      file.data_word(change.at).store(change.word);
    } else if (step < 0xc0) {
      if ((step & 1) != 0) checker_.change = change_of(input, step >> 1);
      read();
    } else if (step < 0xe0) {
      file.tail().store(input.take<uint64_t>());
    } else {
      reader_->set_taps(nullptr, (step & 1) != 0 ? &checker_ : nullptr);
    }
  }
  void put(Input& input, const testing::RingFile& file, uint8_t step) {
    const auto word = input.take<uint64_t>();
    const RecordHead head = RecordHead::of(word);
    std::array<uint8_t, Ring::kMaxHeaderBytes> headers{};
    if ((step & 1) != 0) {
      const RingFlow flow{kLoopback.bytes, kLoopback.bytes, 0, 64};
      std::memcpy(headers.data(), &flow, sizeof flow);
    } else {
      input.take(std::span(headers).first(std::min<size_t>(head.header_bytes, headers.size())));
    }
    if ((step & 2) != 0) headers[5] = reader_->slot();
    const size_t at = head_ % kRingBytes;
    std::ranges::copy(headers, file.data().subspan(at + RecordHead::kBytes).begin());
    file.data_word(at).store(word);
    const uint32_t length = head.payload_at() + head.payload_bytes % (Ring::kMaxPayloadBytes + 1);
    head_ += (length + Ring::kLine - 1) / Ring::kLine * Ring::kLine;
  }

  Checker checker_;
  std::unique_ptr<HostLink> reader_;
  std::unique_ptr<Membership> writer_;
  UniqueFd bell_ = make_bell();
  Ignore ignore_;
  size_t head_ = 0;
};

}  // namespace
}  // namespace verbena::link

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static verbena::link::Pair pair;
  pair.run(verbena::link::Input({data, size}));
  return 0;
}
