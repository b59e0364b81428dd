// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_format.h"

#include <gtest/gtest.h>

#include "backend/object_path.h"
#include "backend/s3_credentials.h"

namespace verbena::backend {
namespace {

TEST(S3Format, EncodesAddresses) {
  EXPECT_EQ(url_encoded("a/b c~-._+\xc3\xa4", true), "a/b%20c~-._%2B%C3%A4");
  EXPECT_EQ(url_encoded("a/b", false), "a%2Fb");
  EXPECT_EQ(url_decoded("a%2fb+c%C3%A4"), "a/b c\xc3\xa4");
  for (const char* const bad : {"%", "%1", "%g0", "%+1", "a%-1"}) {
    EXPECT_EQ(url_decoded(bad), std::nullopt) << bad;
  }
}

TEST(S3Format, KeysOfObjects) {
  for (const Key& key : {Key{"a/b", {}}, Key{"../x", {}}, Key{".verbena/lease", {}},
                         Key{"", {7, 8}}, Key{"a//b", {}}}) {
    EXPECT_EQ(key_of_s3_path(s3_path_of(key)), key) << key.name;
  }
  for (const char* const none : {"", "a/", "/a", "a/../b", ".verbena", ".verbena/lease",
                                 ".verbena/sums/x", ".verbena/ids/x", ".verbena/names/=plain"}) {
    EXPECT_EQ(key_of_s3_path(none), std::nullopt) << none;
  }
}

TEST(S3Format, Versions) {
  const S3Version version{"00112233445566778899aabbccddeeff", 0x1234};
  EXPECT_EQ(text_of(version), "00112233445566778899aabbccddeeff-0000000000001234");
  EXPECT_EQ(parse_s3_version(text_of(version)), version);
  for (const char* const bad : {"", "00112233445566778899aabbccddeeff-",
                                "00112233445566778899AABBCCDDEEFF-0000000000001234",
                                "00112233445566778899aabbccddeeff+0000000000001234"}) {
    EXPECT_EQ(parse_s3_version(bad), std::nullopt) << bad;
  }
}

TEST(S3Format, MetadataOfObjects) {
  const Key key{"name", {1, 2}};
  const State state{5, 6, 7};
  S3Headers headers = metadata_of(key, state);
  headers["etag"] = "\"x\"";
  const auto head = parse_s3_head(headers, 6, digest_of(key));
  ASSERT_TRUE(head.has_value()) << head.error();
  EXPECT_EQ(head->state, state);
  EXPECT_EQ(head->id, key.id);
  EXPECT_FALSE(head->adopted);
  EXPECT_FALSE(parse_s3_head(headers, 7, digest_of(key)));  // cut, or longer
  for (const char* const name : {"version", "size", "modified", "id"}) {
    for (const char* const value : {"", "x", "-1", "0000000000000000", "99999999999999999999999"}) {
      S3Headers bad = headers;
      bad[std::string("x-amz-meta-verbena-") + name] = value;
      if (name == std::string_view("modified") && value[0] == '0') continue;  // a number
      EXPECT_FALSE(parse_s3_head(bad, 6, digest_of(key))) << name << " " << value;
    }
  }
  headers.erase("etag");
  EXPECT_FALSE(parse_s3_head(headers, 6, digest_of(key)));
}

TEST(S3Format, AdoptsWhatIsNotOurs) {
  const Key key{"name", {}};
  S3Headers headers{{"etag", "\"x\""}, {"last-modified", "Sun, 06 Nov 1994 08:49:37 GMT"}};
  const auto one = parse_s3_head(headers, 6, digest_of(key));
  ASSERT_TRUE(one && one->adopted);
  EXPECT_NE(one->state.version, 0u);
  EXPECT_EQ(one->state.modified_ns, 784'111'777'000'000'000u);
  EXPECT_NE(parse_s3_head(headers, 7, digest_of(key))->state.version, one->state.version);
  headers["etag"] = "\"y\"";
  EXPECT_NE(parse_s3_head(headers, 6, digest_of(key))->state.version, one->state.version);
  headers.merge(metadata_of({"another", {}}, {5, 6, 7}));
  EXPECT_TRUE(parse_s3_head(headers, 6, digest_of(key))->adopted);
}

TEST(S3Format, Dates) {
  EXPECT_EQ(parse_http_date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
  EXPECT_EQ(parse_http_date("Thu, 29 Feb 2024 23:59:59 GMT"), 1'709'251'199);
  for (const char* const bad : {"", "Thu, 30 Feb 2024 23:59:59 GMT",
                                "Thu, 01 anF 1970 00:00:00 GMT", "Thu, 01 Jan 1970 24:00:00 GMT",
                                "Thu, 01 Jan 1970 00:00:00 CET", "Thu, -1 Jan 1970 00:00:00 GMT"}) {
    EXPECT_EQ(parse_http_date(bad), std::nullopt) << bad;
  }
}

TEST(S3Format, Ranges) {
  EXPECT_EQ(parse_content_range("bytes 1-2/7"), (ContentRange{1, 2, 7}));
  for (const char* const bad : {"", "bytes 2-1/7", "bytes 1-7/7", "bytes 1-2/*", "bytes /-",
                                "1-2/7", "bytes 1-2/99999999999999999999"}) {
    EXPECT_EQ(parse_content_range(bad), std::nullopt) << bad;
  }
}

TEST(S3Format, Leases) {
  const S3LeaseText lease{.state = S3LeaseText::State::kReleased,
                          .owner = "abc",
                          .where = "process 7 on host",
                          .lease_s = 30,
                          .renewed = 5};
  const std::string text = text_of(lease);
  EXPECT_EQ(parse_s3_lease(text), lease);
  for (size_t cut = 0; cut < text.size(); ++cut) {
    EXPECT_EQ(parse_s3_lease(text.substr(0, cut)), std::nullopt) << cut;
  }
  EXPECT_EQ(parse_s3_lease(text + "x"), std::nullopt);
}

TEST(S3Credentials, Files) {
  const char* const text =
      "# comment\n[other]\naws_access_key_id=a\naws_secret_access_key=b\n"
      "[ default ]\r\n aws_access_key_id = id \r\naws_secret_access_key = se=cret\n"
      "region = x\n[broken\naws_access_key_id=z\n";
  const auto found = parse_s3_credentials(text, "default");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->access_key, "id");
  EXPECT_EQ(found->secret_key, "se=cret");
  EXPECT_EQ(found->session_token, "");
  EXPECT_EQ(parse_s3_credentials(text, "other")->secret_key, "b");
  EXPECT_FALSE(parse_s3_credentials(text, "none"));
  EXPECT_FALSE(parse_s3_credentials("[default]\naws_access_key_id=a", "default"));
}

}  // namespace
}  // namespace verbena::backend
