// SPDX-License-Identifier: Apache-2.0
// Lists the objects of a server whose names begin with a prefix: the C interface from C++.
//
//   list_objects HOST PORT [PREFIX]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <verbena/client.h>

namespace {

struct Free {
  void operator()(verbena_client* client) const { verbena_disconnect(client); }
  void operator()(verbena_list* list) const { verbena_list_free(list); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

int fail() {
  std::fprintf(stderr, "list_objects: %s\n", verbena_last_error());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  verbena_client* connected = nullptr;
  const auto port = static_cast<std::uint16_t>(argc > 2 ? std::atoi(argv[2]) : 0);
  if (verbena_init(argc > 1 ? argv[1] : nullptr, port, &connected) != VERBENA_OK) return fail();
  const Owned<verbena_client> client(connected);

  verbena_list_options options = verbena_list_options_init();
  options.prefix = argc > 3 ? argv[3] : nullptr;
  verbena_list* listed = nullptr;
  if (verbena_list_objects(client.get(), &options, &listed) != VERBENA_OK) return fail();
  const Owned<verbena_list> list(listed);
  for (std::size_t i = 0; i < verbena_list_count(list.get()); ++i) {
    verbena_info info = verbena_info_init();
    if (verbena_list_entry(list.get(), i, &info) != VERBENA_OK) return fail();
    std::printf("%12llu %s\n", static_cast<unsigned long long>(info.bytes), info.name);
  }
  return 0;
}
