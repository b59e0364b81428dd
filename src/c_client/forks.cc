// SPDX-License-Identifier: Apache-2.0
#include "c_client/forks.h"

#include <atomic>

#include <pthread.h>

namespace verbena::c_client {
namespace {

// Written in a child before it has threads.
constinit std::atomic<uint32_t> forks_seen{0};

[[maybe_unused]] const int kRegistered =
    ::pthread_atfork(nullptr, nullptr, [] { forks_seen.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint32_t forks() { return forks_seen.load(std::memory_order_relaxed); }

}  // namespace verbena::c_client
