// SPDX-License-Identifier: Apache-2.0
#include "rdmacm/process.h"

#include <pthread.h>

namespace verbena::rdmacm {
namespace {

// Written in a child before it has threads.
constinit std::atomic<uint32_t> forks{0};

[[maybe_unused]] const int kRegistered =
    ::pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint32_t generation() { return forks.load(std::memory_order_relaxed); }

}  // namespace verbena::rdmacm
