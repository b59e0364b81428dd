// SPDX-License-Identifier: Apache-2.0
// Reads, writes and whole objects, blocking.
#include <atomic>
#include <string>
#include <thread>

#include "c_client/fixture.h"

namespace verbena::c_client {
namespace {

class CData : public Connected {};

TEST_F(CData, ThereAndBack) {
  create("a");
  const verbena_object a = verbena_name("a");
  for (const size_t size : {0UL, 1UL, 512UL, 4048UL, 32'768UL, 32'769UL, 1'000'000UL}) {
    SCOPED_TRACE(size);
    const Bytes data = random_bytes(size, size);
    verbena_transfer written = verbena_transfer_init();
    ASSERT_EQ(verbena_write(client(), a, 5, data.data(), size, nullptr, &written), VERBENA_OK)
        << verbena_last_error();
    EXPECT_EQ(written.bytes, size);
    EXPECT_EQ(written.crc, verbena_crc32(data.data(), size));
    Bytes back(size);
    verbena_transfer read = verbena_transfer_init();
    ASSERT_EQ(verbena_read(client(), a, 5, back.data(), size, nullptr, &read), VERBENA_OK);
    EXPECT_EQ(read.bytes, size);
    EXPECT_EQ(read.crc, written.crc);
    EXPECT_EQ(read.object.low, written.object.low);
    EXPECT_EQ(back, data);
  }
}

// 20 MiB are more than one request.
TEST_F(CData, LongOnesAreSplit) {
  create("a");
  const verbena_object a = verbena_name("a");
  const Bytes data = random_bytes((20U << 20) + 777, 3);
  verbena_io_options options = verbena_io_options_init();
  options.flags = VERBENA_IO_CRC | VERBENA_IO_REPEATABLE;
  options.crc = verbena_crc32(data.data(), data.size());
  verbena_transfer done = verbena_transfer_init();
  ASSERT_EQ(verbena_write(client(), a, 100, data.data(), data.size(), &options, &done), VERBENA_OK)
      << verbena_last_error();
  EXPECT_EQ(done.bytes, data.size());
  EXPECT_EQ(done.crc, options.crc);
  Bytes back(data.size() + 5000);
  options = verbena_io_options_init();
  for (const uint32_t flags : {0U, uint32_t{VERBENA_IO_NO_CHECK}}) {
    options.flags = flags;
    std::fill(back.begin(), back.end(), 0);
    ASSERT_EQ(verbena_read(client(), a, 100, back.data(), back.size(), &options, &done),
              VERBENA_OK);
    EXPECT_EQ(done.bytes, data.size());
    EXPECT_EQ(done.crc, verbena_crc32(data.data(), data.size()));
    EXPECT_TRUE(std::equal(data.begin(), data.end(), back.begin()));
  }
  uint32_t crc = 0;
  uint64_t bytes = 0;
  ASSERT_EQ(verbena_stored_crc(client(), a, 100, 0, &crc, &bytes), VERBENA_OK);
  EXPECT_EQ(crc, done.crc);
  EXPECT_EQ(bytes, data.size());
  ASSERT_EQ(verbena_stored_crc(client(), a, 100, 4242, &crc, &bytes), VERBENA_OK);
  EXPECT_EQ(crc, verbena_crc32(data.data(), 4242));
  const uint32_t rest = verbena_crc32(data.data() + 4242, data.size() - 4242);
  EXPECT_EQ(verbena_crc32_join(crc, rest, data.size() - 4242), done.crc);
}

TEST_F(CData, AWrongCrcStoresNothing) {
  put("a", random_bytes(100, 1));
  const Bytes before = get("a");
  for (const size_t size : {100UL, 100'000UL, 17UL << 20}) {
    const Bytes data = random_bytes(size, size);
    verbena_io_options options = verbena_io_options_init();
    options.flags = VERBENA_IO_CRC;
    options.crc = verbena_crc32(data.data(), size) ^ 1;
    EXPECT_EQ(verbena_write(client(), verbena_name("a"), 0, data.data(), size, &options, nullptr),
              VERBENA_CORRUPTED)
        << size;
    EXPECT_EQ(verbena_put(client(), verbena_name("a"), data.data(), size, &options, nullptr),
              VERBENA_CORRUPTED)
        << size;
  }
  EXPECT_EQ(get("a"), before);
}

TEST_F(CData, WholeObjects) {
  for (const size_t size : {0UL, 3UL, 40'000UL, (16UL << 20) - 1, 16UL << 20, 18UL << 20}) {
    SCOPED_TRACE(size);
    const Bytes data = random_bytes(size, size + 1);
    verbena_transfer done = verbena_transfer_init();
    ASSERT_EQ(verbena_put(client(), verbena_name("a"), data.data(), size, nullptr, &done),
              VERBENA_OK)
        << verbena_last_error();
    EXPECT_EQ(done.bytes, size);
    verbena_info info = verbena_info_init();
    ASSERT_EQ(verbena_stat(client(), verbena_name("a"), &info), VERBENA_OK);
    EXPECT_EQ(info.id.low, done.object.low);
    EXPECT_EQ(info.bytes, size);
    EXPECT_EQ(get("a"), data);
  }
  verbena_io_options options = verbena_io_options_init();
  options.flags = VERBENA_IO_NEW;
  EXPECT_EQ(verbena_put(client(), verbena_name("a"), "x", 1, &options, nullptr), VERBENA_EXISTS);
  options.flags = VERBENA_IO_NEW | VERBENA_IO_DURABLE;
  EXPECT_EQ(verbena_put(client(), verbena_by_id({5, 5}), "x", 1, &options, nullptr), VERBENA_OK);
  void* data = nullptr;
  size_t bytes = 0;
  EXPECT_EQ(verbena_get(client(), verbena_name("none"), &data, &bytes, nullptr), VERBENA_NOT_FOUND);
  // Nothing is left of what was written beside them.
  verbena_list* list = nullptr;
  ASSERT_EQ(verbena_list_objects(client(), nullptr, &list), VERBENA_OK);
  EXPECT_EQ(verbena_list_count(list), 2U);
  verbena_list_free(list);
}

TEST_F(CData, WrongArguments) {
  create("a");
  const verbena_object a = verbena_name("a");
  char byte = 0;
  EXPECT_EQ(verbena_read(client(), a, 0, nullptr, 1, nullptr, nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_write(client(), a, 0, nullptr, 1, nullptr, nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_put(client(), a, nullptr, 1, nullptr, nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_get(client(), a, nullptr, nullptr, nullptr), VERBENA_INVALID);
  verbena_io_options options = verbena_io_options_init();
  options.flags = VERBENA_IO_CRC;
  EXPECT_EQ(verbena_read(client(), a, 0, &byte, 1, &options, nullptr), VERBENA_INVALID);
  options.flags = 1U << 31;
  EXPECT_EQ(verbena_write(client(), a, 0, &byte, 1, &options, nullptr), VERBENA_INVALID);
  verbena_transfer transfer{};  // without its size
  EXPECT_EQ(verbena_write(client(), a, 0, &byte, 1, nullptr, &transfer), VERBENA_INVALID);
  EXPECT_EQ(verbena_write(client(), a, UINT64_MAX - 1, &byte, 1, nullptr, nullptr), VERBENA_INVALID)
      << verbena_last_error();
  EXPECT_EQ(get("a"), Bytes());
  const auto minus_one = static_cast<size_t>(-1);
  EXPECT_EQ(verbena_read(client(), a, 0, &byte, minus_one, nullptr, nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_write(client(), a, 0, &byte, minus_one, nullptr, nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_put(client(), a, &byte, minus_one, nullptr, nullptr), VERBENA_INVALID);
  verbena_free(nullptr);
  EXPECT_EQ(verbena_crc32(nullptr, 5), verbena_crc32(&byte, 0));
}

// Of what ends behind the last offset there is, no part is written, least of all at the beginning.
TEST_F(CData, NothingWrapsAround) {
  verbena_id id = {1, 2};
  ASSERT_EQ(verbena_create(client(), nullptr, &id), VERBENA_OK);
  const verbena_object object = verbena_by_id(id);
  ASSERT_EQ(verbena_write(client(), object, 0, "before", 6, nullptr, nullptr), VERBENA_OK);
  Bytes data = random_bytes(20U << 20, 1);
  const uint64_t offset = -(uint64_t{8} << 20);
  EXPECT_EQ(verbena_write(client(), object, offset, data.data(), data.size(), nullptr, nullptr),
            VERBENA_INVALID);
  EXPECT_NE(std::string(verbena_last_error()).find("2^64"), std::string::npos)
      << verbena_last_error();
  EXPECT_EQ(verbena_read(client(), object, offset, data.data(), data.size(), nullptr, nullptr),
            VERBENA_INVALID);
  verbena_info info = verbena_info_init();
  ASSERT_EQ(verbena_stat(client(), object, &info), VERBENA_OK);
  EXPECT_EQ(info.bytes, 6U);
}

#ifndef VERBENA_SANITIZED  // they end a program that asks for so much
// What is noticed when the answer to another request has come does not harm the connection.
TEST_F(CData, MoreThanThereIsMemory) {
  char byte = 0;
  EXPECT_EQ(verbena_put(client(), verbena_name("a"), &byte, size_t{1} << 62, nullptr, nullptr),
            VERBENA_NO_MEMORY)
      << verbena_last_error();
  EXPECT_EQ(verbena_put(client(), verbena_name("a"), &byte, 1, nullptr, nullptr), VERBENA_OK);
}
#endif

// Each thread has its object, and its own last error.
TEST_F(CData, Threads) {
  std::vector<std::thread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "object " + std::to_string(t);
      const std::string missing = "missing " + std::string(static_cast<size_t>(t) + 1, 'm');
      for (int i = 0; i < 20; ++i) {
        const Bytes data =
            random_bytes(1 + static_cast<size_t>(i) * 4000, static_cast<uint64_t>(t));
        put(name.c_str(), data);
        EXPECT_EQ(verbena_remove(client(), verbena_name(missing.c_str())), VERBENA_NOT_FOUND);
        const std::string error = verbena_last_error();
        if (get(name.c_str()) == data && error == verbena_last_error()) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 160);
}

// Others see the old content or the new one, also if it takes more than one request.
TEST_F(CData, PutsAreSeenWhole) {
  constexpr size_t kSize = 17U << 20;
  put("a", Bytes(kSize, 1));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const ClientPtr other = connect(options_for(server_));
    for (uint8_t value = 2; !stop; ++value) {
      const Bytes data(kSize - value, value);
      EXPECT_EQ(
          verbena_put(other.get(), verbena_name("a"), data.data(), data.size(), nullptr, nullptr),
          VERBENA_OK)
          << verbena_last_error();
    }
  });
  for (int i = 0; i < 5; ++i) {
    const Bytes got = get("a");
    ASSERT_FALSE(got.empty());
    EXPECT_TRUE(got == Bytes(got.size(), got[0]));
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace verbena::c_client
