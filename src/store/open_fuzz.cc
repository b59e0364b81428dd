// SPDX-License-Identifier: Apache-2.0
// A small store, of which an input changes some bytes, opened in every way: for reading, for
// writing, worked with, opened again, scanned chunk by chunk as salvage does. CRCs are made right
// again where the input says so, so that what lies behind them is reached: superblocks, extents and
// records that say anything.
//
//   | what u8 | changes: | kind u8 | chunk u8 | how u8 | ... |
//
// It may be refused. It must not end the process, nor take without bound; a store that was opened
// for writing works and can be opened again; and where no CRC was made right no wrong byte comes
// out.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include <unistd.h>

#include "base/endian.h"
#include "base/fuzz_input.h"
#include "store/crc_parts.h"
#include "store/log_reader.h"
#include "store/memory_medium.h"
#include "store/raw_chunks.h"
#include "store/store.h"

namespace verbena::store {
namespace {

constexpr uint32_t kPerBlock = 16;
constexpr uint32_t kBlocks = 8;

constexpr uint8_t kNotClosed = 1;  // bits of `what`
constexpr uint8_t kScanned = 2;

constexpr uint8_t kHowCopyA = 1;  // bits of `how`
constexpr uint8_t kHowCopyB = 2;
constexpr uint8_t kMended = 4;  // CRCs made right
constexpr uint8_t kMoved = 8;   // and the id

std::vector<uint8_t> pattern(uint64_t seed, size_t length) {
  std::vector<uint8_t> bytes(length);
  SeededRandom random(seed);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

Options options_for(bool read_only) {
  Options options;
  options.read_only = read_only;
  options.max_mappings = 2000;
  options.now_ns = [] { return uint64_t{1'700'000'000'000'000'000}; };
  // One input, one history.
  options.random = [] { return uint64_t{0x0123'4567'89ab'cdef}; };
  return options;
}

// The store that is changed, made once.
class Base {
 public:
  struct Place {
    uint64_t a = 0;
    uint64_t b = 0;  // the other copy; of data the same
  };
  explicit Base(bool closed) : medium(kPerBlock, kBlocks) {
    SeededRandom tag(7);
    auto made = Store::create(medium.open(), options_for(false), tag);
    VERBENA_CHECK(made);
    Store& store = **made;
    const auto write = [&](ObjectId id, uint64_t offset, uint64_t seed, size_t length) {
      VERBENA_CHECK(store.write(id, offset, pattern(seed, length)) && store.flush());
    };
    VERBENA_CHECK(store.create_object({0, 1}, "one") && store.create_object({0, 2}));
    write({0, 1}, 0, 1, 6 * kDataBytes);
    write({0, 2}, 100, 2, 5 * kDataBytes);
    CloneRequest clone;
    clone.from = {0, 1};
    clone.to = {0, 3};
    clone.to_name = "clone";
    VERBENA_CHECK(store.create_object({0, 5}, "few in a table"));
    write({0, 5}, 0, 7, 200);
    VERBENA_CHECK(store.clone(clone) && store.checkpoint());
    write({0, 1}, 4000, 3, 5000);
    write({0, 3}, 9 * kDataBytes, 4, 100);
    VERBENA_CHECK(store.truncate({0, 2}, 3 * kDataBytes) && store.rename({0, 2}, "two"));
    write({0, 2}, kDataBytes, 5, kDataBytes);
    VERBENA_CHECK(store.create_object({0, 4}, "few"));
    write({0, 4}, 0, 6, 300);
    note_places(store);
    const auto listed = store.list(std::nullopt, 10);
    for (const ObjectInfo& object : *listed) {
      std::vector<uint8_t> bytes(object.size);
      VERBENA_CHECK(store.read(object.id, 0, bytes));
      contents.emplace_back(object.id, std::move(bytes));
    }
    if (closed) {
      VERBENA_CHECK(store.close());
      made->reset();
    }
    image.assign(medium.bytes().begin(), medium.bytes().end());
    existing = medium.existing;
  }

  MemoryMedium medium;
  std::vector<uint8_t> image;
  uint32_t existing = 0;
  std::vector<Place> twice;
  std::vector<uint64_t> data;
  std::vector<std::pair<ObjectId, std::vector<uint8_t>>> contents;

 private:
  void note_places(const Store& store) {
    twice.push_back({0, kPerBlock});
    const auto root = decode_superblock(medium.chunk(0));
    VERBENA_CHECK(root);
    for (const auto* extents : {&root->checkpoint, &root->log}) {
      for (const Extent& extent : *extents) {
        for (uint32_t i = 0; i < extent.count; ++i) {
          twice.push_back({uint64_t{extent.block_a} * kPerBlock + extent.first + i,
                           uint64_t{extent.block_b} * kPerBlock + extent.first + i});
        }
      }
    }
    const auto listed = store.list(std::nullopt, 10);
    for (const ObjectInfo& object : *listed) {
      const auto segments = store.segments(object.id, 0, 100);
      for (const SegmentInfo& segment : *segments) {
        for (uint32_t i = 0; i < segment.count; ++i) data.push_back(segment.chunk + i);
      }
    }
  }
};

Base& base_of(uint8_t what) {
  static Base closed(true);
  static Base killed(false);
  return (what & kNotClosed) != 0 ? killed : closed;
}

class Trial {
 public:
  Trial(const uint8_t* data, size_t size)
      : input_(data, size), what_(input_.u8()), base_(base_of(what_)), medium_(kPerBlock, kBlocks) {
    std::ranges::copy(base_.image, medium_.bytes().begin());
    medium_.existing = base_.existing;
  }

  void run() {
    for (int i = 0; i < 32 && !input_.empty(); ++i) change();
    look();
    if ((what_ & kScanned) != 0) scan();
    work();
  }

 private:
  // --- changes

  void change() {
    const uint8_t kind = input_.u8();
    const uint8_t which = input_.u8();
    const uint8_t how = input_.u8();
    const Base::Place place = which < 128 ? base_.twice[which % base_.twice.size()]
                                          : Base::Place{base_.data[which % base_.data.size()], 0};
    const size_t at = input_.u16() % kChunkBytes;
    const auto bytes = kind % 3 == 2 ? std::span<const uint8_t>{} : input_.bytes(input_.number());
    const uint64_t from = input_.u8() % (kPerBlock * kBlocks);
    for (const uint64_t chunk : {place.a, place.b}) {
      const bool chosen =
          which >= 128 ? chunk == place.a : (how & (chunk == place.a ? kHowCopyA : kHowCopyB)) != 0;
      if (!chosen) continue;
      switch (kind % 3) {
        case 0:  put(chunk, at, bytes); break;
        case 1:  put_records(chunk, at, bytes); break;
        default: copy(from, chunk, (how & kMoved) != 0); break;
      }
      if ((how & kMended) != 0) mend(chunk);
    }
  }
  void put(uint64_t chunk, size_t at, std::span<const uint8_t> bytes) {
    std::ranges::copy(bytes.first(std::min(bytes.size(), kChunkBytes - at)),
                      medium_.chunk(chunk).begin() + static_cast<ptrdiff_t>(at));
  }
  // Data up to there stays; these bytes come behind it, and the chunk is so long.
  void put_records(uint64_t chunk, size_t at, std::span<const uint8_t> bytes) {
    at = std::min(at, kDataBytes);
    const size_t length = std::min(bytes.size(), kDataBytes - at);
    const auto all = medium_.chunk(chunk);
    std::fill(all.begin() + static_cast<ptrdiff_t>(at), all.begin() + kDataBytes, uint8_t{0});
    put(chunk, at, bytes.first(length));
    store_be16(all.data() + 4088, static_cast<uint16_t>(at + length));
  }
  void copy(uint64_t from, uint64_t to, bool moved) {
    if (from != to) std::ranges::copy(medium_.chunk(from), medium_.chunk(to).begin());
    if (!moved) return;
    store_be64(medium_.chunk(to).data() + kDataBytes, to);
    mend(to);
  }
  void mend(uint64_t chunk) {
    const auto all = medium_.chunk(chunk);
    store_be32(all.data() + 4084, crc_of(all.first<kDataBytes>()));
    store_be32(all.data() + 4092, crc_of(all.first<4092>()));
    mended_ = true;
  }

  // --- what is done with it

  std::unique_ptr<Store> open(bool read_only, OpenReport* report = nullptr) {
    auto store = Store::open(medium_.open(), options_for(read_only), report);
    if (!store) VERBENA_CHECK(!store.error().what.empty());
    return store ? std::move(*store) : nullptr;
  }

  static void read_all(const Store& store) {
    std::vector<uint8_t> bytes(kDataBytes + 100);
    const auto listed = store.list(std::nullopt, 50);
    VERBENA_CHECK(listed);
    for (const ObjectInfo& object : *listed) {
      uint32_t crc = 0;
      for (const uint64_t offset : {uint64_t{0}, object.size / 2, object.size - 1}) {
        const auto got = store.read(object.id, offset, bytes, &crc);
        if (got) VERBENA_CHECK(crc == crc_of(std::span(bytes).first(*got)));
        static_cast<void>(store.prepare_read(object.id, offset, kDataBytes));
      }
      const auto segments = store.segments(object.id, 0, 50);
      VERBENA_CHECK(segments);
      for (const SegmentInfo& segment : *segments) {
        static_cast<void>(store.read(object.id, segment.offset, bytes));
      }
      if (!object.name.empty()) VERBENA_CHECK(store.find(object.name) == object.id);
    }
  }

  // Without its index: what is read is right, or an error.
  void look_on_demand() {
    Options options = options_for(true);
    options.on_demand = true;
    const auto store = Store::open(medium_.open(), options);
    if (!store) return;
    std::vector<ListLoss> lost;
    VERBENA_CHECK((*store)->list(std::nullopt, 50, &lost));
    VERBENA_CHECK((*store)->list(std::nullopt, 50).has_value() == lost.empty());
    static_cast<void>((*store)->find("one"));
    for (const auto& [id, expected] : base_.contents) {
      std::vector<uint8_t> bytes(expected.size() + 1);
      const auto got = (*store)->read(id, 0, bytes);
      if (!got || mended_ || (what_ & kNotClosed) != 0) continue;
      bytes.resize(*got);
      VERBENA_CHECK(bytes == expected);
    }
  }

  // As salvage does: what is lost of the index is left out.
  void look_in_part() {
    Options options = options_for(true);
    options.partial = true;
    const auto store = Store::open(medium_.open(), options);
    if (store) read_all(**store);
  }

  void look() {
    look_on_demand();
    look_in_part();
    OpenReport report;
    const auto store = open(true, &report);
    if (!store) return;
    read_all(*store);
    const auto scrubbed = store->scrub();
    VERBENA_CHECK(scrubbed);
    // Closed in order: nothing is older than it was.
    if (mended_ || !report.clean) return;
    VERBENA_CHECK(store->list(std::nullopt, 50)->size() == base_.contents.size());
    for (const auto& [id, expected] : base_.contents) {
      std::vector<uint8_t> bytes(expected.size() + 1);
      const auto got = store->read(id, 0, bytes);
      if (!got) {
        VERBENA_CHECK(got.error().code == Code::kDamaged && scrubbed->damaged > 0);
        continue;
      }
      bytes.resize(*got);
      VERBENA_CHECK(bytes == expected);
    }
  }

  void work() {
    constexpr ObjectId kNew{77, 1};
    static const std::vector<uint8_t> written = pattern(9, kDataBytes + 11);
    bool kept = false;
    {
      const auto store = open(false);
      if (!store) return;
      read_all(*store);
      const auto listed = store->list(std::nullopt, 5);
      for (const ObjectInfo& object : *listed) {
        static_cast<void>(store->write(object.id, object.size / 2, std::span(written).first(99)));
        static_cast<void>(store->truncate(object.id, object.size / 3));
        CloneRequest clone;
        clone.from = object.id;
        clone.to = {78, object.id.low};
        static_cast<void>(store->clone(clone));
      }
      kept = store->create_object(kNew) && store->write(kNew, 1000, written);
      static_cast<void>(store->checkpoint());
      if (const auto some = store->list(std::nullopt, 1);
          some && !some->empty() && (*some)[0].id != kNew) {
        static_cast<void>(store->remove((*some)[0].id));
      }
      VERBENA_CHECK(store->scrub());
      kept = store->close() && kept;
    }
    OpenReport report;
    const auto again = open(true, &report);
    if (!kept) return;
    VERBENA_CHECK(again && report.damage.empty());
    read_all(*again);
    std::vector<uint8_t> bytes(written.size());
    VERBENA_CHECK(again->read(kNew, 1000, bytes) && bytes == written);
  }

  // As salvage does, from a file.
  void scan() {
    static const Folder folder;
    {
      std::ofstream file(folder.path / "blocks.0of1.000", std::ios::binary);
      file.write(reinterpret_cast<const char*>(medium_.bytes().data()),
                 static_cast<std::streamsize>(medium_.bytes().size()));
    }
    auto raw = RawChunks::open({folder.path});
    VERBENA_CHECK(raw);
    const auto found = raw->scan({});
    VERBENA_CHECK(found);
    for (const auto& [number, object] : found->objects) {
      for (const auto& [index, chunk] : object) VERBENA_CHECK(raw->data(chunk.number));
    }
  }
  struct Folder {
    Folder() {
      std::string name = std::filesystem::temp_directory_path() / "verbena-open-fuzz-XXXXXX";
      VERBENA_CHECK(::mkdtemp(name.data()) != nullptr);
      path = name;
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::filesystem::path path;
  };

  FuzzInput input_;
  const uint8_t what_;
  Base& base_;
  MemoryMedium medium_;
  bool mended_ = false;
};

}  // namespace
}  // namespace verbena::store

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  verbena::store::Trial(data, size).run();
  return 0;
}
