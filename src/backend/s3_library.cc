// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_library.h"

#include <initializer_list>
#include <string>

#include <dlfcn.h>
#include <fmt/format.h>

namespace verbena::backend {
namespace {

// Before it, libcurl does not sign the headers of a request that it is given.
constexpr unsigned kOldestCurl = 0x075800;  // 7.88.0

struct Found {
  void* handle = nullptr;
  std::string file;
  std::string missing;  // the first function that it does not have

  template <typename Function>
  void find(Function& function, const char* name) {
    void* const found = dlsym(handle, name);
    if (found == nullptr && missing.empty()) missing = name;
    function = reinterpret_cast<Function>(found);
  }
};

[[nodiscard]] Error unsupported(std::string what) {
  return {Code::kUnsupported, std::move(what), {}};
}

// The first of these files that there is.
[[nodiscard]] Result<Found> open_library(std::initializer_list<const char*> files,
                                         const char* package) {
  std::string why;
  for (const char* const file : files) {
    void* const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle != nullptr) return Found{handle, file, {}};
    if (why.empty()) why = dlerror();
  }
  return fail(
      unsupported(fmt::format("S3 needs {0} (on Debian: apt install {0}): {1}", package, why)));
}

[[nodiscard]] Result<CurlLibrary> find_curl() {
  auto found = open_library({"libcurl.so.4", "libcurl-gnutls.so.4"}, "libcurl4");
  if (!found) return fail(found.error());
  CurlLibrary library;
#define VERBENA_CURL_FIND(name) found->find(library.name, "curl_" #name);
  VERBENA_CURL_FUNCTIONS(VERBENA_CURL_FIND)
#undef VERBENA_CURL_FIND
  if (!found->missing.empty()) {
    return fail(unsupported(fmt::format("{} has no {}", found->file, found->missing)));
  }
  const curl_version_info_data* const version = library.version_info(CURLVERSION_NOW);
  if (version->version_num < kOldestCurl) {
    return fail(
        unsupported(fmt::format("S3 needs libcurl 7.88 or later, which signs headers; {} is {}",
                                found->file, version->version)));
  }
  if (library.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    return fail(unsupported("libcurl cannot be initialized"));
  }
  return library;
}

[[nodiscard]] Result<ExpatLibrary> find_expat() {
  auto found = open_library({"libexpat.so.1"}, "libexpat1");
  if (!found) return fail(found.error());
  ExpatLibrary library;
#define VERBENA_EXPAT_FIND(name) found->find(library.name, "XML_" #name);
  VERBENA_EXPAT_FUNCTIONS(VERBENA_EXPAT_FIND)
#undef VERBENA_EXPAT_FIND
  if (found->missing.empty()) return library;
  return fail(unsupported(fmt::format("{} has no {}", found->file, found->missing)));
}

}  // namespace

Result<const CurlLibrary*> CurlLibrary::load() {
  static const Result<CurlLibrary> library = find_curl();
  if (!library) return fail(library.error());
  return &*library;
}

Result<const ExpatLibrary*> ExpatLibrary::load() {
  static const Result<ExpatLibrary> library = find_expat();
  if (!library) return fail(library.error());
  return &*library;
}

}  // namespace verbena::backend
