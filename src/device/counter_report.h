// SPDX-License-Identifier: Apache-2.0
// What the device of a process did, as one line of JSON at the end of a file: for those who want to
// see that a program's data went through it, and what went wrong on the way.
#pragma once

#include <string>

#include "device/engine.h"

namespace verbena::device {

[[nodiscard]] std::string counter_line(const Engine& engine) VERBENA_REQUIRES(engine.lock());
// At once, so that the lines of several processes do not mix. What cannot be written is left out.
void append_line(const std::string& path, const std::string& line);

}  // namespace verbena::device
