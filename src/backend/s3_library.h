// SPDX-License-Identifier: Apache-2.0
// libcurl, which speaks HTTP and signs requests, and Expat, which parses answers. Loaded when a
// bucket is used: programs that use none need not have them.
#pragma once

#ifndef CURL_DISABLE_TYPECHECK
#define CURL_DISABLE_TYPECHECK  // its macros would call the functions by name
#endif
#include <curl/curl.h>
#include <expat.h>

#include "backend/tier.h"

// Those that are used, without their prefix.
#define VERBENA_CURL_FUNCTIONS(FUNCTION) \
  FUNCTION(global_init)                  \
  FUNCTION(version_info)                 \
  FUNCTION(easy_init)                    \
  FUNCTION(easy_reset)                   \
  FUNCTION(easy_setopt)                  \
  FUNCTION(easy_perform)                 \
  FUNCTION(easy_getinfo)                 \
  FUNCTION(easy_strerror)                \
  FUNCTION(easy_cleanup)                 \
  FUNCTION(slist_append)                 \
  FUNCTION(slist_free_all)

#define VERBENA_EXPAT_FUNCTIONS(FUNCTION) \
  FUNCTION(ParserCreate)                  \
  FUNCTION(ParserFree)                    \
  FUNCTION(SetUserData)                   \
  FUNCTION(SetElementHandler)             \
  FUNCTION(SetCharacterDataHandler)       \
  FUNCTION(SetStartDoctypeDeclHandler)    \
  FUNCTION(StopParser)                    \
  FUNCTION(Parse)                         \
  FUNCTION(GetErrorCode)                  \
  FUNCTION(ErrorString)

namespace verbena::backend {

// Each is loaded once, and stays; whoever asks again gets the same one. The error says how to get
// it.
struct CurlLibrary {
// A name of a member has no parentheses. NOLINTNEXTLINE(bugprone-macro-parentheses)
#define VERBENA_CURL_MEMBER(name) decltype(&::curl_##name) name = nullptr;
  VERBENA_CURL_FUNCTIONS(VERBENA_CURL_MEMBER)
#undef VERBENA_CURL_MEMBER
  [[nodiscard]] static Result<const CurlLibrary*> load();
};

struct ExpatLibrary {
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define VERBENA_EXPAT_MEMBER(name) decltype(&::XML_##name) name = nullptr;
  VERBENA_EXPAT_FUNCTIONS(VERBENA_EXPAT_MEMBER)
#undef VERBENA_EXPAT_MEMBER
  [[nodiscard]] static Result<const ExpatLibrary*> load();
};

}  // namespace verbena::backend
