// SPDX-License-Identifier: Apache-2.0
// Ctrl-C, and its like: a command that changes something is told and goes home by itself, leaving
// the store well and no temporary file. Asked for a second time, it dies at once. Signals that come
// together are one request: timeout(1) sends its signal to the command and to the process group,
// and of Ctrl-C both a terminal and who started the command may tell it.
#pragma once

namespace verbena::store_cli {

// From here on the first SIGINT, SIGTERM or SIGHUP calls the handler, and system calls they meet
// end with EINTR. Those that were ignored stay so, as nohup and shells' background jobs have it.
void on_interrupt(void (*handler)(int signal));
// From here on SIGINT, SIGTERM and SIGHUP are noted, system calls they meet end with EINTR, and a
// pipe that nobody reads is an error of writing.
void catch_interrupts();
// Ends the process as if it had not asked for that; comes back if SIGPIPE was ignored before.
void end_by_broken_pipe();
// Which one came; 0: none.
[[nodiscard]] int interrupted();
// With what a command exits that was interrupted so.
[[nodiscard]] inline int exit_status_of_signal(int signal) { return 128 + signal; }

}  // namespace verbena::store_cli
