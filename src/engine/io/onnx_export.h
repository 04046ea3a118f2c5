// Exports a graph as an ONNX model, for other programs and for plans.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "formats/onnx/message.h"

namespace sluice::engine {

// Tensors stored outside the messages that refer to them, each once.
class TensorStore {
 public:
  // Tensors smaller than `min_bytes` stay in their message.
  explicit TensorStore(std::string location, std::size_t min_bytes = 1024)
      : location_(std::move(location)), min_bytes_(min_bytes) {}

  // The TensorProto of a tensor. Its data is stored here unless it is small or strings.
  onnx::Message message(std::string_view name, const Tensor& tensor);

  struct Entry {
    std::uint64_t offset;
    Tensor tensor;
  };
  const std::vector<Entry>& entries() const noexcept { return entries_; }  // by offset
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::string location_;
  std::size_t min_bytes_;
  std::map<std::pair<const void*, std::size_t>, std::size_t> known_;  // entry by address, bytes
  std::vector<Entry> entries_;
  std::uint64_t bytes_ = 0;
};

// Serializes a ModelProto. Values keep unique names; all known types are included.
std::string export_onnx(const Graph& graph, TensorStore& tensors);

// Writes `graph` to `file`, and its tensors to `file`.data if they exceed 64 MiB.
void write_onnx(const Graph& graph, const std::filesystem::path& file);

// Writes the data of all tensors, each at its offset.
void write_tensors(const TensorStore& tensors, const std::function<void(std::string_view)>& write);

// Restores the versions of nodes that export_onnx wrote with another version of their domain.
void restore_versions(Graph& graph);

}  // namespace sluice::engine
