// SPDX-License-Identifier: Apache-2.0
// Finds the functions of shared libraries. What is loaded stays: the libraries have threads.
#pragma once

#include <string>
#include <string_view>

namespace verbena::fabric {

class LibraryLoader {
 public:
  // The program itself has the functions, linked statically and exported.
  static constexpr std::string_view kProgram = "(program)";

  // Empty: wherever the system has them.
  explicit LibraryLoader(const std::string& folder) : folder_(folder) {}

  [[nodiscard]] void* open(const char* name);
  template <typename Function>
  void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(find(library, name));
  }
  // The first one; empty: none.
  [[nodiscard]] const std::string& error() const { return error_; }

 private:
  [[nodiscard]] void* find(void* library, const char* name);

  const std::string& folder_;
  std::string error_;
};

}  // namespace verbena::fabric
