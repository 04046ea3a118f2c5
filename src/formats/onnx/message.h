// Builds a Protocol Buffers message field by field.
//
//   Message().integer(1, 8).bytes(2, "sluice").message(7, graph)
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace sluice::onnx {

class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    tag(field, 0);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Message& message(int field, const Message& value) { return bytes(field, value.text_); }
  Message& real(int field, float value) {
    tag(field, 5);
    char raw[4];
    std::memcpy(raw, &value, 4);
    text_.append(raw, 4);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  void tag(int field, int kind) {
    varint(static_cast<std::uint64_t>(field) << 3 | static_cast<unsigned>(kind));
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_.push_back(static_cast<char>(value | 0x80));
    text_.push_back(static_cast<char>(value));
  }

  std::string text_;
};

}  // namespace sluice::onnx
