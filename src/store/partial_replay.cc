// SPDX-License-Identifier: Apache-2.0
#include "store/partial_replay.h"

namespace verbena::store {
verbena::Result<void, std::string> PartialReplay::add(const PartialIndex& index) {
  for (const bool doubtful : {false, true}) {
    for (const auto& [number, entry] : index.objects()) {
      if (entry.doubt.any() != doubtful) continue;
      if (auto done = add(entry); !done) return done;
    }
  }
  lost_.unknown = index.unknown();
  return {};
}

verbena::Result<void, std::string> PartialReplay::add(const PartialIndex::Entry& entry) {
  ObjectRecord object = entry.object;
  if (entry.doubt.any()) {
    // An id that another object has by now is that of one that was removed, and a name was taken
    // away, or its object removed.
    if (replay_.holder(object.id)) return {};
    if (replay_.holder(object.name)) object.name = {};
  }
  if (auto done = replay_.add(object); !done) return done;
  for (const Record& map : entry.maps) {
    if (auto done = replay_.add(std::get<MapRecord>(map)); !done) return done;
  }
  lost_.objects.add(object.number, entry.doubt);
  return {};
}

// From an object that is in doubt.
void PartialReplay::take_name(std::string_view name, uint64_t number) {
  const auto holder = replay_.holder(name);
  if (!holder || *holder == number || !is_doubtful(*holder)) return;
  static_cast<void>(replay_.apply(RenameRecord{*holder, {}}));
}

void PartialReplay::apply(const Record& record) {
  if (const auto* const create = std::get_if<CreateRecord>(&record)) {
    take_name(create->name, create->number);
    const auto holder = replay_.holder(create->id);
    if (holder && is_doubtful(*holder)) {
      static_cast<void>(replay_.apply(DeleteRecord{*holder}));
      lost_.objects.applied(DeleteRecord{*holder});
    }
  } else if (const auto* const rename = std::get_if<RenameRecord>(&record)) {
    take_name(rename->name, rename->number);
  }
  if (replay_.apply(record)) {
    lost_.objects.applied(record);
  } else {
    drop(record);
  }
}

void PartialReplay::drop(const Record& record) {
  const uint64_t number = changed_by(record);
  if (number == 0) return;
  if (replay_.objects().contains(number)) {
    ObjectDoubt doubt;
    doubt.older = true;
    lost_.objects.add(number, std::move(doubt));
  } else {
    lost_.unknown.push_back({number, number + 1});
  }
}

}  // namespace verbena::store
