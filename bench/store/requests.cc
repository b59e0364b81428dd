// SPDX-License-Identifier: Apache-2.0
#include "requests.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include <isa-l/crc.h>

#include "base/random.h"
#include "common/ends.h"

namespace verbena::bench {
namespace {

// Calls each(offset) for as many requests as make `total` bytes; bytes per second.
template <typename Each>
double timed(const Requests& requests, uint64_t total, uint64_t room, Each each) {
  const uint64_t places = (room - requests.bytes) / requests.step;
  const uint64_t times = std::max<uint64_t>(total / requests.bytes, 1);
  SeededRandom random(5);
  const double begin = now_s();
  for (uint64_t i = 0; i < times; ++i) {
    each((requests.scattered ? random.below(places) : i % places) * requests.step);
  }
  return static_cast<double>(times) * requests.bytes / (now_s() - begin);
}

}  // namespace

double through_engine(store::Store& store, const Requests& requests, uint64_t total,
                      store::ObjectId object) {
  std::vector<uint8_t> buffer(requests.bytes, 0x5a);
  const uint64_t room = store.stat(object)->size;
  return timed(requests, total, room, [&](uint64_t offset) {
    if (requests.direction == Direction::kWrite) {
      must(store.write(object, offset, buffer));
    } else {
      const auto done = store.read(object, offset, buffer);
      if (!done) must(fail(done.error()));
    }
  });
}

double by_memcpy_and_crc(const Arena& arena, const Requests& requests, uint64_t total) {
  std::vector<uint8_t> buffer(requests.bytes, 0x5a);
  uint32_t sum = 0;
  const double rate = timed(requests, total, arena.bytes(), [&](uint64_t offset) {
    uint8_t* const place = arena.memory() + offset;
    if (requests.direction == Direction::kWrite) {
      std::memcpy(place, buffer.data(), buffer.size());
      sum ^= crc32_ieee(0, buffer.data(), buffer.size());
    } else {
      std::memcpy(buffer.data(), place, buffer.size());
      sum ^= crc32_ieee(0, place, buffer.size());
    }
  });
  if (sum == 0x12345678) std::fputc(' ', stderr);  // so that nothing is left out as unused
  return rate;
}

double with_threads(store::Store& store, const Requests& requests, uint64_t total,
                    uint32_t threads) {
  std::vector<store::ObjectId> objects;
  const uint64_t bytes = filled(store) / 4;
  const std::vector<uint8_t> piece(uint64_t{1} << 20, 1);
  for (uint32_t i = 0; i < threads; ++i) {
    objects.push_back({2, i});
    static_cast<void>(store.create_object(objects.back()));
    for (uint64_t at = 0; at < bytes; at += piece.size()) {
      must(store.write(objects.back(), at, piece));
    }
  }
  std::atomic<uint32_t> ready{0};
  std::atomic<double> sum{0};
  std::vector<std::thread> workers;
  for (const store::ObjectId object : objects) {
    workers.emplace_back([&, object] {
      ++ready;
      while (ready.load() < threads) std::this_thread::yield();
      sum.fetch_add(through_engine(store, requests, total, object));
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (const store::ObjectId object : objects) must(store.remove(object));
  return sum.load();
}

}  // namespace verbena::bench
