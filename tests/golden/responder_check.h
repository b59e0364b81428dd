// SPDX-License-Identifier: Apache-2.0
// Our responder in the place of the capture's: it is given what the capture's was given, and must
// answer as it did wherever the standard leaves no choice. docs/golden.md says where there is one.
#pragma once

#include "golden/checks.h"

namespace verbena::golden {

void check_responder(const Capture& capture, Report& report);

}  // namespace verbena::golden
