// SPDX-License-Identifier: Apache-2.0
// Lists the objects of a store whose index is read on demand: names of all tables, merged in order,
// and what the log changed. Chunks that are lost are skipped, and what may be missing is noted.
#include <algorithm>

#include "store/store_impl.h"

namespace verbena::store {
namespace {

// In the order of lists: by name, those without one by id.
std::pair<std::string_view, ObjectId> order_of(std::string_view name, ObjectId id) {
  return {name, name.empty() ? id : ObjectId{}};
}

ObjectInfo info_of(const ObjectRecord& record) {
  return {.id = record.id,
          .name = std::string(record.name),
          .number = record.number,
          .size = record.size,
          .chunks = record.chunks,
          .segments = record.runs,
          .content = record.content.size(),
          .created_ns = record.created_ns,
          .modified_ns = record.modified_ns};
}

// The names of a table from some key on; chunks that are lost are skipped.
class Names {
 public:
  Names(const Table& table, const TableKey& from, std::vector<ListLoss>& lost)
      : cursor_(table, Section::kNames), last_(from.name), lost_(&lost) {
    settle(cursor_.seek(from));
  }
  [[nodiscard]] bool done() const { return cursor_.done(); }
  [[nodiscard]] const TableKey& key() const { return cursor_.key(); }
  void next() {
    last_ = key().name;
    settle(cursor_.next());
  }

 private:
  // To a record, or the end.
  void settle(Result<void> moved) {
    if (moved) return;
    ListLoss loss{.name = {}, .after = std::string(last_), .before = {}, .error = moved.error()};
    while (!moved) moved = cursor_.skip();
    if (!cursor_.done()) loss.before = std::string(key().name);
    lost_->push_back(std::move(loss));
  }

  TableCursor cursor_;
  std::string_view last_;
  std::vector<ListLoss>* lost_;
};

Names* first_of(std::vector<Names>& all) {
  Names* first = nullptr;
  for (Names& names : all) {
    if (names.done()) continue;
    if (first == nullptr || compare(Section::kNames, names.key(), first->key()) < 0) first = &names;
  }
  return first;
}

}  // namespace

// Those that the log changed; others of the catalog are in tables.
std::vector<ObjectInfo> StoreImpl::list_changed(const std::optional<Cursor>& after,
                                                size_t limit) const {
  std::vector<ObjectInfo> infos;
  std::optional<Cursor> last = after;
  while (infos.size() < limit) {
    const auto page = catalog_.page(last, 256, &last);
    for (const ObjectRef& object : page) {
      if (infos.size() == limit || !hidden_.contains(object->number)) continue;
      if (auto info = info_of(*object)) infos.push_back(std::move(*info));
    }
    if (page.size() < 256) break;
  }
  return infos;
}

Result<std::vector<ObjectInfo>> StoreImpl::list_on_demand(const std::optional<Cursor>& after,
                                                          size_t limit,
                                                          std::vector<ListLoss>* lost) const {
  std::vector<ListLoss> found_lost;
  auto infos = list_changed(after, limit);
  const auto from =
      after ? order_of(after->name, after->id) : std::pair<std::string_view, ObjectId>();
  std::vector<Names> all;
  all.reserve(tables_.all().size());
  for (const Table& table : tables_.all()) {
    all.emplace_back(table, TableKey{.name = from.first, .id = from.second}, found_lost);
  }
  for (auto lost_name = damaged_names_.lower_bound(from.first); lost_name != damaged_names_.end();
       ++lost_name) {
    found_lost.push_back(
        {.name = lost_name->first, .after = {}, .before = {}, .error = lost_name->second});
  }
  for (size_t taken = 0; taken < limit;) {
    Names* const names = first_of(all);
    if (names == nullptr) break;
    const TableKey key = names->key();
    names->next();
    if (hidden_.contains(key.number)) continue;
    const auto found = tables_.find(key.number);
    if (!found) {
      found_lost.push_back(
          {.name = std::string(key.name), .after = {}, .before = {}, .error = found.error()});
      continue;
    }
    const bool behind =
        !after || key.name != after->name || (*found && after->id < (*found)->object.id);
    if (!behind || !*found || (*found)->source != static_cast<size_t>(names - all.data())) continue;
    infos.push_back(store::info_of((*found)->object));
    ++taken;
  }
  if (lost == nullptr && !found_lost.empty()) return fail(found_lost.front().error);
  if (lost != nullptr) std::ranges::move(found_lost, std::back_inserter(*lost));
  const auto in_order = [](const ObjectInfo& info) { return order_of(info.name, info.id); };
  std::ranges::sort(infos, {}, in_order);
  if (infos.size() > limit) infos.resize(limit);
  return infos;
}

}  // namespace verbena::store
