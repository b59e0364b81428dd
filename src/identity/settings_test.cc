// SPDX-License-Identifier: Apache-2.0
#include "identity/settings.h"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace verbena::identity {
namespace {

Reading read(const std::map<std::string, std::string>& variables) {
  return read_settings([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(Settings, AreOursByDefault) {
  for (const auto& reading : {read({}), read({{"VERBENA_DEVICE", ""}, {"VERBENA_MTU", ""}})}) {
    EXPECT_TRUE(reading.problems.empty());
    EXPECT_EQ(reading.settings.kind, Kind::kVerbena);
    EXPECT_EQ(reading.settings.device_name, "verbena0");
    EXPECT_EQ(reading.settings.gids.mtu_at_most, transport::Mtu::k4096);
    EXPECT_FALSE(reading.settings.gids.with_v1);
    EXPECT_FALSE(reading.settings.verbose);
    EXPECT_FALSE(reading.settings.quiet);
  }
}

TEST(Settings, AreRead) {
  const auto reading = read({{"VERBENA_IDENTITY", "connectx"},
                             {"VERBENA_DEVICE", "rocep1s0"},
                             {"VERBENA_ADDRESSES", "lo"},
                             {"VERBENA_MTU", "1024"},
                             {"VERBENA_VERBOSE", "1"},
                             {"VERBENA_QUIET", "1"}});
  EXPECT_TRUE(reading.problems.empty());
  EXPECT_EQ(reading.settings.kind, Kind::kConnectX);
  EXPECT_EQ(reading.settings.device_name, "rocep1s0");
  EXPECT_EQ(reading.settings.gids.mtu_at_most, transport::Mtu::k1024);
  EXPECT_TRUE(reading.settings.gids.with_v1);
  EXPECT_TRUE(reading.settings.verbose);
  EXPECT_TRUE(reading.settings.quiet);
  EXPECT_FALSE(reading.settings.gids.offered.place_of({}, "eth0"));
}

TEST(Settings, NameTheDeviceAsItsIdentityDoes) {
  EXPECT_EQ(read({{"VERBENA_IDENTITY", "connectx"}}).settings.device_name, "mlx5_0");
}

TEST(Settings, SayWhatIsWrongAndKeepTheDefault) {
  const auto reading = read({{"VERBENA_IDENTITY", "intel"},
                             {"VERBENA_DEVICE", "../etc"},
                             {"VERBENA_ADDRESSES", "10.0.0.0/99"},
                             {"VERBENA_MTU", "1500"}});
  ASSERT_EQ(reading.problems.size(), 4u);
  EXPECT_NE(reading.problems[0].find("VERBENA_IDENTITY is 'intel'"), std::string::npos);
  EXPECT_NE(reading.problems[3].find("VERBENA_MTU is '1500'"), std::string::npos);
  EXPECT_EQ(reading.settings.device_name, "verbena0");
  EXPECT_EQ(reading.settings.gids.mtu_at_most, transport::Mtu::k4096);
}

TEST(Settings, TakeABufferInBytesOrLargerUnits) {
  EXPECT_EQ(read({}).settings.receive_buffer_bytes, link::kWantedReceiveBuffer);
  for (const auto& [text, bytes] : std::map<std::string, uint32_t>{
           {"65536", 65536}, {"64K", 65536}, {"2M", 2 << 20}, {"1G", 1 << 30}}) {
    const auto reading = read({{"VERBENA_RECEIVE_BUFFER", text}});
    EXPECT_TRUE(reading.problems.empty()) << text;
    EXPECT_EQ(reading.settings.receive_buffer_bytes, bytes);
  }
  for (const char* const text : {"63K", "2G", "M", "1m", "-1", "99999999999", "1 M"}) {
    const auto reading = read({{"VERBENA_RECEIVE_BUFFER", text}});
    EXPECT_EQ(reading.problems.size(), 1u) << text;
    EXPECT_EQ(reading.settings.receive_buffer_bytes, link::kWantedReceiveBuffer);
  }
}

TEST(Settings, RefuseNamesThatAreNoFileNames) {
  for (const std::string& name : {std::string("a/b"), std::string(".."), std::string("a b"),
                                  std::string(64, 'x'), std::string(".hidden")}) {
    EXPECT_EQ(read({{"VERBENA_DEVICE", name}}).problems.size(), 1u) << name;
  }
  EXPECT_TRUE(read({{"VERBENA_DEVICE", std::string(63, 'x')}}).problems.empty());
}

}  // namespace
}  // namespace verbena::identity
