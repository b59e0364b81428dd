// SPDX-License-Identifier: Apache-2.0
// What is checked of a capture. A check is a function over one capture that counts into the report
// and says what failed; a new one is a file of its own and a line in golden_main.cc.
#pragma once

#include <cstddef>
#include <string>

#include "golden/capture.h"

namespace verbena::golden {

struct Report {
  bool show_packets = false;  // describe every packet on the way

  size_t captures = 0;
  size_t frames = 0;         // RoCEv2
  size_t other_frames = 0;   // anything else: counted and left alone
  size_t corrupt = 0;        // refused, as they should be
  size_t conversations = 0;  // in which our responder took the place of the capture's
  size_t answers = 0;        // of the capture's responders, compared with ours
  size_t mads = 0;           // messages of connection management
  size_t failures = 0;

  // Prints "FAIL capture frame N: what" and counts; frame 0 is the capture as a whole.
  void fail(const std::string& capture, size_t frame, const std::string& what);
};

using Check = void (*)(const Capture&, Report&);

// decode_check.cc: every RoCE frame decodes, encodes to the same bytes, has the right ICRC.
void check_decode(const Capture& capture, Report& report);
// cm_check.cc: every message of connection management encodes to the same bytes.
void check_cm(const Capture& capture, Report& report);

}  // namespace verbena::golden
