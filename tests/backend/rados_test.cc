// SPDX-License-Identifier: Apache-2.0
// The RADOS tier on a real cluster, whose directory VERBENA_TEST_CEPH names (with-ceph starts one).
// Each test has a namespace of its own in the pool.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/memory_tier.h"
#include "backend/object_path.h"
#include "backend/rados_format.h"
#include "backend/rados_pool.h"
#include "backend/rados_tier.h"
#include "backend/tier_testing.h"

namespace verbena::backend {
namespace {

const Key kObject{"folder/object", {1, 2}};
constexpr uint32_t kLeaseSeconds = 2;

class RadosTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const directory = std::getenv("VERBENA_TEST_CEPH");
    if (directory == nullptr) GTEST_SKIP() << "VERBENA_TEST_CEPH names no cluster";
    directory_ = directory;
    options_ = {.pool = "test",
                .name_space = ::testing::UnitTest::GetInstance()->current_test_info()->name(),
                .conf = directory_ + "/ceph.conf",
                .operation_timeout_s = 20,
                .connect_timeout_s = 10,
                .lease_s = kLeaseSeconds};
  }
  std::unique_ptr<RadosTier> open() {
    auto tier = RadosTier::open(options_);
    EXPECT_TRUE(tier.has_value()) << tier.error().what;
    return tier ? std::move(*tier) : nullptr;
  }
  // Waits until the lease of a process that is gone, or stopped, has ended.
  std::unique_ptr<RadosTier> take_over() {
    for (int tries = 0; tries < 100; ++tries) {
      auto tier = RadosTier::open(options_);
      if (tier) return std::move(*tier);
      EXPECT_EQ(tier.error().code, Code::kInUse) << tier.error().what;
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    ADD_FAILURE() << "the lease does not end";
    return nullptr;
  }
  State write(Tier& tier, const Key& key, const Bytes& bytes) {
    const auto before = tier.state(key);
    NewState wanted{std::nullopt, {++version_, bytes.size(), version_}};
    if (before) wanted.base = before->version;
    const auto done = write_object(tier, key, wanted, bytes);
    EXPECT_TRUE(done.has_value()) << done.error().what;
    return wanted.state;
  }
  static void expect(Tier& tier, const Key& key, const Bytes& bytes) {
    const auto read = read_object(tier, key);
    ASSERT_TRUE(read.has_value()) << read.error().what;
    EXPECT_TRUE(*read == bytes);
  }
  size_t count_stripes() {
    auto pool = RadosPool::connect(options_);
    size_t count = 0;
    EXPECT_TRUE(pool && (*pool)->each_object([&](std::string_view name) {
      count += parse_stripe_name(name) ? 1 : 0;
    }));
    return count;
  }
  // A process that does this and then says so; it goes on when it is told to, by its own choice.
  struct Child {
    pid_t pid = -1;
    int said = -1;
  };
  static Child start_child(const std::function<void(const std::function<void(char)>& say)>& work) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      work([&](char what) { static_cast<void>(!::write(ends[1], &what, 1)); });
      _exit(0);
    }
    close(ends[1]);
    return {pid, ends[0]};
  }
  static char wait_for(const Child& child) {
    char what = 0;
    return ::read(child.said, &what, 1) == 1 ? what : 0;
  }
  static void end(const Child& child) {
    kill(child.pid, SIGKILL);
    EXPECT_EQ(waitpid(child.pid, nullptr, 0), child.pid);
    close(child.said);
  }
  // False: there is no such daemon.
  bool signal_daemon(const std::string& name, int signal) {
    std::ifstream file(directory_ + "/run/" + name + ".pid");
    pid_t pid = 0;
    if (!(file >> pid)) return false;
    EXPECT_EQ(kill(pid, signal), 0);
    return true;
  }
  void signal_osds(int signal) {
    for (int i = 0; signal_daemon("osd." + std::to_string(i), signal); ++i) continue;
  }

  std::string directory_;
  RadosOptions options_;
  SeededRandom random_{3};
  uint64_t version_ = 100;
};

