// SPDX-License-Identifier: Apache-2.0
// What an owner that has ended without closing the tier has left: uploads, and sums of no object.
#include <cstring>
#include <unordered_map>

#include "backend/object_path.h"
#include "backend/s3_impl.h"
#include "backend/s3_xml.h"

namespace verbena::backend {

bool S3Impl::abort_all_of(const std::string& path) {
  const std::string key = client_->full_path(path);
  S3Request request;
  request.of_bucket = true;
  request.query.emplace_back("encoding-type", "url");
  request.query.emplace_back("prefix", key);
  request.query.emplace_back("uploads", "");
  const auto answer = client_->ask(request, "cannot list uploads");
  const auto uploads = answer ? parse_s3_uploads(answer->body) : fail(std::string());
  if (!uploads) {
    left_over_.store(true, std::memory_order_relaxed);
    return false;
  }
  bool all = true;
  for (const S3UploadEntry& upload : *uploads) {
    if (upload.key == key) all = abort_quietly(path, upload.id) && all;
  }
  return all;
}

Result<void> S3Impl::abort_uploads() {
  return client_->each_page(kS3Uploads, [&](const std::vector<std::string>& paths) -> Result<bool> {
    for (const std::string& path : paths) {
      S3Request request;
      request.path = path;
      request.max_answer = size_t{64} << 10;
      auto record = client_->ask(request, "cannot read the record of an upload");
      if (!record && record.error().code == Code::kNotFound) continue;
      if (!record) return fail(record.error());
      const size_t line = record->body.find('\n');
      if (line != std::string::npos) {
        const std::string object = record->body.substr(0, line);
        const std::string id = record->body.substr(line + 1);
        if (!(id.empty() ? abort_all_of(object) : abort_quietly(object, id))) continue;
      }
      remove_quietly(path);
      ++removed_;
    }
    return true;
  });
}

Result<bool> S3Impl::are_of_nobody(const std::string& path, const S3Version& name) {
  S3Request request;
  request.path = path;
  request.range_count = kSumsPageBytes;
  auto answer = client_->ask(request, "cannot read checksums");
  if (!answer && answer.error().code == Code::kNotFound) return false;  // they are gone
  if (!answer) return fail(answer.error());
  SumsPage page{};
  if (answer->body.size() < page.size()) return false;
  std::memcpy(page.data(), answer->body.data(), page.size());
  const auto head = decode_sums_head(page);
  if (!head || digest_of(head->key) != name.digest) return false;  // kept, as in a directory
  auto object = find(head->key);
  if (!object && object.error().code == Code::kNotFound) return true;
  if (!object && object.error().code == Code::kDamaged) return false;
  if (!object) return fail(object.error());
  return object->state.version != name.version;
}

Result<void> S3Impl::remove_garbage() {
  if (auto aborted = abort_uploads(); !aborted) return aborted;
  bool any = false;
  const auto look = [&](const std::vector<std::string>& paths) -> Result<bool> {
    any = !paths.empty();
    return false;
  };
  if (auto looked = client_->each_page(kS3Sums, look); !looked || !any) return looked;
  std::unordered_map<std::string, uint64_t> versions;  // 0: it cannot be told
  auto listed = list([&](const Entry& entry) {
    versions[digest_of(entry.key)] = entry.state.version;
    return true;
  });
  if (!listed) return listed;
  return client_->each_page(kS3Sums, [&](const std::vector<std::string>& paths) -> Result<bool> {
    for (const std::string& path : paths) {
      const auto name = parse_s3_version(std::string_view(path).substr(kS3Sums.size()));
      if (!name) continue;
      const auto object = versions.find(name->digest);
      if (object != versions.end() && (object->second == 0 || object->second == name->version)) {
        continue;
      }
      auto garbage = are_of_nobody(path, *name);
      if (!garbage) return fail(garbage.error());
      if (!*garbage) continue;
      remove_quietly(path);
      ++removed_;
    }
    return true;
  });
}

}  // namespace verbena::backend
