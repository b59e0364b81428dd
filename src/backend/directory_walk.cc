// SPDX-License-Identifier: Apache-2.0
// Goes through the directory: to list objects, and to remove what a crash has left. Folders are
// read one at a time and opened from the top, so that deep ones take no descriptors.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>

#include "backend/directory_impl.h"
#include "store/record.h"

namespace verbena::backend {
namespace {

constexpr std::string_view kFormatFile = ".verbena/format";
constexpr std::string_view kFormatText = "verbena directory 1\n";

[[nodiscard]] std::string below(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "/" + name;
}

}  // namespace

Result<DirectoryImpl::Names> DirectoryImpl::names_in(const std::string& path) {
  Names names;
  UniqueFd fd(open_folder(path));
  if (fd.get() == -ENOENT || fd.get() == -ENOTDIR || fd.get() == -ELOOP) return names;
  if (!fd.valid()) return fail(failed("cannot open it", path, fd.get()));
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(fdopendir(fd.get()), closedir);
  if (!folder) return fail(failed("cannot read it", path, -errno));
  const int descriptor = fd.release();  // the DIR's
  while (true) {
    errno = 0;
    const dirent* const entry = readdir(folder.get());
    if (entry == nullptr && errno != 0) return fail(failed("cannot read it", path, -errno));
    if (entry == nullptr) return names;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status{};
    const int error = files_.status(descriptor, name, status);
    if (error == -ENOENT) continue;
    if (error < 0) return fail(failed("cannot look at it", below(path, name), error));
    if (S_ISREG(status.st_mode)) {
      names.files.push_back(name);
    } else if (S_ISDIR(status.st_mode)) {
      names.folders.push_back(name);
    } else {
      ++names.others;
    }
  }
}

Result<bool> DirectoryImpl::walk(const std::string& folder, const EachFile& each) {
  std::vector<std::string> folders{folder};
  while (!folders.empty()) {
    const std::string path = std::move(folders.back());
    folders.pop_back();
    auto names = names_in(path);
    if (!names) return fail(names.error());
    counters_.skipped.fetch_add(names->others);
    for (const std::string& name : names->files) {
      auto more = each(below(path, name));
      if (!more || !*more) return more;
    }
    for (const std::string& name : names->folders) {
      std::string next = below(path, name);
      if (next.starts_with(kReserved) && !folder.starts_with(kReserved)) continue;
      // No object's name can be that long; escaped ones are three times as long at most.
      if (next.size() > 4 * store::kMaxNameBytes) {
        counters_.skipped.fetch_add(1);
        continue;
      }
      folders.push_back(std::move(next));
    }
  }
  return true;
}

Result<bool> DirectoryImpl::list_one(const Key& key, const std::string& path, const Each& each) {
  auto found = open_object(key, path);
  if (!found && found.error().code == Code::kNotFound) return true;
  // One that is damaged must not hide the others.
  if (!found && found.error().code == Code::kDamaged) return each({key, {}});
  if (!found) return fail(found.error());
  return each({found->key, found->state});
}

Result<void> DirectoryImpl::list(const Each& each) {
  const auto skip = [&]() -> Result<bool> {
    counters_.skipped.fetch_add(1);
    return true;
  };
  auto more = walk("", [&](const std::string& path) -> Result<bool> {
    if (!store::good_name(path) || plain_path(path) != path) return skip();
    return list_one({path, {}}, path, each);
  });
  if (more && *more) {
    more = walk(std::string(kNamesFolder), [&](const std::string& path) -> Result<bool> {
      const auto name = name_of_escaped(path);
      if (!name || !store::good_name(*name)) return skip();
      // Somebody has made a file of the plain name meanwhile: that one is the object.
      struct stat status{};
      const auto plain = plain_path(*name);
      if (plain && status_of(*plain, status) == 0 && S_ISREG(status.st_mode)) return skip();
      return list_one({*name, {}}, path, each);
    });
  }
  if (more && *more) {
    more = walk(std::string(kIdsFolder), [&](const std::string& path) -> Result<bool> {
      const auto id = id_of_path(path);
      return id ? list_one({"", *id}, path, each) : skip();
    });
  }
  if (!more) return fail(more.error());
  return {};
}

Result<void> DirectoryImpl::check_format() {
  const SplitPath file = split(kFormatFile);
  const UniqueFd folder(open_folder(file.folder));
  if (!folder.valid()) return fail(failed("cannot open it", file.folder, folder.get()));
  UniqueFd fd(files_.open(folder.get(), file.file, O_RDWR | O_CREAT, 0666));
  if (!fd.valid()) return fail(failed("cannot make it", kFormatFile, fd.get()));
  std::string text(kFormatText.size() + 1, '\0');
  std::vector<iovec> to{{text.data(), text.size()}};
  auto read = read_all(fd.get(), kFormatFile, to, 0);
  if (!read) return fail(read.error());
  text.resize(*read);
  if (text == kFormatText) return {};
  // A crash may have left a part of it, if there was nothing else yet.
  if (kFormatText.starts_with(text)) {
    std::string whole(kFormatText);
    std::vector<iovec> from{{whole.data(), whole.size()}};
    if (auto written = write_all(fd.get(), kFormatFile, from, 0); !written) return written;
    if (auto synced = sync(fd.get(), kFormatFile); !synced) return synced;
    return sync(folder.get(), file.folder);
  }
  return fail(Error{Code::kVersion,
                    fmt::format("directory {}: .verbena/format names a format that this program "
                                "does not know",
                                path_),
                    {}});
}

Result<void> DirectoryImpl::remove_left_over() {
  const std::string temporary(kTemporaryFolder);
  auto names = names_in(temporary);
  if (!names) return fail(names.error());
  for (const std::string& name : names->files) {
    remove_quietly(below(temporary, name));
    counters_.removed.fetch_add(1);
  }
  auto all = walk(std::string(kSumsFolder), [&](const std::string& path) -> Result<bool> {
    if (auto done = remove_sums_of_nobody(path); !done) return fail(done.error());
    return true;
  });
  if (!all) return fail(all.error());
  return {};
}

// Sums whose object has another state now, or none. Those that cannot be read are kept: they may be
// those of an object, which must not be taken for one without sums.
Result<void> DirectoryImpl::remove_sums_of_nobody(const std::string& path) {
  const UniqueFd fd(open_file(path, O_RDONLY));
  if (!fd.valid()) return fail(failed("cannot open it", path, fd.get()));
  SumsPage page;
  if (auto read = read_page(fd.get(), path, 0, page); !read) return read;
  const auto head = decode_sums_head(page);
  if (!head) {
    counters_.unreadable.fetch_add(1);
    return {};
  }
  auto found = find(head->key);
  // Damaged is what has sums that cannot be read: other ones than these.
  if (!found && found.error().code != Code::kNotFound && found.error().code != Code::kDamaged) {
    return fail(found.error());
  }
  if (found && !found->adopted && found->sums_path == path) return {};
  remove_quietly(path);
  counters_.removed.fetch_add(1);
  return {};
}

int DirectoryImpl::make_folders(std::string_view path, std::vector<UniqueFd>& to_sync) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY;
  UniqueFd here(open_folder(""));
  while (here.valid() && !path.empty()) {
    const std::string name(path.substr(0, path.find('/')));
    path.remove_prefix(std::min(name.size() + 1, path.size()));
    UniqueFd next(files_.open(here.get(), name, kFlags));
    if (next.get() == -ENOENT) {
      const int made = files_.make_folder(here.get(), name);
      if (made < 0 && made != -EEXIST) return made;
      next = UniqueFd(files_.open(here.get(), name, kFlags));
      if (next.valid()) to_sync.push_back(std::move(here));
    }
    here = std::move(next);
  }
  return std::min(here.get(), 0);
}

Result<void> DirectoryImpl::sync(int fd, std::string_view path) {
  if (const int error = files_.sync(fd); error < 0) {
    return fail(failed("cannot write it to the disk", path, error));
  }
  return {};
}

void DirectoryImpl::remove_quietly(std::string_view path) {
  const SplitPath parts = split(path);
  const UniqueFd folder(open_folder(parts.folder));
  const int error = folder.valid() ? files_.unlink(folder.get(), parts.file) : folder.get();
  if (error < 0 && error != -ENOENT) left_over_.store(true, std::memory_order_relaxed);
}

void DirectoryImpl::remove_empty_folders(std::string path) {
  while (!path.empty() && !path.starts_with(kReserved)) {
    const SplitPath parts = split(path);
    const UniqueFd folder(open_folder(parts.folder));
    if (!folder.valid() || files_.remove_folder(folder.get(), parts.file) < 0) return;
    path = parts.folder;
  }
}

}  // namespace verbena::backend
