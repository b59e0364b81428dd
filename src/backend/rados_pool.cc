// SPDX-License-Identifier: Apache-2.0
#include "backend/rados_pool.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace verbena::backend {
namespace {

[[nodiscard]] Code code_of_rados(int error) {
  switch (error) {
    case -ENOSPC:
    case -EDQUOT:    return Code::kFull;
    case -ENOMEM:    return Code::kNoMemory;
    case -ETIMEDOUT:
    case -ENOTCONN:
    case -ESHUTDOWN: return Code::kUnreachable;
    case -ENOENT:    return Code::kNotFound;
    case -EROFS:     return Code::kReadOnly;
    default:         return Code::kIo;
  }
}

[[nodiscard]] const char* advice_for_rados(int error) {
  switch (error) {
    case -EACCES:
    case -EPERM:     return " (the cluster refuses the key: see the keyring and its capabilities)";
    case -ETIMEDOUT: return " (the cluster does not answer)";
    case -ESHUTDOWN: return " (the cluster has blocklisted this process)";
    case -EDQUOT:    return " (the pool's quota is used up)";
    default:         return "";
  }
}

}  // namespace

RadosPool::RadosPool(const RadosLibrary& api, const RadosOptions& options)
    : api_(api),
      name_(options.name_space.empty() ? options.pool : options.pool + "/" + options.name_space) {}

Result<std::unique_ptr<RadosPool>> RadosPool::connect(const RadosOptions& options) {
  auto api = RadosLibrary::load();
  if (!api) return fail(api.error());
  std::unique_ptr<RadosPool> pool(new RadosPool(**api, options));
  if (auto started = pool->start(options); !started) return fail(started.error());
  return pool;
}

Result<void> RadosPool::start(const RadosOptions& options) {
  int error = api_.create(&cluster_, options.user.empty() ? nullptr : options.user.c_str());
  if (error < 0) {
    cluster_ = nullptr;
    return fail(failed("cannot start librados", "", error));
  }
  error = api_.conf_read_file(cluster_, options.conf.empty() ? nullptr : options.conf.c_str());
  if (error < 0) return fail(failed("cannot read the configuration", options.conf, error));
  // librados has none by default.
  const std::string operation = std::to_string(options.operation_timeout_s);
  const std::string connect = std::to_string(options.connect_timeout_s);
  for (const auto& [name, value] : {std::pair("rados_osd_op_timeout", &operation),
                                    std::pair("rados_mon_op_timeout", &operation),
                                    std::pair("client_mount_timeout", &connect)}) {
    error = api_.conf_set(cluster_, name, value->c_str());
    if (error < 0) return fail(failed("cannot set a timeout", name, error));
  }
  error = api_.connect(cluster_);
  if (error < 0) {
    Error refused = failed("cannot connect to the cluster", "", error);
    if (refused.code == Code::kNotFound) refused.code = Code::kIo;
    return fail(std::move(refused));
  }
  error = api_.ioctx_create(cluster_, options.pool.c_str(), &io_);
  if (error < 0) {
    io_ = nullptr;
    return fail(failed("cannot open the pool", "", error));
  }
  api_.ioctx_set_namespace(io_, options.name_space.c_str());
  // A full pool is an error, instead of a wait.
  api_.set_pool_full_try(io_);
  return {};
}

RadosPool::~RadosPool() {
  if (io_ != nullptr) api_.ioctx_destroy(io_);
  if (cluster_ != nullptr) api_.shutdown(cluster_);
}

Error RadosPool::failed(std::string_view what, std::string_view object, int error) const {
  return {code_of_rados(error),
          fmt::format("pool {}{}{}: {}: {}{}", name_, object.empty() ? "" : ", ", object, what,
                      std::strerror(-error), advice_for_rados(error)),
          {}};
}

