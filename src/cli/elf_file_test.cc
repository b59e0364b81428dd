// SPDX-License-Identifier: Apache-2.0
#include "cli/elf_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/program.h"

namespace verbena::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Elf : public ::testing::Test {
 protected:
  Elf() : directory_(::testing::TempDir() + "verbena-elf-" + std::to_string(::getpid())) {
    std::filesystem::create_directories(directory_);
  }
  ~Elf() override { std::filesystem::remove_all(directory_); }

  [[nodiscard]] std::optional<ElfFile> read(const std::string& bytes) const {
    std::ofstream(directory_ + "/file", std::ios::binary) << bytes;
    return read_elf(directory_ + "/file");
  }

  std::string directory_;
};

// A file with three program headers, a dynamic section and its strings.
struct Small {
  Elf64_Ehdr head{};
  Elf64_Phdr load{};
  Elf64_Phdr interpreter{};
  Elf64_Phdr dynamic{};
  Elf64_Dyn entries[3] = {};
  char strings[64] = {};

  explicit Small(int64_t tag, const char* text) {
    constexpr uint64_t kAddress = 0x400000;
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
#if defined(__aarch64__)
    head.e_machine = EM_AARCH64;
#else
    head.e_machine = EM_X86_64;
#endif
    head.e_phoff = offsetof(Small, load);
    head.e_phentsize = sizeof(Elf64_Phdr);
    head.e_phnum = 3;
    load.p_type = PT_LOAD;
    load.p_vaddr = kAddress;
    load.p_filesz = sizeof(Small);
    interpreter.p_type = PT_INTERP;
    dynamic.p_type = PT_DYNAMIC;
    dynamic.p_offset = offsetof(Small, entries);
    dynamic.p_filesz = sizeof entries;
    entries[0].d_tag = DT_STRTAB;
    entries[0].d_un.d_ptr = kAddress + offsetof(Small, strings);
    entries[1].d_tag = tag;
    entries[1].d_un.d_val = 1;
    std::strncpy(strings + 1, text, sizeof strings - 2);
  }
  [[nodiscard]] std::string bytes() const {
    return {reinterpret_cast<const char*>(this), sizeof *this};
  }
};

TEST_F(Elf, KnowsThisProgram) {
  const auto self = read_elf("/proc/self/exe");
  ASSERT_TRUE(self);
  EXPECT_TRUE(self->for_this_machine);
  EXPECT_TRUE(self->dynamic);
  EXPECT_THAT(self->loader, HasSubstr("/ld-linux"));
}

TEST_F(Elf, TellsTheLoaderOfMusl) {
  Small small(DT_NULL, "/lib/ld-musl-x86_64.so.1");
  small.interpreter.p_offset = offsetof(Small, strings) + 1;
  EXPECT_EQ(read(small.bytes())->loader, "/lib/ld-musl-x86_64.so.1");
  EXPECT_THAT(obstacles(directory_ + "/file"), ElementsAre(HasSubstr("is linked with musl")));
}

TEST_F(Elf, FindsTheRpath) {
  const auto elf = read(Small(DT_RPATH, "/opt/rdma/lib:$ORIGIN/../lib").bytes());
  ASSERT_TRUE(elf);
  EXPECT_THAT(elf->rpath, ElementsAre("/opt/rdma/lib", directory_ + "/../lib"));
}

TEST_F(Elf, LeavesOutTheRunpathWhichGoesBehindOurs) {
  const auto elf = read(Small(DT_RUNPATH, "/opt/rdma/lib").bytes());
  ASSERT_TRUE(elf);
  EXPECT_THAT(elf->rpath, IsEmpty());
}

TEST_F(Elf, TellsStaticAndForeignOnes) {
  Small small(DT_NULL, "");
  small.interpreter.p_type = PT_NOTE;
  EXPECT_FALSE(read(small.bytes())->dynamic);
  small.head.e_machine = EM_RISCV;
  EXPECT_FALSE(read(small.bytes())->for_this_machine);
  EXPECT_FALSE(read("#!/bin/sh\n"));
  EXPECT_FALSE(read(""));
  EXPECT_FALSE(read_elf("/no/such/file"));
}

// Cut off anywhere, or with any bytes changed: an answer, and no fault.
TEST_F(Elf, TakesDamagedFiles) {
  const std::string whole = Small(DT_RPATH, "/opt/rdma/lib").bytes();
  for (size_t length = 0; length < whole.size(); length += 7) {
    (void)read(whole.substr(0, length));
  }
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    std::string damaged = whole;
    for (int j = 0; j < 4; ++j) {
      damaged[SELFMAG + random() % (damaged.size() - SELFMAG)] = static_cast<char>(random());
    }
    (void)read(damaged);
  }
}

}  // namespace
}  // namespace verbena::cli
