// Builds safetensors files for tests.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace sluice::safetensors {

// A file with any header and data.
inline std::string with_header(std::string_view header, std::string_view data = {}) {
  std::string text;
  for (std::size_t i = 0; i < 8; ++i) text += static_cast<char>(header.size() >> (8 * i) & 0xff);
  return text.append(header).append(data);
}

// A file with f32 tensors.
inline std::string file_of(const std::map<std::string, Tensor>& tensors) {
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}", data;
  for (const auto& [name, tensor] : tensors) {
    header += ",\"" + name + "\":{\"dtype\":\"F32\",\"shape\":[";
    for (int i = 0; i < tensor.rank(); ++i)
      header += (i > 0 ? "," : "") + std::to_string(tensor.shape()[i]);
    header += "],\"data_offsets\":[" + std::to_string(data.size()) + ",";
    data.append(static_cast<const char*>(tensor.data()), tensor.bytes());
    header += std::to_string(data.size()) + "]}";
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  return with_header(header, data);
}

}  // namespace sluice::safetensors
