// SPDX-License-Identifier: Apache-2.0
// A receiver that replies anything: the sender's machine gives up, or goes on as it should.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"
#include "transfer/sending.h"

namespace verbena::transfer {
namespace {

constexpr uint32_t kOfferChunk = 4096;
constexpr Offer kOffer{.address = 1,
                       .rkey = 2,
                       .chunk_bytes = kOfferChunk,
                       .slots = 4,
                       .max_file_bytes = 1000 * kOfferChunk};

// The machine's owner: fills and posts when it is told to, and checks what it is asked.
class Sends {
 public:
  explicit Sends(const SendOptions& options = {.small_bytes = 100}) : machine_(options, {}) {}

  void reply(const Reply& reply) { raw(encode(reply)); }
  void raw(std::span<const uint8_t> bytes) {
    machine_.on_reply(bytes);
    check();
  }
  void add(uint64_t size) {
    machine_.add({.path = "file", .size = size});
    check();
  }
  void fill_all() {
    while (!fills.empty()) fill(0);
  }
  void fill(size_t which, Filled filled = {.length = 20}) {
    const uint16_t slot = fills[which];
    fills.erase(fills.begin() + static_cast<ptrdiff_t>(which));
    machine_.on_filled(slot, std::move(filled));
    check();
  }
  void sent_all() {
    while (!posts.empty()) sent(0);
  }
  void sent(size_t which) {
    const uint16_t slot = posts[which];
    posts.erase(posts.begin() + static_cast<ptrdiff_t>(which));
    machine_.on_sent(slot);
    check();
  }

  std::string why;
  std::vector<uint16_t> fills;  // slots that are to be filled
  std::vector<uint16_t> posts;  // slots that are on their way
  std::multiset<FileId> ended;
  size_t posted = 0;
  Sending& machine() { return machine_; }

 private:
  void check() {
    for (auto& action : machine_.take_actions()) {
      std::visit([this](const auto& one) { check(one); }, action);
    }
  }
  void take_slot(uint16_t slot) {
    EXPECT_LT(slot, machine_.slots());
    EXPECT_EQ(std::ranges::count(fills, slot) + std::ranges::count(posts, slot), 0) << slot;
  }
  void check(const FillSmall& fill) {
    take_slot(fill.slot);
    fills.push_back(fill.slot);
  }
  void check(const FillChunk& fill) {
    take_slot(fill.slot);
    EXPECT_LE(fill.length, kOfferChunk);
    fills.push_back(fill.slot);
  }
  void check(const Post& post) {
    take_slot(post.slot);
    posts.push_back(post.slot);
    ++posted;
  }
  void check(const FileEnded& one) { ended.insert(one.file); }
  void check(const AllSent& /*all*/) {}
  void check(const SendFailed& failed) { why = failed.why; }

