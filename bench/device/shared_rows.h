// SPDX-License-Identifier: Apache-2.0
// The device through shared memory: beside UCX's own shared memory, TCP, a blocking unix socket,
// and itself through sockets.
#pragma once

#include "common/report.h"
#include "settings.h"

namespace verbena::bench {

void shared_rows(const Settings& settings, Report& report);
// One process, each thread with a queue pair and a completion queue of its own.
void thread_rows(const Settings& settings, Report& report);

}  // namespace verbena::bench