TEST_F(RadosTest, RoundTripsOfManySizes) {
  std::map<std::string, std::pair<State, Bytes>> written;
  auto tier = open();
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{kPartBytes}, kStripeBytes - 1,
                              kStripeBytes, kStripeBytes + 1, 3 * kStripeBytes + 5}) {
    const Bytes bytes = random_bytes(random_, size);
    const std::string name = "size " + std::to_string(size);
    written[name] = {write(*tier, {name, {}}, bytes), bytes};
  }
  const Bytes unnamed = random_bytes(random_, 5000);
  write(*tier, {"", {3, 4}}, unnamed);
  for (int round = 0; round < 2; ++round) {
    size_t listed = 0;
    ASSERT_TRUE(tier->list([&](const Entry& entry) {
      if (entry.key.name.empty()) {
        EXPECT_EQ(entry.key.id, (ObjectId{3, 4}));
      } else {
        EXPECT_EQ(entry.state, written.at(entry.key.name).first);
      }
      ++listed;
      return true;
    }));
    EXPECT_EQ(listed, written.size() + 1);
    for (const auto& [name, object] : written) expect(*tier, {name, {}}, object.second);
    expect(*tier, {"", {3, 4}}, unnamed);
    const uint64_t epoch = tier->epoch();
    tier.reset();
    tier = open();
    EXPECT_EQ(tier->epoch(), epoch + 1);
    EXPECT_EQ(tier->removed_stripes(), 0u);
  }
}

TEST_F(RadosTest, AgreesWithTheModel) {
  const std::vector<Key> keys{{"a", {}}, {"a/b", {}}, {"../x", {}}, {"", {7, 8}}};
  MemoryTier model;
  auto tier = open();
  for (int step = 0; step < 80 && !HasFailure(); ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    const Key& key = keys[random_.below(keys.size())];
    const auto before = model.state(key);
    const uint64_t what = random_.below(12);
    if (what == 0) {
      tier.reset();
      tier = open();
    } else if (what == 1) {
      const uint64_t version = before ? before->version : 5;
      ASSERT_TRUE(tier->remove(key, version));
      ASSERT_TRUE(model.remove(key, version));
    } else {
      const uint64_t limit = random_.below(2) == 0 ? 10 * kPartBytes : 3 * kStripeBytes;
      NewState wanted{std::nullopt, {++version_, random_.below(limit), version_}};
      if (before) wanted.base = before->version;
      const Key& other = keys[random_.below(keys.size())];
      if (const auto source = model.state(other); source && random_.below(3) == 0) {
        wanted.source = Source{other, source->version};
      }
      const Bytes bytes = random_bytes(random_, wanted.state.size);
      auto update = tier->update(key, wanted);
      auto modelled = model.update(key, wanted);
      ASSERT_TRUE(update && modelled);
      const uint64_t parts = part_count(bytes.size());
      const uint64_t most = 1 + random_.below(2 * parts + 1);
      for (uint64_t at = random_.below(most); at < parts;) {
        const uint64_t count = std::min(parts - at, 1 + random_.below(most));
        if (random_.below(3) == 0) {
          ASSERT_TRUE((*update)->hole(at, count) && (*modelled)->hole(at, count));
        } else {
          ASSERT_TRUE(put_parts(**update, bytes, at, count) &&
                      put_parts(**modelled, bytes, at, count));
        }
        at += count + random_.below(most);
      }
      const auto done = (*update)->commit();
      ASSERT_TRUE(done.has_value()) << done.error().what;
      ASSERT_TRUE((*modelled)->commit());
    }
    const auto state = model.state(key);
    ASSERT_EQ(tier->state(key).has_value(), state.has_value());
    if (!state) continue;
    EXPECT_EQ(tier->state(key).value(), *state);
    expect(*tier, key, read_object(model, key).value());
  }
  // Nothing is left of versions that were replaced.
  uint64_t most = 0;
  ASSERT_TRUE(model.list([&](const Entry& entry) {
    most += stripes_of(entry.state.size);
    return true;
  }));
  EXPECT_LE(count_stripes(), most);
}

TEST_F(RadosTest, RefusesOtherVersions) {
  auto tier = open();
  const Bytes bytes = random_bytes(random_, 100);
  const State first = write(*tier, kObject, bytes);
  const State next{.version = 7, .size = 1, .modified_ns = 1};
  EXPECT_EQ(tier->update(kObject, {std::nullopt, next}).error().code, Code::kConflict);
  EXPECT_EQ(tier->update(kObject, {99, next}).error().code, Code::kConflict);
  EXPECT_EQ(tier->remove(kObject, 99).error().code, Code::kConflict);
  EXPECT_EQ(tier->load(kObject, 99, 0, {}).error().code, Code::kConflict);
  EXPECT_EQ(tier->state({"other", {}}).error().code, Code::kNotFound);
  auto late = tier->update(kObject, {first.version, next});
  const State second = write(*tier, kObject, bytes);
  EXPECT_EQ((*late)->commit().error().code, Code::kConflict);
  late = tier->update(kObject, {second.version, next});
  ASSERT_TRUE(tier->remove(kObject, second.version));
  EXPECT_EQ((*late)->commit().error().code, Code::kConflict);
  late = tier->update(kObject, {std::nullopt, next});
  write(*tier, kObject, bytes);
  EXPECT_EQ((*late)->commit().error().code, Code::kConflict);
  late->reset();
  expect(*tier, kObject, bytes);
  EXPECT_EQ(count_stripes(), 1u);
}

