// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_xml.h"

#include <string>

#include <gtest/gtest.h>

#include "backend/s3_library.h"

namespace verbena::backend {
namespace {

class S3XmlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (auto library = ExpatLibrary::load(); !library) GTEST_SKIP() << library.error().what;
  }
};

TEST_F(S3XmlTest, Listings) {
  const auto page = parse_s3_listing(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>test</Name>"
      "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
      "<NextContinuationToken>a&amp;b</NextContinuationToken>"
      "<Contents><Key>a%2Bb+c</Key><Size>7</Size></Contents><Contents><Key>d/e</Key></Contents>"
      "</ListBucketResult>");
  ASSERT_TRUE(page.has_value()) << page.error();
  EXPECT_EQ(page->keys, (std::vector<std::string>{"a+b c", "d/e"}));
  EXPECT_EQ(page->next, "a&b");
  const auto last = parse_s3_listing(
      "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a%2Bb+&#252;</Key>"
      "</Contents></ListBucketResult>");
  ASSERT_TRUE(last.has_value()) << last.error();
  EXPECT_EQ(last->keys, (std::vector<std::string>{"a%2Bb+\xc3\xbc"}));
  EXPECT_EQ(last->next, "");
}

TEST_F(S3XmlTest, WrongListingsAreRefused) {
  for (const char* const bad :
       {"", "x", "<Error/>", "<ListBucketResult>", "<ListBucketResult/>",
        "<ListBucketResult><IsTruncated/></ListBucketResult>",
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents/></ListBucketResult>",
        "<ListBucketResult><Contents><Key></Key></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<ListBucketResult/><ListBucketResult/>", "<ListBucketResult>\xff</ListBucketResult>",
        "<!DOCTYPE a [<!ENTITY b \"c\">]><ListBucketResult>&b;</ListBucketResult>"}) {
    EXPECT_FALSE(parse_s3_listing(bad)) << bad;
  }
  EXPECT_FALSE(parse_s3_listing(
      "<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
      "<Contents><Key>%</Key></Contents></ListBucketResult>"));
}

TEST_F(S3XmlTest, HostileDocumentsAreBounded) {
  std::string deep;
  std::string wide = "<ListBucketResult>";
  for (int i = 0; i < 100'000; ++i) {
    deep += "<a>";
    wide += "<a/>";
  }
  const auto why = [](const std::string& body) { return parse_s3_listing(body).error(); };
  EXPECT_NE(why(deep).find("too deep"), std::string::npos);
  EXPECT_NE(why(wide + "</ListBucketResult>").find("too many"), std::string::npos);
  EXPECT_NE(why("<a>" + std::string(20'000, 'x') + "</a>").find("too much text"),
            std::string::npos);
  EXPECT_NE(why(std::string(kMaxXmlBytes + 1, ' ')).find("too long"), std::string::npos);
  EXPECT_NE(why("<!DOCTYPE a><ListBucketResult/>").find("document type"), std::string::npos);
}

TEST_F(S3XmlTest, Uploads) {
  EXPECT_EQ(
      parse_s3_upload("<InitiateMultipartUploadResult><Bucket>b</Bucket><UploadId>2~x</UploadId>"
                      "</InitiateMultipartUploadResult>"),
      "2~x");
  EXPECT_FALSE(parse_s3_upload("<InitiateMultipartUploadResult/>"));
  EXPECT_FALSE(parse_s3_upload("<ListBucketResult><UploadId>x</UploadId></ListBucketResult>"));
  const auto uploads = parse_s3_uploads(
      "<ListMultipartUploadsResult><EncodingType>url</EncodingType><Upload><Key>a%20b</Key>"
      "<UploadId>2~x</UploadId></Upload><Upload><Key>c</Key><UploadId>y</UploadId></Upload>"
      "</ListMultipartUploadsResult>");
  EXPECT_EQ(uploads, (std::vector<S3UploadEntry>{{"a b", "2~x"}, {"c", "y"}}));
  EXPECT_FALSE(
      parse_s3_uploads("<ListMultipartUploadsResult><Upload><Key>a</Key></Upload>"
                       "</ListMultipartUploadsResult>"));
  EXPECT_FALSE(parse_s3_uploads("<ListBucketResult/>"));
  EXPECT_TRUE(is_s3_upload_end("<CompleteMultipartUploadResult/>"));
  EXPECT_FALSE(is_s3_upload_end("") || is_s3_upload_end("<Error/>"));
  const std::vector<std::string> etags{"\"a\"", "<&>"};
  EXPECT_EQ(s3_parts_document(etags),
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>\"a\"</ETag></Part>"
            "<Part><PartNumber>2</PartNumber><ETag>&lt;&amp;&gt;</ETag></Part>"
            "</CompleteMultipartUpload>");
}

TEST_F(S3XmlTest, Faults) {
  const auto fault = parse_s3_fault("<Error><Code>NoSuchKey</Code><Message>no</Message></Error>");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->code, "NoSuchKey");
  EXPECT_EQ(fault->message, "no");
  for (const char* const none : {"", "<html>", "<CompleteMultipartUploadResult/>", "Error"}) {
    EXPECT_FALSE(parse_s3_fault(none)) << none;
  }
}

}  // namespace
}  // namespace verbena::backend
