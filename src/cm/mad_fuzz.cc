// SPDX-License-Identifier: Apache-2.0
// Any bytes as messages of connection management. First each is decoded: what it says must survive
// being written and read again. Then they are a history of one manager with a listener and a
// program that answers: nothing may break, every exchange must end, and nothing may be left over.
//
// An input is a row of records: one byte that says what happens, then what it needs.
//
//   0x00-0x7f  a message arrives, 256 bytes (the last may be cut); bit 0: from a stranger; bit 1:
//   with
//              the id of one of our connections where it names the receiver's, chosen by bits 2..4
//   0x80-0xbf  the program does something: connects, answers, disconnects, lets go, by the low bits
//   0xc0-0xff  time passes: 1 ms << (low bits / 4)
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/endian.h"
#include "base/random.h"
#include "cm/manager.h"
#include "cm/route.h"

namespace verbena::cm {
namespace {

constexpr wire::Gid kOur = wire::Gid::from_ipv4(10, 99, 0, 3);
constexpr wire::Gid kPeer = wire::Gid::from_ipv4(10, 99, 0, 2);
constexpr wire::Gid kStranger = wire::Gid::from_ipv4(10, 99, 0, 4);
constexpr uint64_t kService = service_id(PortSpace::kTcp, 7174);  // rping's, as in the captures

void decode_and_encode(std::span<const uint8_t> bytes) {
  const auto mad = decode(bytes);
  const Route where = route(bytes);
  if (!mad) {
    VERBENA_CHECK(mad.error() < MadError::kCount && where.kind == Route::Kind::kNobody);
    return;
  }
  VERBENA_CHECK(where.kind != Route::Kind::kNobody);
  MadBuffer once;
  encode(*mad, once);
  const auto again = decode(once);
  VERBENA_CHECK(again.has_value() && again->message == mad->message &&
                again->header == mad->header);
}

class History final : public MadSink, public EventSink {
 public:
  History() {
    for (const uint64_t service : {kService, uint64_t{5}}) {
      VERBENA_CHECK(manager_.listen({.service_id = service, .backlog = 4}).has_value());
    }
  }

  void run(std::span<const uint8_t> input) {
    while (!input.empty()) {
      const uint8_t what = input.front();
      input = input.subspan(1);
      if (what < 0x80) {
        const auto bytes = input.first(std::min(input.size(), kMadBytes));
        input = input.subspan(bytes.size());
        arrive(what, bytes);
      } else if (what < 0xc0) {
        act(what & 0x3f);
      } else {
        pass(kMillisecond << ((what & 0x3f) / 4));
      }
    }
    finish();
  }

  void send_mad(const wire::Gid& source, const wire::Gid& destination, MadBytes mad) override {
    VERBENA_CHECK(source == kOur && (destination == kPeer || destination == kStranger));
    decode_and_encode(mad);
  }
  void on_event(const Event& event) override {
    VERBENA_CHECK(event.id.value != 0);
    if (std::ranges::find(ids_, event.id) == ids_.end()) {
      VERBENA_CHECK(event.kind == EventKind::kConnectRequest ||
                    event.kind == EventKind::kSidrRequest);
      ids_.push_back(event.id);
    }
  }

 private:
  void arrive(uint8_t how, std::span<const uint8_t> bytes) {
    decode_and_encode(bytes);
    std::vector<uint8_t> mad(bytes.begin(), bytes.end());
    if ((how & 2) != 0 && mad.size() == kMadBytes && !ids_.empty()) {
      // SIDR_REP has our id first, all others second.
      const size_t at = mad[17] == 0x18 ? 24 : 28;
      store_be32(mad.data() + at, ids_[(how >> 2) % ids_.size()].value);
    }
    manager_.on_mad(kOur, (how & 1) != 0 ? kStranger : kPeer, mad, now_);
  }

  void act(uint8_t what) {
    if (what % 8 == 0 && ids_.size() < 64) connect(what);
    if (ids_.empty()) return;
    const CommId id = ids_[(what >> 3) % ids_.size()];
    switch (what % 8) {
      case 1: (void)manager_.accept(id, {.qp = {.qpn = Qpn(0x17)}}, now_); return;
      case 2: (void)manager_.establish(id, {}, now_); return;
      case 3: (void)manager_.reject(id, {}, now_); return;
      case 4: (void)manager_.disconnect(id, {}, now_); return;
      case 5: (void)manager_.sidr_reply(id, {.qpn = Qpn(0x17)}, now_); return;
      case 6: (void)manager_.data_arrived(id, now_); return;
      case 7:
        (what & 8) != 0 ? (void)manager_.connection_lost(id, now_) : manager_.release(id, now_);
        return;
      default: return;
    }
  }

  void connect(uint8_t what) {
    const auto id = (what & 8) != 0
                        ? manager_.sidr_request(
                              {.source = kOur, .destination = kPeer, .service_id = kService}, now_)
                        : manager_.connect({.source = kOur,
                                            .destination = kPeer,
                                            .service_id = kService,
                                            .qp = {.qpn = Qpn(0x17)}},
                                           now_);
    VERBENA_CHECK(id.has_value());
    ids_.push_back(*id);
  }

  void pass(Duration span) {
    const Time until = now_ + span;
    while (manager_.next_timer() <= until) {
      now_ = std::max(now_, manager_.next_timer());
      manager_.on_timer(now_);
    }
    now_ = until;
  }

  // Whatever happened: what a program has let go of is gone in the end.
  void finish() {
    for (const CommId id : ids_) manager_.release(id, now_);
    pass(60 * kSecond);
    VERBENA_CHECK(manager_.size() == 0 && manager_.half_open() == 0);
  }

  Time now_ = 0;
  SeededRandom random_{1};
  Manager manager_{{.slot = 1, .max_half_open = 16}, *this, *this, random_};
  std::vector<CommId> ids_;
};

}  // namespace
}  // namespace verbena::cm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::cm::History().run({data, size});
  return 0;
}