Result<std::string> RadosPool::omap_value(const std::string& object, const std::string& key) {
  rados_read_op_t op = api_.create_read_op();
  rados_omap_iter_t found = nullptr;
  int part = 0;
  const char* const keys[] = {key.data()};
  const size_t lengths[] = {key.size()};
  api_.read_op_omap_get_vals_by_keys2(op, keys, 1, lengths, &found, &part);
  const int error = api_.read_op_operate(op, io_, object.c_str(), 0);
  std::string value;
  if (error == 0 && found != nullptr) {
    char* name = nullptr;
    char* bytes = nullptr;
    size_t name_length = 0;
    size_t length = 0;
    if (api_.omap_get_next2(found, &name, &bytes, &name_length, &length) == 0 && name != nullptr) {
      value.assign(bytes, length);
    }
  }
  if (found != nullptr) api_.omap_get_end(found);
  api_.release_read_op(op);
  if (error < 0) return fail(failed("cannot read it", object, error));
  return value;
}

Result<bool> RadosPool::each_value(const std::string& object, const EachValue& each) {
  constexpr uint64_t kAtOnce = 200;
  std::string after;
  for (unsigned char more = 1; more != 0;) {
    rados_read_op_t op = api_.create_read_op();
    rados_omap_iter_t found = nullptr;
    int part = 0;
    api_.read_op_omap_get_vals2(op, after.c_str(), "", kAtOnce, &found, &more, &part);
    const int error = api_.read_op_operate(op, io_, object.c_str(), 0);
    Result<bool> go_on = true;
    while (error == 0 && go_on && *go_on) {
      char* name = nullptr;
      char* bytes = nullptr;
      size_t name_length = 0;
      size_t length = 0;
      if (api_.omap_get_next2(found, &name, &bytes, &name_length, &length) != 0) break;
      if (name == nullptr) break;
      after.assign(name, name_length);
      go_on = each(after, {bytes, length});
    }
    if (found != nullptr) api_.omap_get_end(found);
    api_.release_read_op(op);
    if (error < 0) return fail(failed("cannot list it", object, error));
    if (!go_on || !*go_on) return go_on;
  }
  return true;
}

Result<std::string> RadosPool::attribute(const std::string& object, const char* name) {
  std::array<char, 64> bytes{};
  const int length = api_.getxattr(io_, object.c_str(), name, bytes.data(), bytes.size());
  if (length == -ENODATA || length == -ENOENT) return std::string();
  if (length < 0) return fail(failed("cannot read an attribute", object, length));
  return std::string(bytes.data(), static_cast<size_t>(length));
}

Result<void> RadosPool::each_object(const EachName& each) {
  rados_list_ctx_t list = nullptr;
  int error = api_.nobjects_list_open(io_, &list);
  if (error < 0) return fail(failed("cannot list it", "", error));
  while (error == 0) {
    const char* name = nullptr;
    const char* key = nullptr;
    const char* name_space = nullptr;
    size_t name_length = 0;
    size_t key_length = 0;
    size_t space_length = 0;
    error = api_.nobjects_list_next2(list, &name, &key, &name_space, &name_length, &key_length,
                                     &space_length);
    if (error == 0) each({name, name_length});
  }
  api_.nobjects_list_close(list);
  if (error != -ENOENT) return fail(failed("cannot list it", "", error));
  return {};
}

RadosFlight::~RadosFlight() { wait_all(); }

void RadosFlight::start(const std::function<int(rados_completion_t)>& begin, Done done) {
  if (flying_.size() >= most_) wait_one();
  rados_completion_t completion = nullptr;
  int error = pool_.api().aio_create_completion2(nullptr, nullptr, &completion);
  if (error == 0) {
    error = begin(completion);
    if (error == 0) {
      flying_.push_back({completion, std::move(done)});
      return;
    }
    pool_.api().aio_release(completion);
  }
  done(error);
}

void RadosFlight::wait_one() {
  Flying oldest = std::move(flying_.front());
  flying_.erase(flying_.begin());
  pool_.api().aio_wait_for_complete(oldest.completion);
  const int result = pool_.api().aio_get_return_value(oldest.completion);
  pool_.api().aio_release(oldest.completion);
  oldest.done(result);
}

void RadosFlight::wait_all() {
  while (!flying_.empty()) wait_one();
}

}  // namespace verbena::backend
