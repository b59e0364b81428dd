// SPDX-License-Identifier: Apache-2.0
#include "cli/elf_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbena::cli {
namespace {

#if defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#elif defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#else
#error "Which machine is this in an ELF header?"
#endif

constexpr size_t kMostHeaders = 256;
constexpr size_t kMostEntries = 4096;

class Reader {
 public:
  explicit Reader(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

  template <typename T>
  [[nodiscard]] std::optional<T> at(uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    if (!fd_.valid() || offset > INT64_MAX) return std::nullopt;
    if (::pread(fd_.get(), &value, sizeof value, static_cast<off_t>(offset)) != sizeof value) {
      return std::nullopt;
    }
    return value;
  }
  [[nodiscard]] std::string text_at(uint64_t offset) const {
    std::array<char, 4096> text;
    if (offset > INT64_MAX) return "";
    const ssize_t got = ::pread(fd_.get(), text.data(), text.size(), static_cast<off_t>(offset));
    if (got <= 0) return "";
    return {text.data(), ::strnlen(text.data(), static_cast<size_t>(got))};
  }

 private:
  UniqueFd fd_;
};

[[nodiscard]] std::vector<Elf64_Phdr> program_headers(const Reader& file, const Elf64_Ehdr& head) {
  std::vector<Elf64_Phdr> headers;
  for (size_t i = 0; i < std::min<size_t>(head.e_phnum, kMostHeaders); ++i) {
    const auto header = file.at<Elf64_Phdr>(head.e_phoff + i * head.e_phentsize);
    if (!header) break;
    headers.push_back(*header);
  }
  return headers;
}

// Where in the file an address of the program is.
[[nodiscard]] std::optional<uint64_t> offset_of(uint64_t address,
                                                const std::vector<Elf64_Phdr>& headers) {
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
        address - header.p_vaddr < header.p_filesz) {
      return header.p_offset + (address - header.p_vaddr);
    }
  }
  return std::nullopt;
}

[[nodiscard]] std::vector<std::string> directories_in(std::string_view list,
                                                      const std::string& origin) {
  std::vector<std::string> found;
  while (!list.empty()) {
    const size_t colon = std::min(list.find(':'), list.size());
    std::string item(list.substr(0, colon));
    for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"}) {
      if (const size_t at = item.find(word); at != std::string::npos) {
        item.replace(at, word.size(), origin);
      }
    }
    found.push_back(std::move(item));
    list.remove_prefix(std::min(colon + 1, list.size()));
  }
  return found;
}

[[nodiscard]] std::string rpath_of(const Reader& file, const std::vector<Elf64_Phdr>& headers) {
  const auto dynamic = std::ranges::find(headers, Elf64_Word{PT_DYNAMIC}, &Elf64_Phdr::p_type);
  if (dynamic == headers.end()) return "";
  std::optional<uint64_t> strings;
  std::optional<uint64_t> rpath;
  for (size_t i = 0; i < std::min(dynamic->p_filesz / sizeof(Elf64_Dyn), kMostEntries); ++i) {
    const auto entry = file.at<Elf64_Dyn>(dynamic->p_offset + i * sizeof(Elf64_Dyn));
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_RUNPATH) return "";  // makes the loader ignore the other
    if (entry->d_tag == DT_STRTAB) strings = offset_of(entry->d_un.d_ptr, headers);
    if (entry->d_tag == DT_RPATH) rpath = entry->d_un.d_val;
  }
  return strings && rpath ? file.text_at(*strings + *rpath) : "";
}

}  // namespace

std::optional<ElfFile> read_elf(const std::string& path) {
  const Reader file(path);
  const auto head = file.at<Elf64_Ehdr>(0);
  if (!head || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  ElfFile elf;
  elf.for_this_machine = head->e_ident[EI_CLASS] == ELFCLASS64 &&
                         head->e_ident[EI_DATA] == ELFDATA2LSB && head->e_machine == kMachine;
  if (!elf.for_this_machine) return elf;
  const auto headers = program_headers(file, *head);
  const auto loader = std::ranges::find(headers, Elf64_Word{PT_INTERP}, &Elf64_Phdr::p_type);
  elf.dynamic = loader != headers.end();
  if (elf.dynamic) elf.loader = file.text_at(loader->p_offset);
  const size_t slash = path.rfind('/');
  elf.rpath = directories_in(rpath_of(file, headers),
                             slash == std::string::npos ? "." : path.substr(0, slash));
  return elf;
}

}  // namespace verbena::cli
