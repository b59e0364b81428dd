// SPDX-License-Identifier: Apache-2.0
// What goodput remains when packets are lost: measured in virtual time, so the same on every
// machine.
#pragma once

namespace verbena::sim {

// Prints the table in markdown.
void print_loss_table();
// Whether a few of its rows, measured over fewer bytes, are as good as they were; says so.
[[nodiscard]] bool check_loss_floors();

}  // namespace verbena::sim
