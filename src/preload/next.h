// SPDX-License-Identifier: Apache-2.0
// What this library's functions call, and how they are seen.
#pragma once

#include "base/c_interface.h"
#include "base/next_function.h"
