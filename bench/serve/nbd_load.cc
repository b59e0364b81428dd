// SPDX-License-Identifier: Apache-2.0
// A network block device (nbdkit's memory disk) by libnbd, over TCP on loopback. Each client has a
// connection, and a part of the disk.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <libnbd.h>

#include "load.h"

namespace verbena::bench {
namespace {

void check(int64_t result) {
  if (result >= 0) return;
  std::fprintf(stderr, "libnbd: %s\n", nbd_get_error());
  std::exit(1);
}

class NbdClient {
 public:
  NbdClient(const Load& load, uint16_t port, uint32_t number)
      : load_(load),
        begin_(uint64_t{number} * kPlaces * load.bytes),
        memory_(size_t{load.bytes} * load.depth, 0x5a),
        handle_(nbd_create()) {
    if (!handle_) check(-1);
    // Else it clears the memory before each read.
    check(nbd_set_pread_initialize(handle_.get(), false));
    check(nbd_connect_tcp(handle_.get(), "127.0.0.1", std::to_string(port).c_str()));
    for (uint32_t i = 0; i < kPlaces; ++i) {
      check(nbd_pwrite(handle_.get(), memory_.data(), load.bytes, place(i), 0));
    }
    for (uint32_t i = 0; i < load.depth; ++i) slots_.push_back({this, piece(i)});
  }

  uint64_t run(const std::atomic<bool>& stop) {
    return load_.depth == 1 ? one_at_a_time(stop) : several(stop);
  }

 private:
  struct Slot {
    NbdClient* client;
    uint8_t* memory;
  };

  [[nodiscard]] uint64_t place(uint64_t i) const { return begin_ + i % kPlaces * load_.bytes; }
  [[nodiscard]] uint8_t* piece(uint32_t slot) {
    return memory_.data() + size_t{slot} * load_.bytes;
  }

  uint64_t one_at_a_time(const std::atomic<bool>& stop) {
    uint64_t count = 0;
    for (; !stop.load(std::memory_order_relaxed); ++count) {
      check(load_.write ? nbd_pwrite(handle_.get(), piece(0), load_.bytes, place(count), 0)
                        : nbd_pread(handle_.get(), piece(0), load_.bytes, place(count), 0));
    }
    return count;
  }

  uint64_t several(const std::atomic<bool>& stop) {
    uint64_t started = 0;
    for (Slot& slot : slots_) idle_.push_back(&slot);
    for (uint64_t ended = 0;;) {
      ended = started - (slots_.size() - idle_.size());
      if (stop.load(std::memory_order_relaxed)) {
        if (ended == started) return ended;
      } else {
        for (; !idle_.empty(); idle_.pop_back()) start(*idle_.back(), place(started++));
      }
      check(nbd_poll(handle_.get(), -1));
    }
  }
  void start(Slot& slot, uint64_t at) {
    nbd_completion_callback done{};
    done.callback = ended;
    done.user_data = &slot;
    check(load_.write ? nbd_aio_pwrite(handle_.get(), slot.memory, load_.bytes, at, done, 0)
                      : nbd_aio_pread(handle_.get(), slot.memory, load_.bytes, at, done, 0));
  }
  // May not call libnbd, and so does not start the next one.
  static int ended(void* user, int* error) {
    if (*error != 0) {
      std::fprintf(stderr, "nbd: error %d\n", *error);
      std::exit(1);
    }
    auto* const slot = static_cast<Slot*>(user);
    slot->client->idle_.push_back(slot);
    return 1;  // libnbd forgets the request
  }

  struct Close {
    void operator()(nbd_handle* handle) const { nbd_close(handle); }
  };

  Load load_;
  uint64_t begin_;
  std::vector<uint8_t> memory_;
  std::unique_ptr<nbd_handle, Close> handle_;
  std::vector<Slot> slots_;
  std::vector<Slot*> idle_;
};

}  // namespace

double through_nbd(const Load& load, uint16_t port) {
  std::vector<std::unique_ptr<NbdClient>> clients;
  for (uint32_t i = 0; i < load.clients; ++i) {
    clients.push_back(std::make_unique<NbdClient>(load, port, i));
  }
  return run_all(load, clients);
}

}  // namespace verbena::bench