TEST_F(RadosTest, DamageIsNeverServed) {
  auto tier = open();
  const Bytes bytes = random_bytes(random_, kStripeBytes + 5 * kPartBytes);
  const State state = write(*tier, kObject, bytes);
  auto pool = RadosPool::connect(options_);
  ASSERT_TRUE(pool.has_value());
  const std::string name = text_of(StripeName{digest_of(kObject), state.version, 1});
  // Written by another program: short, so that parts are missing.
  WriteOperation op(**pool);
  (*pool)->api().write_op_write_full(op.get(), "x", 1);
  ASSERT_EQ(op.run(name), 0);
  const auto read = read_object(*tier, kObject);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Code::kDamaged) << read.error().what;
  EXPECT_EQ(read.error().damage.offset, kStripeBytes);
  ASSERT_EQ((*pool)->api().remove((*pool)->io(), name.c_str()), 0);
  EXPECT_EQ(read_object(*tier, kObject).error().code, Code::kDamaged);
  Bytes part(kPartBytes);
  std::vector<PartToLoad> to{{part.data(), 0}};
  EXPECT_TRUE(tier->load(kObject, state.version, 3, to));  // the other stripe
}

TEST_F(RadosTest, HasOneOwnerAndIsTakenOverWhenItIsKilled) {
  const Child child = start_child([&](const std::function<void(char)>& say) {
    auto tier = RadosTier::open(options_);
    say(tier ? 'y' : 'n');
    // Complete stripes, but no commit: garbage.
    const Bytes bytes(2 * kStripeBytes);
    auto update = (*tier)->update(kObject, {std::nullopt, {5, bytes.size(), 5}});
    say(update && put_parts(**update, bytes, 0, 2 * kStripeParts) ? 'y' : 'n');
    pause();
  });
  ASSERT_EQ(wait_for(child), 'y');
  const auto second = RadosTier::open(options_);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, Code::kInUse);
  EXPECT_NE(second.error().what.find("client."), std::string::npos) << second.error().what;
  ASSERT_EQ(wait_for(child), 'y');
  // It renews its lease.
  std::this_thread::sleep_for(std::chrono::seconds(2 * kLeaseSeconds));
  EXPECT_FALSE(RadosTier::open(options_).has_value());
  std::this_thread::sleep_for(std::chrono::seconds(1));  // its stripes are written
  end(child);
  auto tier = take_over();
  ASSERT_NE(tier, nullptr);
  EXPECT_EQ(tier->epoch(), 2u);
  EXPECT_EQ(tier->removed_stripes(), 2u);
  EXPECT_EQ(tier->state(kObject).error().code, Code::kNotFound);
}

