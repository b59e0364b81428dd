// SPDX-License-Identifier: Apache-2.0
// The examples in docs/protocol.md: each decodes, to the message that is meant, and that encodes to
// the same bytes. Run from the repository's root.
#include <cctype>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "protocol/testing.h"

namespace verbena::protocol {
namespace {

using testing::Bytes;
using testing::encoded;

using Examples = std::map<std::string, Bytes>;

// "0040  de ad be ef      what it is": bytes end at two spaces.
void take_line(const std::string& line, Bytes& bytes) {
  ASSERT_GT(line.size(), 7u);
  EXPECT_EQ(std::stoul(line.substr(0, 4), nullptr, 16), bytes.size()) << line;
  for (size_t at = 6; at + 1 < line.size() && std::isxdigit(line[at]) != 0; at += 3) {
    bytes.push_back(static_cast<uint8_t>(std::stoul(line.substr(at, 2), nullptr, 16)));
  }
}

Examples examples_of(const char* document) {
  Examples examples;
  std::ifstream file(document);
  EXPECT_TRUE(file) << document;
  Bytes* current = nullptr;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("```hex ")) {
      current = &examples[line.substr(7)];
    } else if (line.starts_with("```")) {
      current = nullptr;
    } else if (current != nullptr) {
      take_line(line, *current);
    }
  }
  return examples;
}

// Encodes what it decodes from the example; empty: it does not decode.
Bytes again_of(const Bytes& example, const Seal& seal) {
  if (const auto request = decode_request(example, seal)) return encoded(*request, seal);
  if (const auto response = decode_response(example, seal)) return encoded(*response, seal);
  return {};
}
Bytes frame_again_of(const Bytes& example) {
  const auto message = decode_frame(std::span(example).subspan(kFrameHeadBytes));
  return message ? frame_of(*message) : Bytes{};
}

TEST(Examples, MessagesOfTheFabric) {
  const Seal key = Seal::with_key(testing::kKey);
  const Seal secret = Seal::with_secret(testing::kSecret);
  const CreateRequest create{.id = 11, .oldest = 5, .object = {3, 9}, .name = "greeting"};
  const CrcRequest crc{.id = 22,
                       .oldest = 5,
                       .object = ObjectRef::by(ObjectId{3, 9}),
                       .offset = 4048,
                       .length = 100'000};
  const std::map<std::string, Bytes> meant{
      {"write", encoded(testing::write_request())},
      {"rdma-write", encoded(testing::rdma_write_request())},
      {"read-with-secret", encoded(testing::read_request(), secret)},
      {"read-ack", encoded(testing::read_response())},
      {"write-ack", encoded(testing::write_response())},
      {"failed-ack", encoded(testing::failed_response())},
      {"plain-write", encoded(testing::plain_write())},
      {"plain-write-ack", encoded(IoResponse{.kind = IoKind::kWrite, .plain = true, .id = 2})},
      {"plain-read", encoded(testing::plain_read())},
      {"plain-read-ack", encoded(testing::plain_read_response())},
      {"create", encoded(create)},
      {"create-ack", encoded(CreateResponse{.id = 11, .object = {3, 9}})},
      {"stat-ack", encoded(StatResponse{.id = 17, .entry = testing::entry_of("greeting")})},
      {"crc", encoded(crc)},
      {"crc-ack", encoded(CrcResponse{.id = 22, .length = 100'000, .crc = 0xdeadbeef})},
  };
  Examples examples = examples_of("docs/protocol.md");
  for (const auto& [name, bytes] : meant) {
    SCOPED_TRACE(name);
    EXPECT_EQ(examples[name], bytes);
    EXPECT_EQ(again_of(examples[name], name == "read-with-secret" ? secret : key), bytes);
  }
}

TEST(Examples, FramesOfTheSideChannel) {
  Examples examples = examples_of("docs/protocol.md");
  const auto messages = testing::all_side_messages();
  const char* const names[] = {"hello", "challenge", "proof", "welcome", "ping", "pong", "goodbye"};
  for (size_t i = 0; i < messages.size(); ++i) {
    SCOPED_TRACE(names[i]);
    EXPECT_EQ(examples[names[i]], frame_of(messages[i]));
    EXPECT_EQ(frame_again_of(examples[names[i]]), examples[names[i]]);
  }
}

// Each example of the document is one of those above.
TEST(Examples, NoneIsUnchecked) { EXPECT_EQ(examples_of("docs/protocol.md").size(), 15u + 7u); }

}  // namespace
}  // namespace verbena::protocol
