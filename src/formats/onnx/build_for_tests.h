// Protocol Buffers messages, built field by field: tests make models with it, broken ones too.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
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

inline Message node(std::string_view op, std::initializer_list<std::string_view> inputs,
                    std::initializer_list<std::string_view> outputs) {
  Message m;
  for (const auto input : inputs) m.bytes(1, input);
  for (const auto output : outputs) m.bytes(2, output);
  return m.bytes(4, op);
}

inline Message value_info(std::string_view name, int dtype,
                          std::initializer_list<std::int64_t> dims) {
  Message shape;
  for (const auto dim : dims) shape.message(1, Message().integer(1, dim));
  return Message().bytes(1, name).message(
      2, Message().message(1, Message().integer(1, dtype).message(2, shape)));
}

inline Message float_tensor(std::string_view name, std::initializer_list<std::int64_t> dims,
                            std::initializer_list<float> values) {
  Message m;
  for (const auto dim : dims) m.integer(1, dim);
  m.integer(2, 1).bytes(8, name);
  std::string raw(values.size() * sizeof(float), '\0');
  std::memcpy(raw.data(), values.begin(), raw.size());
  return m.bytes(9, raw);
}

inline Message model(const Message& graph, std::int64_t opset = 17) {
  return Message()
      .integer(1, 8)
      .message(8, Message().bytes(1, "").integer(2, opset))
      .message(7, graph);
}

}  // namespace sluice::onnx
