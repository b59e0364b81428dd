// SPDX-License-Identifier: Apache-2.0
// What is done for one type of request. A hook has no state; it is one line in hooks.cc.
//
//   message -> run() -> kAnswer ------------------------------------> response
//                  `--> kReceive, kSend: RDMA -> run_moved() -> kAnswer --^
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/call.h"
#include "store/store.h"

namespace verbena::server {

enum class Next : uint8_t {
  kAnswer,   // call.response is the answer
  kReceive,  // the client's memory goes to call.write
  kSend,     // call.read goes to the client's memory
};

// Where it runs. Nothing on the loop may wait for a medium.
enum class Where : uint8_t {
  kLoop,    // always
  kEither,  // on the loop, unless the store would have to wait
  kWorker,  // on a thread of its own
};

class Hook {
 public:
  Hook() = default;
  Hook(const Hook&) = delete;
  Hook& operator=(const Hook&) = delete;
  virtual ~Hook() = default;
  [[nodiscard]] virtual Where where() const = 0;
  // Of a cache: it may wait for what is behind, and runs on a worker then.
  [[nodiscard]] virtual bool goes_behind() const { return false; }
  // On the loop, of what is about to go to a worker: whether it is refused here and now, because
  // what is wrong with it can be told without waiting. A request that is refused then costs no more
  // than one that is answered, and nobody keeps the workers busy with such requests.
  [[nodiscard]] virtual bool refuses(Call& /*call*/, store::Store& /*store*/) const {
    return false;
  }
  [[nodiscard]] virtual Next run(Call& call, store::Store& store) const = 0;
  [[nodiscard]] virtual Next run_moved(Call& /*call*/, store::Store& /*store*/) const {
    return Next::kAnswer;
  }
};

// A hook for requests of type R: execute() fills in the response, or says what is wrong.
template <typename R>
class HookFor : public Hook {
 public:
  using Request = R;
  using Response = typename R::Response;

 protected:
  // What refuses() finds out; whatever it lets pass, execute() checks again.
  [[nodiscard]] virtual store::Result<void> check(const R& /*request*/, const Call& /*call*/,
                                                  store::Store& /*store*/) const {
    return {};
  }
  [[nodiscard]] virtual store::Result<void> execute(const R& request, Response& response,
                                                    Call& call, store::Store& store) const = 0;
  [[nodiscard]] bool refuses(Call& call, store::Store& store) const final {
    const auto fine = check(call.as<R>(), call, store);
    if (!fine) call.fail(fine.error());
    return !fine;
  }
  [[nodiscard]] Next run(Call& call, store::Store& store) const final {
    const R& request = call.as<R>();
    auto& response = call.response.emplace<Response>();
    response.id = request.id;
    if (const auto done = execute(request, response, call, store); !done) call.fail(done.error());
    return Next::kAnswer;
  }
};

// The object that a request means.
[[nodiscard]] store::Result<ObjectId> find(const protocol::ObjectRef& object, const Call& call,
                                           const store::Store& store);
// The same, if it is there; and what it is.
[[nodiscard]] store::Result<store::ObjectInfo> find_info(const protocol::ObjectRef& object,
                                                         const Call& call,
                                                         const store::Store& store);

// By the index in protocol::Request.
using Hooks = std::vector<std::unique_ptr<Hook>>;
[[nodiscard]] Hooks all_hooks();

// One of each, by file.
std::unique_ptr<Hook> make_ping_hook();
std::unique_ptr<Hook> make_io_hook();
std::unique_ptr<Hook> make_flush_hook();
std::unique_ptr<Hook> make_create_hook();
std::unique_ptr<Hook> make_cow_hook();
std::unique_ptr<Hook> make_delete_hook();
std::unique_ptr<Hook> make_rename_hook();
std::unique_ptr<Hook> make_truncate_hook();
std::unique_ptr<Hook> make_replace_hook();
std::unique_ptr<Hook> make_stat_hook();
std::unique_ptr<Hook> make_list_hook();
std::unique_ptr<Hook> make_crc_hook();
std::unique_ptr<Hook> make_behind_hook();
std::unique_ptr<Hook> make_range_register_hook();
std::unique_ptr<Hook> make_range_unregister_hook();

}  // namespace verbena::server
