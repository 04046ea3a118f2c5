#include "formats/onnx/wire.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"

namespace sluice::onnx {
namespace {

[[noreturn]] void broken(std::string_view why) {
  throw Error(Code::invalid_argument, "not a valid Protocol Buffers message: " + std::string(why));
}

std::uint64_t take_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    if (i >= rest.size()) broken("it ends inside a number");
    const auto byte = static_cast<unsigned char>(rest[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7fu) << (7 * i);
    if (byte < 0x80u) {
      rest.remove_prefix(i + 1);
      return value;
    }
  }
  broken("a number of more than 10 bytes");
}

std::string_view take_bytes(std::string_view& rest, std::uint64_t count) {
  if (count > rest.size()) broken("a field is longer than the rest of the file");
  const std::string_view taken = rest.substr(0, count);
  rest.remove_prefix(count);
  return taken;
}

std::uint64_t take_fixed(std::string_view& rest, std::size_t width) {
  std::uint64_t value = 0;
  std::memcpy(&value, take_bytes(rest, width).data(), width);  // little-endian, as the host
  return value;
}

}  // namespace

bool Wire::next() {
  if (rest_.empty()) return false;
  const std::uint64_t tag = take_varint(rest_);
  if (tag >> 3 == 0 || tag >> 3 > 536870911) broken("a field without a valid number");
  number_ = static_cast<int>(tag >> 3);
  kind_ = static_cast<Kind>(tag & 7);
  bytes_ = {};
  switch (kind_) {
    case Kind::varint: number_value_ = take_varint(rest_); break;
    case Kind::fixed64: number_value_ = take_fixed(rest_, 8); break;
    case Kind::fixed32: number_value_ = take_fixed(rest_, 4); break;
    case Kind::bytes: bytes_ = take_bytes(rest_, take_varint(rest_)); break;
    default: broken("a field of unknown kind");
  }
  return true;
}

void Wire::need(Kind kind) const {
  if (kind_ != kind) broken("field " + std::to_string(number_) + " has the wrong wire type");
}

std::int64_t Wire::integer() const {
  need(Kind::varint);
  return static_cast<std::int64_t>(number_value_);
}

float Wire::real() const {
  need(Kind::fixed32);
  float value;
  const auto bits = static_cast<std::uint32_t>(number_value_);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::string_view Wire::bytes() const {
  need(Kind::bytes);
  return bytes_;
}

std::string_view Wire::name() const {
  constexpr std::size_t kMaxNameBytes = 65536;
  const std::string_view text = bytes();
  if (text.size() > kMaxNameBytes) broken("a name of " + std::to_string(text.size()) + " bytes");
  const bool control = std::any_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  if (control || first_invalid_utf8(text)) broken("a name that is no text");
  return text;
}

void Wire::add_to(std::vector<std::int64_t>& list) const {
  if (kind_ == Kind::varint) return list.push_back(integer());
  for (std::string_view rest = bytes(); !rest.empty();)
    list.push_back(static_cast<std::int64_t>(take_varint(rest)));
}

template <class T>
void Wire::add_fixed(std::vector<T>& list, Kind single) const {
  T value;
  if (kind_ == single) {
    std::memcpy(&value, &number_value_, sizeof value);
    return list.push_back(value);
  }
  std::string_view packed = bytes();
  if (packed.size() % sizeof value != 0) broken("packed numbers end inside one");
  const std::size_t before = list.size();
  list.resize(before + packed.size() / sizeof value);
  if (!packed.empty()) std::memcpy(list.data() + before, packed.data(), packed.size());
}

void Wire::add_to(std::vector<float>& list) const { add_fixed(list, Kind::fixed32); }
void Wire::add_to(std::vector<double>& list) const { add_fixed(list, Kind::fixed64); }

}  // namespace sluice::onnx
