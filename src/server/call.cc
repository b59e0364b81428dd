// SPDX-License-Identifier: Apache-2.0
#include "server/call.h"

#include <algorithm>

#include "server/hook.h"

namespace verbena::server {

const protocol::Seal Call::kUnchecked = protocol::Seal::with_key(0).without_checks();

namespace {

protocol::Status status_of(const store::Error& error) {
  using protocol::Status;
  switch (error.code) {
    case store::Code::kNotFound: return Status::kNotFound;
    case store::Code::kExists:   return Status::kExists;
    case store::Code::kInvalid:  return Status::kInvalid;
    case store::Code::kFull:
    case store::Code::kLogFull:  return Status::kFull;
    case store::Code::kNoMemory: return Status::kNoMemory;
    // What arrived, or what is stored?
    case store::Code::kDamaged:
      return error.damage.field == "message CRC" ? Status::kCorrupted : Status::kDamaged;
    case store::Code::kConflict: return Status::kConflict;
    case store::Code::kReadOnly: return Status::kReadOnly;
    // Of what is behind.
    case store::Code::kUnreachable:
    case store::Code::kIo:          return Status::kIo;
    case store::Code::kUnsupported: return Status::kUnsupported;
    default:                        return Status::kInternal;
  }
}

}  // namespace

void Call::fail(protocol::Status status, std::string_view why) {
  detail = why.substr(0, protocol::kMaxTextBytes);
  response = protocol::failure_of(request, status, detail);
}

void Call::fail(const store::Error& error) {
  // Those that go behind have done so: the tier itself may be full.
  const bool may_help = (error.code == store::Code::kBehind || error.code == store::Code::kFull) &&
                        (hook == nullptr || !hook->goes_behind());
  if (cache != nullptr && may_help) needs = error;
  fail(status_of(error), error.what);
}

}  // namespace verbena::server
