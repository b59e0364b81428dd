// SPDX-License-Identifier: Apache-2.0
// Connecting, and what there is to know and to set of a connection.
#include <utility>

#include <fmt/format.h>

#include "base/c_interface.h"
#include "c_client/arguments.h"
#include "c_client/libraries.h"
#include "client/connect.h"

namespace verbena::c_client {
namespace {

std::string text_or(const char* text, const char* otherwise) {
  return text == nullptr ? otherwise : text;
}

int connect(const verbena_options& options, verbena_client** client) {
  client::RemoteOptions remote;
  remote.host = text_or(options.host, "127.0.0.1");
  if (options.port != 0) remote.port = options.port;
  if (options.secret != nullptr) {
    remote.secret = options.secret_bytes == 0 ? std::string(options.secret)
                                              : std::string(options.secret, options.secret_bytes);
  }
  if (options.timeout_ms != 0) remote.timeout = options.timeout_ms * kMillisecond;
  remote.device = text_or(options.device, "");
  remote.fabric = text_or(options.fabric, "");
  remote.libraries = text_or(options.libraries, "");
  if (options.libraries == nullptr && options.device == nullptr) {
    auto libraries = device_libraries();
    if (!libraries) return failed(VERBENA_NO_DEVICE, libraries.error());
    remote.libraries = std::move(*libraries);
  }
  auto connected = client::connect(remote);
  if (!connected) return failed(connected.error());
  auto made = std::make_unique<verbena_client>();
  made->client = std::move(*connected);
  made->provider = made->client->provider();
  if (options.passive_wait != 0) made->client->set_passive_wait(true);
  *client = made.release();
  return VERBENA_OK;
}

}  // namespace
}  // namespace verbena::c_client

using namespace verbena;
using namespace verbena::c_client;

VERBENA_EXPORT int verbena_connect(const verbena_options* options, verbena_client** client) {
  return guarded([&] {
    if (client == nullptr) return failed(VERBENA_INVALID, "there is no place for the client");
    *client = nullptr;
    verbena_options taken;
    const int status = first_of(check_may_wait(), take(options, taken));
    return status == VERBENA_OK ? connect(taken, client) : status;
  });
}

VERBENA_EXPORT int verbena_init(const char* ip, uint16_t port, verbena_client** client) {
  verbena_options options = verbena_options_init();
  options.host = ip;
  options.port = port;
  return verbena_connect(&options, client);
}

VERBENA_EXPORT void verbena_disconnect(verbena_client* client) {
  // A child has nothing to end. In a callback it would wait for the callback itself.
  if (client == nullptr || check_blocking(client) != VERBENA_OK) return;
  client->closing = true;
  delete client;
}
VERBENA_EXPORT void verbena_fini(verbena_client* client) { verbena_disconnect(client); }

VERBENA_EXPORT int verbena_get_limits(verbena_client* client, verbena_limits* limits) {
  return guarded([&] {
    if (const int status = check_client(client); status != VERBENA_OK) return status;
    if (limits == nullptr) return failed(VERBENA_INVALID, "there is no place for the limits");
    if (const int status = check_room(limits); status != VERBENA_OK) return status;
    const protocol::Limits all = client->client->limits();
    verbena_limits made{};
    made.io_bytes = all.io_bytes;
    made.inline_bytes = all.inline_bytes;
    made.window = all.window;
    give(limits, made);
    return int{VERBENA_OK};
  });
}

VERBENA_EXPORT int verbena_get_reconnects(verbena_client* client, uint64_t* reconnects) {
  return guarded([&] {
    if (const int status = check_client(client); status != VERBENA_OK) return status;
    if (reconnects == nullptr) return failed(VERBENA_INVALID, "there is no place for the count");
    *reconnects = client->client->reconnects();
    return int{VERBENA_OK};
  });
}

VERBENA_EXPORT const char* verbena_provider_name(verbena_client* client) {
  return client == nullptr ? nullptr : client->provider.c_str();
}

VERBENA_EXPORT int verbena_set_passive_wait(verbena_client* client, int on) {
  return guarded([&] {
    if (const int status = check_client(client); status != VERBENA_OK) return status;
    client->client->set_passive_wait(on != 0);
    return int{VERBENA_OK};
  });
}
