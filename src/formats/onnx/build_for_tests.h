// Builds messages of models, also malformed ones, for tests.
#pragma once

#include <initializer_list>

#include "formats/onnx/message.h"

namespace sluice::onnx {

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
