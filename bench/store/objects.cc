// SPDX-License-Identifier: Apache-2.0
#include "objects.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <spawn.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/ends.h"
#include "engine.h"
#include "store/directory.h"

namespace verbena::bench {
namespace {

std::string name_of(uint64_t i) { return fmt::format("object/{}", i); }

void must_sql(sqlite3* db, int status) {
  if (status != SQLITE_OK && status != SQLITE_DONE) give_up(sqlite3_errmsg(db));
}

// A program without a word on its standard output; its process.
pid_t start(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = -1;
  const int error =
      posix_spawnp(&process, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? process : -1;
}

int wait_for(pid_t process) {
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A server of our own, gone with this.
class Redis {
 public:
  Redis(const std::string& folder, bool log) : socket_(folder + "/redis.sock") {
    server_ = start({"redis-server", "--port", "0", "--unixsocket", socket_, "--dir", folder,
                     "--save", "", "--appendonly", log ? "yes" : "no", "--appendfsync", "everysec",
                     "--daemonize", "no", "--logfile", folder + "/redis.log"});
    for (int i = 0; server_ > 0 && i < 200 && !std::filesystem::exists(socket_); ++i) {
      usleep(20'000);
    }
  }
  Redis(const Redis&) = delete;
  Redis& operator=(const Redis&) = delete;
  ~Redis() {
    if (server_ <= 0) return;
    kill(server_, SIGTERM);
    wait_for(server_);
  }
  [[nodiscard]] bool runs() const { return server_ > 0 && std::filesystem::exists(socket_); }
  [[nodiscard]] const std::string& socket() const { return socket_; }

 private:
  std::string socket_;
  pid_t server_ = -1;
};

}  // namespace

double put_objects(const std::string& folder, uint64_t count, size_t bytes) {
  const std::vector<uint8_t> data(bytes, 0x5a);
  const double begin = now_s();
  auto store = taken(store::DirectoryStore::create({folder}, {}));
  for (uint64_t i = 0; i < count; ++i) {
    // Ids in no order, as those that `verbena put` draws.
    const store::ObjectId id{i * 0x9e3779b97f4a7c15, i + 1};
    must(store->create_object(id, name_of(i)));
    must(store->write(id, 0, data));
    if (i % kBatch == kBatch - 1) must(store->flush());
  }
  must(store->close());
  return static_cast<double>(count) / (now_s() - begin);
}

double put_in_sqlite(const std::string& folder, uint64_t count, size_t bytes) {
  const std::vector<uint8_t> data(bytes, 0x5a);
  const double begin = now_s();
  sqlite3* db = nullptr;
  must_sql(db, sqlite3_open((folder + "/sqlite").c_str(), &db));
  const auto run = [&](const char* text) {
    must_sql(db, sqlite3_exec(db, text, nullptr, nullptr, nullptr));
  };
  run("PRAGMA journal_mode=WAL");
  run("PRAGMA synchronous=FULL");
  run("CREATE TABLE objects (name TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID");
  sqlite3_stmt* insert = nullptr;
  must_sql(db, sqlite3_prepare_v2(db, "INSERT INTO objects VALUES (?, ?)", -1, &insert, nullptr));
  for (uint64_t i = 0; i < count; ++i) {
    if (i % kBatch == 0) run("BEGIN");
    const std::string name = name_of(i);
    must_sql(db, sqlite3_bind_text(insert, 1, name.data(), static_cast<int>(name.size()),
                                   SQLITE_STATIC));
    must_sql(db, sqlite3_bind_blob(insert, 2, data.data(), static_cast<int>(data.size()),
                                   SQLITE_STATIC));
    must_sql(db, sqlite3_step(insert));
    must_sql(db, sqlite3_reset(insert));
    if (i % kBatch == kBatch - 1 || i + 1 == count) run("COMMIT");
  }
  sqlite3_finalize(insert);
  must_sql(db, sqlite3_close(db));
  return static_cast<double>(count) / (now_s() - begin);
}

double put_in_redis(const std::string& folder, uint64_t count, size_t bytes, bool log) {
  const Redis redis(folder, log);
  if (!redis.runs()) return 0;
  const std::string command = "redis-cli -s " + redis.socket() + " --pipe > /dev/null";
  const std::string data(bytes, 'Z');
  const double begin = now_s();
  FILE* const pipe = popen(command.c_str(), "w");
  if (pipe == nullptr) return 0;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string name = name_of(i);
    const std::string request = fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n${}\r\n{}\r\n",
                                            name.size(), name, data.size(), data);
    fwrite(request.data(), 1, request.size(), pipe);
  }
  if (pclose(pipe) != 0) return 0;
  return static_cast<double>(count) / (now_s() - begin);
}

double get_object(const std::string& folder, uint64_t object) {
  std::vector<uint8_t> data(4096);
  store::DirectoryOptions options;
  options.store.read_only = true;
  options.store.on_demand = true;
  const double begin = now_s();
  auto store = taken(store::DirectoryStore::open({folder}, options));
  const auto id = taken(store.store().find(name_of(object)));
  static_cast<void>(taken(store.store().read(id, 0, data)));
  return now_s() - begin;
}

double get_by_command(const std::string& verbena, const std::string& folder, uint64_t object) {
  const double begin = now_s();
  const pid_t process = start({verbena, "get", "--data", folder, name_of(object), "-"});
  if (process < 0 || wait_for(process) != 0) give_up(verbena + " get failed");
  return now_s() - begin;
}

uint64_t bytes_in(const std::string& folder) {
  uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    sum += entry.file_size();
  }
  return sum;
}

}  // namespace verbena::bench