TEST_F(RadosTest, AStoppedOwnerThatWakesUpWritesNothing) {
  const Bytes old = random_bytes(random_, 10'000);
  {
    auto tier = open();
    write(*tier, kObject, old);
  }
  const uint64_t base = version_;
  const Child child = start_child([&](const std::function<void(char)>& say) {
    auto tier = RadosTier::open(options_);
    const Bytes bytes(10'000, 'c');
    auto change = (*tier)->update(kObject, {base, {1000, bytes.size(), 1}});
    auto make = (*tier)->update({"new", {}}, {std::nullopt, {1001, bytes.size(), 1}});
    const bool good =
        change && make && put_parts(**change, bytes, 0, 3) && put_parts(**make, bytes, 0, 3);
    say(good ? 'y' : 'n');
    raise(SIGSTOP);
    // Another process is the owner now.
    const auto changed = (*change)->commit();
    const auto made = (*make)->commit();
    const auto removed = (*tier)->remove(kObject, (*tier)->state(kObject)->version);
    const auto refused = [](const Result<void>& result) {
      return !result && result.error().code == Code::kInUse;
    };
    say(refused(changed) && refused(made) && refused(removed) ? 'y' : 'n');
    pause();
  });
  ASSERT_EQ(wait_for(child), 'y');
  int status = 0;
  ASSERT_EQ(waitpid(child.pid, &status, WUNTRACED), child.pid);
  ASSERT_TRUE(WIFSTOPPED(status));
  auto tier = take_over();
  ASSERT_NE(tier, nullptr);
  // Neither has touched the objects yet: the epoch is in the way all the same.
  kill(child.pid, SIGCONT);
  EXPECT_EQ(wait_for(child), 'y');
  end(child);
  expect(*tier, kObject, old);
  EXPECT_EQ(tier->state({"new", {}}).error().code, Code::kNotFound);
  const Bytes mine = random_bytes(random_, 20'000);
  write(*tier, kObject, mine);
  expect(*tier, kObject, mine);
}

TEST_F(RadosTest, AClusterThatDoesNotAnswerIsAnErrorInBoundedTime) {
  options_.operation_timeout_s = 3;
  auto tier = open();
  const Bytes bytes = random_bytes(random_, 10'000);
  const State state = write(*tier, kObject, bytes);
  signal_osds(SIGSTOP);
  EXPECT_EQ(tier->state(kObject).error().code, Code::kUnreachable);
  const Bytes next = random_bytes(random_, 20'000);
  const auto failed = write_object(*tier, kObject, {state.version, {1000, next.size(), 1}}, next);
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, Code::kUnreachable) << failed.error().what;
  signal_osds(SIGCONT);
  // It is back, and the same owner goes on.
  Result<State> now = tier->state(kObject);
  for (int tries = 0; !now && tries < 20; ++tries) now = tier->state(kObject);
  ASSERT_TRUE(now.has_value()) << now.error().what;
  write(*tier, kObject, next);
  expect(*tier, kObject, next);
}

TEST_F(RadosTest, SaysWhyItCannotConnect) {
  // A key that the cluster does not know.
  const std::string keyring = directory_ + "/wrong-keyring";
  std::ofstream(keyring) << "[client.admin]\n\tkey = AQAnM2VlAAAAABAAF8Xq0pDgc5+QCSjLcJ0p0Q==\n";
  std::ifstream conf(options_.conf);
  std::string text((std::istreambuf_iterator<char>(conf)), {});
  const std::string line = "keyring = " + directory_ + "/keyring";
  ASSERT_NE(text.find(line), std::string::npos);
  text.replace(text.find(line), line.size(), "keyring = " + keyring);
  RadosOptions wrong = options_;
  wrong.conf = directory_ + "/wrong.conf";
  std::ofstream(wrong.conf) << text;
  const auto refused = RadosTier::open(wrong);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().what.find("keyring"), std::string::npos) << refused.error().what;

  RadosOptions no_pool = options_;
  no_pool.pool = "none";
  EXPECT_EQ(RadosTier::open(no_pool).error().code, Code::kNotFound);
  RadosOptions no_conf = options_;
  no_conf.conf = directory_ + "/none.conf";
  EXPECT_FALSE(RadosTier::open(no_conf).has_value());
}

TEST_F(RadosTest, GoesOnWithoutTheMonitor) {
  auto tier = open();
  const Bytes bytes = random_bytes(random_, 2 * kStripeBytes);
  write(*tier, kObject, bytes);
  ASSERT_TRUE(signal_daemon("mon.a", SIGSTOP));
  const Bytes next = random_bytes(random_, kStripeBytes);
  write(*tier, kObject, next);
  expect(*tier, kObject, next);
  ASSERT_TRUE(signal_daemon("mon.a", SIGCONT));
  write(*tier, kObject, bytes);
  expect(*tier, kObject, bytes);
}

// The last one: the cluster has one OSD less afterwards.
TEST_F(RadosTest, NothingIsLostWithAnOsd) {
  auto tier = open();
  std::map<std::string, std::pair<State, Bytes>> flushed;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "object " + std::to_string(i % 10);
    ASSERT_TRUE(i != 20 || signal_daemon("osd.0", SIGKILL));
    const Bytes bytes = random_bytes(random_, random_.below(kStripeBytes * 2));
    NewState wanted{std::nullopt, {++version_, bytes.size(), version_}};
    if (flushed.contains(name)) wanted.base = flushed[name].first.version;
    // Where it cannot be told whether it was done, the tier says what is there.
    auto done = write_object(*tier, {name, {}}, wanted, bytes);
    for (int tries = 0; !done && tries < 10; ++tries) {
      EXPECT_EQ(done.error().code, Code::kUnreachable) << done.error().what;
      const auto now = tier->state({name, {}});
      if (now && *now == wanted.state) break;
      done = write_object(*tier, {name, {}}, wanted, bytes);
    }
    flushed[name] = {wanted.state, bytes};
  }
  for (const auto& [name, object] : flushed) {
    EXPECT_EQ(tier->state({name, {}}).value(), object.first);
    expect(*tier, {name, {}}, object.second);
  }
}

}  // namespace
}  // namespace verbena::backend
