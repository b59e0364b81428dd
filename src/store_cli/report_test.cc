// SPDX-License-Identifier: Apache-2.0
#include "store_cli/report.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace verbena::store_cli {
namespace {

using nlohmann::ordered_json;
using store::Code;
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

constexpr Speech kJson{.json = true};
constexpr Speech kQuiet{.quiet = true};

TEST(Report, TheFirstErrorDecidesTheStatus) {
  CaptureStderr();
  Report report("rm", {});
  report.error({Code::kNotFound, "there is no such object", {}}, "a");
  report.error({Code::kDamaged, "is damaged", {}}, "b");
  EXPECT_EQ(report.finish(), kNoObject);
  EXPECT_EQ(GetCapturedStderr(),
            "verbena rm: a: there is no such object\nverbena rm: b: is damaged\n");
}

TEST(Report, TheDocumentHasFieldsAndErrors) {
  CaptureStderr();
  CaptureStdout();
  Report report("get", kJson);
  report.fields["bytes_read"] = 7;
  report.error({Code::kDamaged, "is damaged", {{7, 42}, 4048, 77, "data CRC", "0x1", "0x2"}}, "a");
  EXPECT_EQ(report.finish(), kDamaged);
  GetCapturedStderr();
  const auto document = ordered_json::parse(GetCapturedStdout());
  const ordered_json expected = {{"bytes_read", 7},
                                 {"errors",
                                  {{{"code", "damaged"},
                                    {"message", "is damaged"},
                                    {"object", "a"},
                                    {"damage",
                                     {{"object", "7:42"},
                                      {"offset", 4048},
                                      {"chunk", 77},
                                      {"field", "data CRC"},
                                      {"expected", "0x1"},
                                      {"actual", "0x2"}}}}}}};
  EXPECT_EQ(document, expected);
}

TEST(Report, OfManyErrorsTheFirstAreSaidAndTheOthersCounted) {
  CaptureStderr();
  CaptureStdout();
  Report report("get", kJson);
  for (int i = 0; i < 1005; ++i) report.error({Code::kDamaged, "is damaged", {}}, "a");
  EXPECT_EQ(report.finish(), kDamaged);
  const std::string said = GetCapturedStderr();
  EXPECT_EQ(std::ranges::count(said, '\n'), 1001);
  EXPECT_THAT(said, HasSubstr("... and 5 more errors\n"));
  const auto document = ordered_json::parse(GetCapturedStdout());
  EXPECT_EQ(document["errors"].size(), 1000U);
  EXPECT_EQ(document["errors_left_out"], 5);
}

TEST(Report, KnowsWhetherTheStoreOrAnObjectIsTheReason) {
  for (const Code code : {Code::kNotFound, Code::kExists, Code::kDamaged}) {
    CaptureStderr();
    Report report("put", {});
    report.error({code, "x", {}}, "a");
    EXPECT_FALSE(report.store_failed());
    report.error({Code::kFull, "x", {}}, "a");
    EXPECT_TRUE(report.store_failed());
    GetCapturedStderr();
  }
}

TEST(Report, NoErrorsAreAnEmptyList) {
  CaptureStdout();
  EXPECT_EQ(Report("ls", kJson).finish(), kDone);
  EXPECT_EQ(ordered_json::parse(GetCapturedStdout()).dump(), R"({"errors":[]})");
}

TEST(Report, GivesWayToAnObjectsBytes) {
  CaptureStderr();
  CaptureStdout();
  Report report("get", kJson);
  report.yield_output();
  EXPECT_EQ(report.finish(), kDone);
  EXPECT_EQ(GetCapturedStdout(), "");
  EXPECT_THAT(GetCapturedStderr(), HasSubstr("errors"));
}

TEST(Report, QuietIsForRemarksAlone) {
  CaptureStderr();
  Report report("put", kQuiet);
  report.note("made a new store");
  report.error(kNotDone, "io", "no");
  EXPECT_EQ(report.finish(), kNotDone);
  EXPECT_EQ(GetCapturedStderr(), "verbena put: no\n");
}

TEST(Report, BytesThatAreNoTextStopNeitherTerminalsNorScripts) {
  CaptureStderr();
  CaptureStdout();
  Report report("put", kJson);
  report.error(kNotDone, "io", "a\xff\x1b[2J: cannot be read");
  EXPECT_EQ(report.finish(), kNotDone);
  EXPECT_EQ(GetCapturedStderr(), "verbena put: a\\xff\\x1b[2J: cannot be read\n");
  EXPECT_TRUE(ordered_json::accept(GetCapturedStdout()));
}

TEST(Report, InterruptedExitsAsShellsSay) {
  CaptureStderr();
  Report report("put", {});
  report.interrupted(2, "interrupted");
  EXPECT_EQ(report.finish(), 130);
  GetCapturedStderr();
}

TEST(Report, TimesAreInUtcForScripts) {
  EXPECT_EQ(utc_time(0), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(utc_time(1'763'247'845'123'456'789), "2025-11-15T23:04:05.123456789Z");
  EXPECT_EQ(local_time(1'763'247'845'123'456'789).size(), 19U);
}

TEST(Report, SizesAreAsTheUserWantsThem) {
  EXPECT_EQ(Report("ls", {}).size(1 << 20), "1.0 MiB");
  EXPECT_EQ(Report("ls", Speech{.bytes = true}).size(1 << 20), "1048576");
}

}  // namespace
}  // namespace verbena::store_cli
