// SPDX-License-Identifier: Apache-2.0
//
// Stands in for libFuzzer where it is not built in: runs a fuzzer over every file of the files and
// directories given, in order of name, and fails if there was none.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> collect(const std::vector<std::string>& roots) {
  std::vector<fs::path> files;
  for (const fs::path root : roots) {
    if (fs::is_regular_file(root)) {
      files.push_back(root);
    } else if (fs::is_directory(root)) {
      for (const auto& entry : fs::recursive_directory_iterator(root)) {
        const bool hidden = entry.path().filename().string().starts_with('.');
        if (entry.is_regular_file() && !hidden) files.push_back(entry.path());
      }
    } else {
      std::fprintf(stderr, "no such file or directory: %s\n", root.c_str());
    }
  }
  std::ranges::sort(files);
  return files;
}

int replay(const std::vector<std::string>& roots) {
  const std::vector<fs::path> files = collect(roots);
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in),
                                  std::istreambuf_iterator<char>()};
    if (in.bad() || !in.is_open()) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 1;
    }
    // A crash then has its input's name as the last line before it.
    std::printf("%s (%zu bytes)\n", file.filename().c_str(), bytes.size());
    std::fflush(stdout);
    // Exactly sized, so that AddressSanitizer sees a read past the end; never null, as in
    // libFuzzer.
    const auto exact = std::make_unique<uint8_t[]>(bytes.size());
    std::ranges::copy(bytes, exact.get());
    LLVMFuzzerTestOneInput(exact.get(), bytes.size());
  }
  std::printf("replayed %zu inputs\n", files.size());
  if (files.empty()) {
    std::fprintf(stderr, "no input was found: a replay of nothing proves nothing\n");
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return replay({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