  Sending machine_;
};

TEST(HostileReceiver, OffersThatCannotBeUsed) {
  for (const auto& [chunk, slots] : std::initializer_list<std::pair<uint32_t, uint16_t>>{
           {0, 4}, {4095, 4}, {UINT32_MAX, 4}, {(64u << 20) + 1, 4}, {kOfferChunk, 0}}) {
    Sends sends;
    sends.add(10);
    sends.reply(Offer{.chunk_bytes = chunk, .slots = slots});
    EXPECT_EQ(sends.why, "the receiver offers no usable memory") << chunk;
    EXPECT_TRUE(sends.fills.empty());
  }
}

// Buffers are as many as the receiver's slots: it does not decide how much memory the sender takes.
TEST(HostileReceiver, OffersOfHugeMemory) {
  for (const uint32_t chunk : {4096u, 1u << 20, 64u << 20}) {
    Sends sends;
    sends.reply(Offer{.chunk_bytes = chunk, .slots = UINT16_MAX});
    EXPECT_EQ(sends.why, "");
    EXPECT_GE(sends.machine().slots(), 8u);
    EXPECT_LE(sends.machine().slots(), 64u);
    EXPECT_LE(sends.machine().slots() * uint64_t{chunk}, uint64_t{512} << 20);
  }
}

TEST(HostileReceiver, RepliesOutOfOrder) {
  const auto give_up = [](const Reply& first, const Reply& second) {
    Sends sends;
    sends.reply(first);
    sends.reply(second);
    return sends.why;
  };
  EXPECT_NE(give_up(Ready{}, kOffer), "");
  EXPECT_NE(give_up(Done{.file = 1}, kOffer), "");
  EXPECT_NE(give_up(kOffer, kOffer), "");
  EXPECT_NE(give_up(kOffer, Ready{0}), "");
  EXPECT_NE(give_up(kOffer, Ready{4}), "");
  EXPECT_NE(give_up(kOffer, Ready{UINT16_MAX}), "");
  EXPECT_NE(give_up(kOffer, Bye{"go"}), "");
  EXPECT_EQ(give_up(kOffer, Done{.file = 77}), "");
}

TEST(HostileReceiver, VerdictsBeforeTheFileWasSent) {
  Sends small;
  small.reply(kOffer);
  small.add(10);
  small.reply(Done{.file = 1});
  EXPECT_EQ(small.why, "the receiver says what became of a file before it was sent");
  Sends large;
  large.reply(kOffer);
  large.add(10 * kOfferChunk);
  large.reply(Done{.file = 1});
  EXPECT_EQ(large.why, "the receiver says what became of a file before it was sent");
}

// One word on a file is the last; those behind it do not pile up what is to be sent.
TEST(HostileReceiver, VerdictsAgainAndAgain) {
  Sends sends({.small_bytes = 100, .resume = false});
  sends.reply(kOffer);
  sends.add(100 * kOfferChunk);
  ASSERT_FALSE(sends.fills.empty());  // so the file is not forgotten yet
  const Done done{.file = 1, .verdict = Verdict::kFull, .text = "full"};
  for (int i = 0; i < 50'000; ++i) sends.reply(done);
  EXPECT_EQ(sends.why, "");
  EXPECT_EQ(sends.ended.count(1), 1u);
  const size_t before = sends.posted;
  sends.fill_all();
  sends.sent_all();
  EXPECT_LE(sends.posted - before, 1u);  // it is abandoned once
}

TEST(HostileReceiver, FreesSlotsThatAreNotInUse) {
  Sends sends;
  sends.reply(kOffer);
  sends.add(10);
  ASSERT_EQ(sends.fills.size(), 1u);
  const uint16_t slot = sends.fills[0];
  sends.fill_all();
  sends.reply(Ready{slot});  // before it is sent: it may only be early
  EXPECT_EQ(sends.why, "");
  sends.reply(Ready{slot});
  EXPECT_EQ(sends.why, "the receiver frees a slot that is not in use");
  sends.sent_all();
}

TEST(HostileReceiver, SaysThatItHasMoreThanThereIs) {
  const auto give_up = [](const Have& have) {
    Sends sends;
    sends.reply(kOffer);
    sends.add(2 * kOfferChunk);
    sends.reply(have);
    return !sends.why.empty();
  };
  EXPECT_FALSE(give_up({.file = 1, .last = true, .crcs = {{1}, {2}}}));
  EXPECT_FALSE(give_up({.file = 9, .last = true}));
  EXPECT_TRUE(give_up({.file = 1, .last = true, .crcs = {{1}, {2}, {3}}}));
  EXPECT_TRUE(give_up({.file = 1, .first = 1, .last = true, .crcs = {{1}}}));
  EXPECT_TRUE(give_up({.file = 1, .first = UINT64_MAX, .last = true, .crcs = {{1}}}));
  Sends twice;
  twice.reply(kOffer);
  twice.add(2 * kOfferChunk);
  twice.reply(Have{.file = 1, .last = true});
  twice.reply(Have{.file = 1, .last = true});
  EXPECT_NE(twice.why, "");
}

Reply any_reply(SeededRandom& random) {
  const auto file = static_cast<FileId>(random.below(8));
  switch (random.below(12)) {
    case 0: return Offer{random.next(), 1, static_cast<uint32_t>(random.next()), 4, random.next()};
    case 1:
    case 2: {
      Have have{.file = file, .last = random.below(2) == 0};
      have.crcs.resize(random.below(6));
      return have;
    }
    case 3:  return Stored{{{file}, {file + 1}, {static_cast<FileId>(random.below(9))}}};
    case 4:
    case 5:  return Done{file, static_cast<Verdict>(random.below(7)), "text"};
    case 6:  return random.below(20) == 0 ? Reply(Bye{"bye"}) : Reply(Ready{9});
    default: return Ready{static_cast<uint16_t>(random.below(4))};
  }
}

Filled any_filled(SeededRandom& random) {
  return {.what = static_cast<Filled::What>(random.below(4)), .length = 20, .why = "why"};
}

// By seeds: any replies, also with bytes changed, between what a good owner does.
TEST(HostileReceiver, AnyReplies) {
  size_t gave_up = 0;
  size_t posted = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    Sends sends({.small_bytes = 100, .max_open = 2, .resume = random.below(2) == 0});
    if (random.below(20) != 0) sends.reply(kOffer);
    for (int i = 0; i < 60; ++i) {
      const uint64_t kind = random.below(10);
      if (kind < 2) {
        sends.add(random.below(2) * random.below(5 * kOfferChunk));
      } else if (kind < 5 && !sends.fills.empty()) {
        sends.fill(random.below(sends.fills.size()), any_filled(random));
      } else if (kind < 8 && !sends.posts.empty()) {
        const uint16_t slot = sends.posts[0];
        sends.sent(0);
        if (random.below(10) != 0) sends.reply(Ready{slot});
      } else if (random.below(8) == 0) {
        auto bytes = encode(any_reply(random));
        if (random.below(3) == 0) bytes[random.below(bytes.size())] ^= 1;
        if (random.below(3) == 0) bytes.resize(random.below(bytes.size()));
        sends.raw(bytes);
      }
    }
    for (FileId file = 1; file < 20; ++file) EXPECT_LE(sends.ended.count(file), 1u);
    gave_up += !sends.why.empty();
    posted += sends.posted;
  }
  EXPECT_GT(gave_up, 100u);
  EXPECT_GT(posted, 3000u);
}

}  // namespace
}  // namespace verbena::transfer
