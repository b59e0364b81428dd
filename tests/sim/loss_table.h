// SPDX-License-Identifier: Apache-2.0
// What goodput remains when packets are lost: measured in virtual time, so the same on every
// machine.
#pragma once

namespace verbena::sim {

// Prints the table in markdown.
void print_loss_table();

}  // namespace verbena::sim
