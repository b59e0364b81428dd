// SPDX-License-Identifier: Apache-2.0
// verbena_store_corruption: stores that are destroyed in every way, one damage each: every read
// that is touched by it fails and says why, no wrong byte comes out, all else stays.
#include <cstdio>
#include <filesystem>

#include <unistd.h>

#include "examine.h"
#include "seeds.h"

namespace verbena::store::trial {
namespace {

constexpr const char* kHelp = R"(verbena_store_corruption [OPTIONS]

Damages the files of a store whose contents are known, in one way each time: bits, bytes and chunks of data,
metadata, log, checkpoint, superblocks and free space; chunks swapped, replayed, or of another store; files cut
or missing. Then opens it in every way, reads all of it, scrubs it, writes beside the damage, salvages it.

  --count N   how many damages (600)
  --first S   the number of the first; the kinds go by turns (1)
  --folder D  where the files are; in memory is quickest (/dev/shm, if there is one)
  --trace     tell what is done
  --help      this
)";

constexpr uint64_t kCasesOfASample = 250;

// Somewhere of our own, gone at the end.
class Folder {
 public:
  explicit Folder(const std::string& under) : path_(under + "/verbena-corruption-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

int run(const Arguments& arguments) {
  std::string under = arguments.words.at("folder");
  if (under.empty()) {
    under = ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : std::filesystem::temp_directory_path();
  }
  const Folder folder(under);
  const uint64_t first = arguments.numbers.at("first");
  const uint64_t end = first + arguments.numbers.at("count");
  Counts counts;
  uint64_t failed = 0;
  Sample sample;
  for (uint64_t seed = first; seed < end; ++seed) {
    const std::string command =
        "verbena_store_corruption --count 1 --first " + std::to_string(seed) + " --trace";
    announce_seed(seed, command);
    if (seed == first || seed % kCasesOfASample == 0) {
      sample = make_sample(seed / kCasesOfASample + 1, folder.path() + "/store");
    }
    SeededRandom random(seed);
    const DamagedStore damaged = destroy(sample, seed % damage_kinds(), random);
    if (arguments.flags.at("trace")) std::printf("%s\n", damaged.what.c_str());
    const std::string what =
        examine_store(sample, damaged, folder.path() + "/store", random, counts);
    if (what.empty()) continue;
    ++failed;
    print_failure(seed, what, {damaged.what}, command);
  }
  std::printf(
      "%llu damages of %zu kinds: %llu stores opened, %llu refused; %llu chunks of data and %llu "
      "copies of "
      "the log were bad; %llu were written to beside it, %llu salvaged; %llu failed\n",
      static_cast<unsigned long long>(end - first), damage_kinds(),
      static_cast<unsigned long long>(counts.opened),
      static_cast<unsigned long long>(counts.refused), static_cast<unsigned long long>(counts.lost),
      static_cast<unsigned long long>(counts.copies),
      static_cast<unsigned long long>(counts.healed),
      static_cast<unsigned long long>(counts.salvaged), static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace verbena::store::trial

int main(int argc, char** argv) {
  using namespace verbena::store::trial;
  Arguments arguments{.numbers = {{"count", 600}, {"first", 1}},
                      .flags = {{"trace", false}},
                      .words = {{"folder", ""}}};
  if (!parse(argc, argv, kHelp, arguments)) return 2;
  return run(arguments);
}
