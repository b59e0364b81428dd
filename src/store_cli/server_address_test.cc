// SPDX-License-Identifier: Apache-2.0
#include "store_cli/server_address.h"

#include <gtest/gtest.h>

namespace verbena::store_cli {
namespace {

TEST(ServerAddress, IsHostAndPort) {
  const auto is = [](const char* text, const char* host, uint16_t port) {
    const auto parsed = parse_server(text);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error();
    EXPECT_EQ(*parsed, (ServerAddress{host, port})) << text;
  };
  is("node1", "node1", 7471);
  is("node1.example.org:80", "node1.example.org", 80);
  is("127.0.0.1", "127.0.0.1", 7471);
  is("127.0.0.1:65535", "127.0.0.1", 65535);
  is("[::1]", "::1", 7471);
  is("[fe80::1%eth0]:7472", "fe80::1%eth0", 7472);
  is("::1", "::1", 7471);
  is("fe80::1:7472", "fe80::1:7472", 7471);
}

TEST(ServerAddress, IsNothingElse) {
  for (const char* const text :
       {"",         ":",         ":7471",     "node1:",  "node1:0",    "node1:65536", "node1:-1",
        "node1:+1", "node1:80x", "node1: 80", "node 1",  "/srv/store", "[::1",        "[]",
        "[]:80",    "[::1]80",   "[::1]:",    "[node1]", "[node1]:80", "a\nb",        "node1/x"}) {
    EXPECT_FALSE(parse_server(text)) << text;
  }
  EXPECT_FALSE(parse_server(std::string(254, 'a')));
}

TEST(ServerAddress, ReadsItsOwnText) {
  for (const char* const text : {"node1:7471", "127.0.0.1:80", "[::1]:7471"}) {
    EXPECT_EQ(text_of(*parse_server(text)), text);
  }
}

TEST(ServerAddress, WhereToListen) {
  const auto is = [](std::string_view text, const ServerAddress& wanted) {
    const auto at = parse_listen(text);
    ASSERT_TRUE(at) << at.error();
    EXPECT_EQ(*at, wanted);
  };
  is("*", {"", 7471});
  is("*:0", {"", 0});
  is("127.0.0.1:0", {"127.0.0.1", 0});
  is("[::1]:80", {"::1", 80});
  EXPECT_EQ(text_of(ServerAddress{"", 80}), "*:80");
  for (const char* const bad : {"*:", "**", "*.example", "", "[::1]:x"}) {
    EXPECT_FALSE(parse_listen(bad)) << bad;
  }
}

}  // namespace
}  // namespace verbena::store_cli
