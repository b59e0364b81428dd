// SPDX-License-Identifier: Apache-2.0
// Sixteen processes of one user on one host, all pairs talking, members killed at random: while
// they work, while they join, several at once. Survivors see the errors the standard gives and go
// on with the living; who takes the seat is connected with at once; nothing is left behind.
#include <array>
#include <cstdio>
#include <optional>

#include <unistd.h>

#include "base/random.h"
#include "processes/crowd.h"

namespace verbena::processes {
namespace {

// Counts by survivor and victim.
using Pairs = std::array<std::array<uint64_t, kSeats>, kSeats>;

struct Storm {
  Crowd& crowd;
  SeededRandom& random;
  uint64_t kills = 0;
  // Connections that must end with retries exceeded, if the survivor lives to see it: those that
  // did rounds both ways when the victim was killed. And those that may: a connection can be up
  // before the board tells of it.
  Pairs owed{};
  Pairs possible{};

  void kill(uint32_t seat) {
    for (const uint32_t other : crowd.sitting()) {
      if (other == seat) continue;
      owed[other][seat] += crowd.talk(other, seat) ? 1 : 0;
      ++possible[other][seat];
    }
    crowd.kill(seat);
    owed[seat] = possible[seat] = {};  // what it had to see dies with it
    ++kills;
  }
  void pause(uint64_t most_us) { ::usleep(static_cast<useconds_t>(random.below(most_us + 1))); }

  // One to three die; each is replaced, and some of those die again while they join.
  void step() {
    pause(20'000);
    std::vector<uint32_t> victims;
    for (uint64_t left = 1 + random.below(3); left > 0; --left) {
      const auto seat = static_cast<uint32_t>(random.below(kSeats));
      if (crowd.pid(seat) <= 0) continue;
      kill(seat);
      victims.push_back(seat);
      if (random.below(2) == 0) pause(2'000);
    }
    for (const uint32_t seat : victims) {
      crowd.start(seat);
      if (random.below(4) != 0) continue;
      pause(4'000);
      kill(seat);
      crowd.start(seat);
    }
  }
};

TEST(Kills, SurvivorsGoOnAndNewcomersConnect) {
  const uint64_t seed = number_from("VERBENA_SEED", static_cast<uint64_t>(::getpid()));
  MemberOptions options;
  options.engine = own_engine_options();
  // The full number over one of the links.
  const bool some = kSanitized || options.engine.link == link::LinkKind::kUdp;
  const uint64_t wanted = number_from("VERBENA_KILLS", some ? 24 : 100);
  std::printf("seed %llu (VERBENA_SEED), %llu kills (VERBENA_KILLS)\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(wanted));
  SeededRandom random(seed);
  options.addresses = {wire::Gid::from_ipv4(127, 0, 0, 1)};
  if (kSanitized) options.timeout = 18;
  options.pause = 10 * kMillisecond;  // so that starting a process, not talking, takes the time
  std::optional<Namespace> files;
  if (is_root()) files.emplace(Namespace::Kind::kMount);
  const bool own_files = files && files->valid();
  {
    Crowd crowd(options, [&](uint32_t) {
      if (own_files && !files->enter()) ::_exit(1);
    });
    for (uint32_t seat = 0; seat < kSeats; ++seat) crowd.start(seat);
    ASSERT_TRUE(crowd.eventually([&] { return crowd.all_talk(); }));

    Storm storm{crowd, random};
    while (storm.kills < wanted) {
      storm.step();
      ASSERT_TRUE(crowd.eventually([&] { return crowd.all_talk(); }))
          << "after " << storm.kills << " kills";
    }
    // Who is killed last takes the connections of the others along; the rest leave in order, once
    // all that they had with the dead has ended.
    for (const uint32_t seat : {3u, 7u, 11u}) storm.kill(seat);
    const auto survivors = crowd.sitting();
    ASSERT_TRUE(crowd.finish()) << crowd.failure();

    uint64_t deaths = 0;
    uint64_t rounds = 0;
    uint32_t overflows = 0;
    for (const Seat& seat : crowd.board().seats) {
      deaths += seat.deaths;
      rounds += seat.rounds;
      overflows += seat.overflows;
    }
    std::printf("%llu kills, %llu rounds, %llu connections ended by retry exceeded\n",
                static_cast<unsigned long long>(storm.kills),
                static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(deaths));
    // Each survivor saw the end of each connection that a kill cut, and of none that no kill did.
    uint64_t owed = 0;
    for (const uint32_t survivor : survivors) {
      for (uint32_t victim = 0; victim < kSeats; ++victim) {
        const uint64_t seen = crowd.board().seats[survivor].deaths_with[victim];
        EXPECT_GE(seen, storm.owed[survivor][victim]) << survivor << " of " << victim;
        EXPECT_LE(seen, storm.possible[survivor][victim]) << survivor << " of " << victim;
        owed += storm.owed[survivor][victim];
      }
    }
    // All talked with all when the last three were killed.
    EXPECT_GE(owed, 3 * survivors.size());
    EXPECT_EQ(overflows, 0u);
  }
  EXPECT_EQ(leftovers(options.engine.host), "");
  if (own_files) {
    EXPECT_TRUE(files->list("/tmp").empty()) << files->list("/tmp").front();
    EXPECT_TRUE(files->list("/dev/shm").empty()) << files->list("/dev/shm").front();
  }
}

TEST(Kills, AllKilledAtOnceLeaveNothing) {
  MemberOptions options;
  options.engine = own_engine_options();
  options.addresses = {wire::Gid::from_ipv4(127, 0, 0, 1)};
  for (int again = 0; again < 2; ++again) {
    {
      Crowd crowd(options);
      for (uint32_t seat = 0; seat < 6; ++seat) crowd.start(seat);
      ASSERT_TRUE(crowd.eventually([&] { return crowd.all_talk(); }));
    }
    EXPECT_EQ(leftovers(options.engine.host), "");
  }
}

}  // namespace
}  // namespace verbena::processes
