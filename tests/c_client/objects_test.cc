// SPDX-License-Identifier: Apache-2.0
// Calls on objects, and wrong arguments of all of them.
#include <string>

#include "c_client/fixture.h"

namespace verbena::c_client {
namespace {

class CObjects : public Connected {
 protected:
  [[nodiscard]] verbena_info stat(const char* name) const {
    verbena_info info = verbena_info_init();
    EXPECT_EQ(verbena_stat(client(), verbena_name(name), &info), VERBENA_OK)
        << verbena_last_error();
    return info;
  }
  [[nodiscard]] std::vector<std::string> list(const verbena_list_options* options,
                                              bool more = false) const {
    verbena_list* list = nullptr;
    EXPECT_EQ(verbena_list_objects(client(), options, &list), VERBENA_OK) << verbena_last_error();
    std::vector<std::string> names;
    for (size_t i = 0; i < verbena_list_count(list); ++i) {
      verbena_info info = verbena_info_init();
      EXPECT_EQ(verbena_list_entry(list, i, &info), VERBENA_OK);
      names.emplace_back(info.name);
    }
    EXPECT_EQ(verbena_list_more(list) != 0, more);
    verbena_info info = verbena_info_init();
    EXPECT_EQ(verbena_list_entry(list, names.size(), &info), VERBENA_INVALID);
    verbena_list_free(list);
    return names;
  }
};

TEST_F(CObjects, CreateRenameRemove) {
  verbena_id id{7, 42};
  ASSERT_EQ(verbena_create(client(), "a", &id), VERBENA_OK);
  EXPECT_EQ(id.high, 7U);
  EXPECT_EQ(verbena_create(client(), "a", nullptr), VERBENA_EXISTS);
  EXPECT_EQ(verbena_create(client(), "b", &id), VERBENA_EXISTS);
  verbena_id chosen{0, 0};
  ASSERT_EQ(verbena_create(client(), nullptr, &chosen), VERBENA_OK);
  EXPECT_TRUE(chosen.high != 0 || chosen.low != 0);
  ASSERT_EQ(verbena_rename(client(), verbena_by_id(id), "c"), VERBENA_OK);
  EXPECT_EQ(stat("c").id.low, 42U);
  verbena_info info = verbena_info_init();
  EXPECT_EQ(verbena_stat(client(), verbena_name("a"), &info), VERBENA_NOT_FOUND);
  ASSERT_EQ(verbena_truncate(client(), verbena_name("c"), 100'000), VERBENA_OK);
  EXPECT_EQ(stat("c").bytes, 100'000U);
  EXPECT_GT(stat("c").modified_ns, 0U);
  ASSERT_EQ(verbena_rename(client(), verbena_by_id(id), nullptr), VERBENA_OK);
  EXPECT_EQ(verbena_remove(client(), verbena_name("c")), VERBENA_NOT_FOUND);
  EXPECT_EQ(verbena_remove(client(), verbena_by_id(id)), VERBENA_OK);
  EXPECT_EQ(verbena_remove(client(), verbena_by_id(id)), VERBENA_NOT_FOUND);
  EXPECT_STRNE(verbena_last_error(), "");
}

TEST_F(CObjects, CloneAndReplace) {
  const Bytes data = random_bytes(100'000, 1);
  put("a", data);
  verbena_id id{};
  ASSERT_EQ(verbena_clone(client(), verbena_name("a"), verbena_name("b"), nullptr, &id),
            VERBENA_OK);
  EXPECT_EQ(get("b"), data);
  EXPECT_EQ(stat("b").id.low, id.low);
  // The same range.
  EXPECT_EQ(verbena_cow(client(), verbena_name("a"), verbena_name("b"), 0, 0, 0), VERBENA_EXISTS);
  ASSERT_EQ(verbena_truncate(client(), verbena_name("b"), 0), VERBENA_OK);
  ASSERT_EQ(verbena_cow(client(), verbena_name("a"), verbena_name("b"), 1, 4048, 8096), VERBENA_OK)
      << verbena_last_error();
  Bytes expected(4048 + 8096);
  std::copy(data.begin() + 4048, data.begin() + 4048 + 8096, expected.begin() + 4048);
  EXPECT_EQ(get("b"), expected);
  // Another place, in a new object with id and name.
  verbena_clone_options options = verbena_clone_options_init();
  options.from_offset = 4048;
  options.length = 4048;
  options.name = "c";
  ASSERT_EQ(verbena_clone(client(), verbena_name("a"), verbena_by_id({1, 1}), &options, nullptr),
            VERBENA_OK)
      << verbena_last_error();
  EXPECT_EQ(get("c"), Bytes(data.begin() + 4048, data.begin() + 8096));
  ASSERT_EQ(verbena_replace(client(), verbena_name("c"), verbena_name("a")), VERBENA_OK);
  EXPECT_EQ(get("c"), data);
  EXPECT_EQ(stat("c").id.high, 1U);
  EXPECT_EQ(list(nullptr), (std::vector<std::string>{"b", "c"}));
}

TEST_F(CObjects, Lists) {
  std::vector<std::string> all;
  for (int i = 0; i < 600; ++i) {
    const std::string number = std::to_string(1000 + i);
    all.push_back((i < 300 ? "a/" : "b/") + number + std::string(100, 'x'));
    create(all.back().c_str());
  }
  EXPECT_EQ(list(nullptr), all);
  verbena_list_options options = verbena_list_options_init();
  options.prefix = "b/";
  EXPECT_EQ(list(&options), std::vector(all.begin() + 300, all.end()));
  options.limit = 7;
  EXPECT_EQ(list(&options, true), std::vector(all.begin() + 300, all.begin() + 307));
  const verbena_info last = stat(all[306].c_str());
  options.after_name = last.name;
  options.after_id = last.id;
  EXPECT_EQ(list(&options, true), std::vector(all.begin() + 307, all.begin() + 314));
  options.prefix = "none";
  EXPECT_EQ(list(&options), std::vector<std::string>{});
  options = verbena_list_options_init();
  options.prefix = all[5].c_str();
  EXPECT_EQ(list(&options), std::vector{all[5]});
}

TEST_F(CObjects, RangesConflict) {
  put("a", Bytes(10'000));
  const ClientPtr other = connect(options_for(server_));
  uint64_t mine = 0;
  uint64_t theirs = 0;
  const verbena_object a = verbena_name("a");
  ASSERT_EQ(verbena_register_range(client(), a, 0, 5000, VERBENA_ACCESS_WRITE, &mine), VERBENA_OK);
  EXPECT_EQ(verbena_register_range(other.get(), a, 4999, 0, VERBENA_ACCESS_READ, &theirs),
            VERBENA_CONFLICT);
  EXPECT_EQ(verbena_register_range(other.get(), a, 5000, 0, VERBENA_ACCESS_READ, &theirs),
            VERBENA_OK);
  ASSERT_EQ(verbena_unregister_range(client(), mine), VERBENA_OK);
  EXPECT_EQ(verbena_register_range(other.get(), a, 0, 10, VERBENA_ACCESS_WRITE, &theirs),
            VERBENA_OK);
  EXPECT_NE(verbena_unregister_range(client(), mine), VERBENA_OK);
}

TEST_F(CObjects, Flushes) {
  put("a", Bytes(10'000));
  EXPECT_EQ(verbena_flush(client(), verbena_name("a"), 0, 0), VERBENA_OK);
  EXPECT_EQ(verbena_flush(client(), verbena_name("a"), 4000, 100), VERBENA_OK);
  EXPECT_EQ(verbena_flush(client(), verbena_name("b"), 0, 0), VERBENA_NOT_FOUND);
  EXPECT_EQ(verbena_flush_all(client()), VERBENA_OK);
}

TEST_F(CObjects, WrongArguments) {
  const verbena_object a = verbena_name("a");
  const std::string long_name(1001, 'x');
  for (const verbena_object& bad :
       {verbena_name(nullptr), verbena_name(""), verbena_name(long_name.c_str()),
        verbena_by_id({0, 0}), verbena_by_id({UINT64_MAX, 5})}) {
    EXPECT_EQ(verbena_remove(client(), bad), VERBENA_INVALID);
    EXPECT_EQ(verbena_read(client(), bad, 0, nullptr, 0, nullptr, nullptr), VERBENA_INVALID);
    EXPECT_EQ(verbena_put(client(), bad, nullptr, 0, nullptr, nullptr), VERBENA_INVALID);
    EXPECT_EQ(verbena_clone(client(), bad, a, nullptr, nullptr), VERBENA_INVALID);
    EXPECT_EQ(verbena_clone(client(), a, bad, nullptr, nullptr), VERBENA_INVALID);
  }
  verbena_id reserved{UINT64_MAX, 1};
  EXPECT_EQ(verbena_create(client(), "a", &reserved), VERBENA_INVALID);
  EXPECT_EQ(verbena_create(client(), long_name.c_str(), nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_list_objects(client(), nullptr, nullptr), VERBENA_INVALID);
  EXPECT_EQ(verbena_register_range(client(), a, 0, 0, VERBENA_ACCESS_READ, nullptr),
            VERBENA_INVALID);
  uint64_t range = 0;
  EXPECT_EQ(verbena_register_range(client(), a, 0, 0, 2, &range), VERBENA_INVALID);
  EXPECT_EQ(verbena_stored_crc(client(), a, 0, 0, nullptr, nullptr), VERBENA_INVALID);
  verbena_info info{};  // without its size
  create("a");
  EXPECT_EQ(verbena_stat(client(), a, &info), VERBENA_INVALID);
  EXPECT_EQ(verbena_stat(client(), a, nullptr), VERBENA_OK);
  verbena_info none = verbena_info_init();
  EXPECT_EQ(verbena_list_entry(nullptr, 0, &none), VERBENA_INVALID);
  EXPECT_EQ(verbena_list_count(nullptr), 0U);
  EXPECT_EQ(verbena_list_more(nullptr), 0);
  verbena_list_free(nullptr);
}

TEST(CNull, ClientIsRefused) {
  const verbena_object a = verbena_name("a");
  uint64_t number = 0;
  uint32_t crc = 0;
  void* data = nullptr;
  size_t bytes = 0;
  verbena_list* list = nullptr;
  verbena_limits limits = verbena_limits_init();
  const verbena_request request = verbena_request_init();
  for (const int status : {verbena_get_limits(nullptr, &limits),
                           verbena_get_reconnects(nullptr, &number),
                           verbena_set_passive_wait(nullptr, 1),
                           verbena_ping_pong(nullptr, 1, 1, 1, nullptr),
                           verbena_create(nullptr, "a", nullptr),
                           verbena_remove(nullptr, a),
                           verbena_rename(nullptr, a, "b"),
                           verbena_truncate(nullptr, a, 0),
                           verbena_replace(nullptr, a, a),
                           verbena_stat(nullptr, a, nullptr),
                           verbena_clone(nullptr, a, a, nullptr, nullptr),
                           verbena_cow(nullptr, a, a, 0, 0, 0),
                           verbena_flush(nullptr, a, 0, 0),
                           verbena_flush_all(nullptr),
                           verbena_register_range(nullptr, a, 0, 0, VERBENA_ACCESS_READ, &number),
                           verbena_unregister_range(nullptr, 1),
                           verbena_list_objects(nullptr, nullptr, &list),
                           verbena_read(nullptr, a, 0, &crc, 4, nullptr, nullptr),
                           verbena_write(nullptr, a, 0, &crc, 4, nullptr, nullptr),
                           verbena_put(nullptr, a, &crc, 4, nullptr, nullptr),
                           verbena_get(nullptr, a, &data, &bytes, nullptr),
                           verbena_stored_crc(nullptr, a, 0, 0, &crc, &number),
                           verbena_submit(nullptr, &request)}) {
    EXPECT_EQ(status, VERBENA_INVALID);
  }
  EXPECT_STRNE(verbena_last_error(), "");
}

}  // namespace
}  // namespace verbena::c_client
