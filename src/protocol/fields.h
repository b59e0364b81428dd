// SPDX-License-Identifier: Apache-2.0
// Fields one after the other, big-endian, in bounded memory. A message lists its fields once, in
// `static void fields(self, f)`; FieldWriter and FieldReader are the two things `f` can be, so that
// what is written is what is read. Both remember the first fault and do nothing after it. Strings
// and byte runs that were read point into the message.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/endian.h"
#include "base/object_id.h"
#include "protocol/fault.h"

namespace verbena::protocol {

inline constexpr size_t kMaxNameBytes = 1000;  // of an object: the store's limit
inline constexpr size_t kMaxTextBytes = 400;   // of a sentence for people

// An enumeration says which values it has.
template <typename E>
concept WireEnum = std::is_enum_v<E> && requires(E e) {
  { is_defined(e) } -> std::same_as<bool>;
};

class FieldWriter {
 public:
  explicit FieldWriter(std::span<uint8_t> room) : room_(room) {}

  template <typename... T>
  void operator()(const T&... values) {
    (one(values), ...);
  }
  void name(std::string_view value) { counted(value, kMaxNameBytes, Fault::kName); }
  void text(std::string_view value) { counted(value, kMaxTextBytes, Fault::kText); }
  void bytes16(std::span<const uint8_t> value) {
    if (value.size() > UINT16_MAX) return refuse(Fault::kLength);
    one(static_cast<uint16_t>(value.size()));
    raw(value);
  }
  template <typename T>
  void list(const std::vector<T>& values) {
    if (values.size() > UINT16_MAX) return refuse(Fault::kCount);
    one(static_cast<uint16_t>(values.size()));
    for (const T& value : values) T::fields(value, *this);
  }
  void raw(std::span<const uint8_t> value) {
    if (uint8_t* p = claim(value.size()); p != nullptr && !value.empty() && p != value.data()) {
      std::memcpy(p, value.data(), value.size());
    }
  }
  void refuse(Fault fault) {
    if (ok()) fault_ = fault;
  }
  // So many bytes, to be filled by the caller; nullptr if there is no room.
  [[nodiscard]] uint8_t* claim(size_t bytes) {
    if (!ok()) return nullptr;
    if (bytes > room_.size() - used_) {
      refuse(Fault::kRoom);
      return nullptr;
    }
    uint8_t* p = room_.data() + used_;
    used_ += bytes;
    return p;
  }

  [[nodiscard]] bool ok() const { return fault_ == Fault::kEnd; }
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] size_t used() const { return used_; }

 private:
  template <std::unsigned_integral T>
  void one(T value) {
    if constexpr (std::same_as<T, bool>) {
      one(static_cast<uint8_t>(value));
    } else if (uint8_t* p = claim(sizeof(T)); p != nullptr) {
      store_be<T>(p, value);
    }
  }
  template <WireEnum E>
  void one(E value) {
    if (!is_defined(value)) return refuse(Fault::kReserved);
    one(static_cast<std::underlying_type_t<E>>(value));
  }
  void one(ObjectId id) { (*this)(id.high, id.low); }
  template <size_t N>
  void one(const std::array<uint8_t, N>& value) {
    raw(value);
  }
  template <typename T>
    requires requires(const T& t, FieldWriter& f) { T::fields(t, f); }
  void one(const T& value) {
    T::fields(value, *this);
  }
  void counted(std::string_view value, size_t limit, Fault fault) {
    if (value.size() > limit) return refuse(fault);
    one(static_cast<uint16_t>(value.size()));
    raw({reinterpret_cast<const uint8_t*>(value.data()), value.size()});
  }

  std::span<uint8_t> room_;
  size_t used_ = 0;
  Fault fault_ = Fault::kEnd;
};

class FieldReader {
 public:
  explicit FieldReader(std::span<const uint8_t> bytes) : rest_(bytes) {}

  template <typename... T>
  void operator()(T&... values) {
    (one(values), ...);
  }
  void name(std::string_view& value) { counted(value, kMaxNameBytes, Fault::kName); }
  void text(std::string_view& value) { counted(value, kMaxTextBytes, Fault::kText); }
  void bytes16(std::span<const uint8_t>& value) {
    uint16_t length = 0;
    one(length);
    value = raw(length);
  }
  template <typename T>
  void list(std::vector<T>& values) {
    uint16_t count = 0;
    one(count);
    // Before any memory is taken for them.
    if (count > rest_.size() / T::kMinBytes) refuse(Fault::kCount);
    if (!ok()) return;
    values.resize(count);
    for (T& value : values) T::fields(value, *this);
  }
  [[nodiscard]] std::span<const uint8_t> raw(size_t bytes) {
    if (bytes > rest_.size()) refuse(Fault::kShort);
    if (!ok()) return {};
    const auto taken = rest_.first(bytes);
    rest_ = rest_.subspan(bytes);
    return taken;
  }
  void refuse(Fault fault) {
    if (ok()) fault_ = fault;
  }

  [[nodiscard]] bool ok() const { return fault_ == Fault::kEnd; }
  [[nodiscard]] Fault fault() const { return fault_; }
  [[nodiscard]] std::span<const uint8_t> rest() const { return rest_; }

 private:
  template <std::unsigned_integral T>
  void one(T& value) {
    if constexpr (std::same_as<T, bool>) {
      uint8_t byte = 0;
      one(byte);
      if (byte > 1) refuse(Fault::kReserved);
      value = byte == 1;
    } else if (const auto bytes = raw(sizeof(T)); !bytes.empty()) {
      value = load_be<T>(bytes.data());
    }
  }
  template <WireEnum E>
  void one(E& value) {
    auto number = static_cast<std::underlying_type_t<E>>(value);
    one(number);
    if (ok() && !is_defined(static_cast<E>(number))) refuse(Fault::kReserved);
    if (ok()) value = static_cast<E>(number);
  }
  void one(ObjectId& id) { (*this)(id.high, id.low); }
  template <size_t N>
  void one(std::array<uint8_t, N>& value) {
    if (const auto bytes = raw(N); !bytes.empty()) std::memcpy(value.data(), bytes.data(), N);
  }
  template <typename T>
    requires requires(T& t, FieldReader& f) { T::fields(t, f); }
  void one(T& value) {
    T::fields(value, *this);
  }
  void counted(std::string_view& value, size_t limit, Fault fault) {
    uint16_t length = 0;
    one(length);
    if (length > limit) refuse(fault);
    const auto bytes = raw(length);
    if (ok()) value = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::span<const uint8_t> rest_;
  Fault fault_ = Fault::kEnd;
};

}  // namespace verbena::protocol
