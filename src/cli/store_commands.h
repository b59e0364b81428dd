// SPDX-License-Identifier: Apache-2.0
// The commands on a store. They live in a library of their own, which is loaded when
// one of them is used: it needs more of the system than what runs programs does.
#pragma once

#include <array>
#include <string_view>

namespace verbena::cli {

struct StoreCommand {
  std::string_view name;
  std::string_view summary;
};

inline constexpr std::array<StoreCommand, 25> kStoreCommands{{
    {"put", "Stores a file, or the data from a pipe, as an object."},
    {"get", "Writes an object, or a part of it, to a file or a pipe."},
    {"ls", "Lists objects, sorted by name."},
    {"stat", "Shows the id, size, segments and times of objects."},
    {"rm", "Removes objects."},
    {"cp", "Clones an object, or a part of it, within a store."},
    {"mv", "Renames an object, or names one that has no name."},
    {"truncate", "Sets the size of an object."},
    {"cat", "Writes objects to standard output, one behind the other."},
    {"du", "Shows how much data objects have, by prefix."},
    {"df", "Shows how much space a store has, uses and has left."},
    {"sync", "Stores the files of a directory that are new or have changed."},
    {"flush", "Makes the changes of all clients durable."},
    {"evict", "Frees the memory of objects that are behind a cache as well."},
    {"range", "Registers a range of an object while a command runs."},
    {"verify", "Verifies the data of single objects."},
    {"inspect", "Shows a summary of a store: objects, space, log, and damage found on open."},
    {"scrub", "Verifies everything that a store holds."},
    {"compact", "Gives space that objects no longer use back to the file system."},
    {"salvage", "Builds a new store from a damaged one."},
    {"serve", "Serves a store to clients on this host and others, over RDMA."},
    {"ping", "Measures the round-trip time to a server."},
    {"bench", "Measures how fast a store reads and writes."},
    {"send", "Sends files to a host where `verbena receive` runs, over RDMA."},
    {"receive", "Receives files that `verbena send` sends, into a folder."},
}};

// The library's one function: as main(), with the command's name in arguments[1].
inline constexpr const char* kStoreLibrary = "libverbena-store.so";
inline constexpr const char* kStoreMain = "verbena_store_main";
using StoreMain = int(int count, char** arguments);

// Loads the library and calls it; answers the exit status, also if it cannot be loaded.
[[nodiscard]] int run_store_command(int count, char** arguments);

}  // namespace verbena::cli
