// SPDX-License-Identifier: Apache-2.0
#include "client/answers.h"

#include <fmt/format.h>

namespace verbena::client {

using session::Completion;
using session::Outcome;

bool good(const Completion& completion) {
  return completion.outcome == Outcome::kDone && completion.status == protocol::Status::kOk;
}

Error error_of(const Completion& completion, const std::string& why_lost) {
  const auto said = [&](const char* otherwise) {
    return completion.detail.empty() ? std::string(otherwise) : completion.detail;
  };
  switch (completion.outcome) {
    case Outcome::kDone:
      return {Code::kAnswered, completion.status, said(protocol::name_of(completion.status))};
    case Outcome::kUnknown:
      return {Code::kUnknown,
              {},
              fmt::format("the server did not answer ({}): whether it was done is not known",
                          why_lost.empty() ? "in time" : why_lost)};
    case Outcome::kTimedOut:
      return {
          Code::kUnreachable,
          {},
          fmt::format("the server did not answer ({})", why_lost.empty() ? "in time" : why_lost)};
    case Outcome::kCancelled: return {Code::kCancelled, {}, "the client was closed"};
    case Outcome::kRefused:   return {Code::kRefused, {}, said("the server refuses this client")};
    case Outcome::kCorrupted: return {Code::kCorrupted, {}, said("the data is corrupted")};
    case Outcome::kInvalid:   return {Code::kInvalid, {}, said("the request is not valid")};
  }
  return {};
}

}  // namespace verbena::client
