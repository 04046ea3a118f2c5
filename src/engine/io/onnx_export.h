// A graph as an ONNX model, so that other programs can read it, and as the parts of a plan.
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

// Tensors that are written after the messages which name them, each once, however many do.
class TensorStore {
 public:
  // Smaller ones stay in their message.
  explicit TensorStore(std::string location, std::size_t smallest = 1024)
      : location_(std::move(location)), smallest_(smallest) {}

  // The message of a tensor. Its data is put here unless it is small or of strings.
  onnx::Message message(std::string_view name, const Tensor& tensor);

  struct Entry {
    std::uint64_t offset;
    Tensor tensor;
  };
  const std::vector<Entry>& entries() const noexcept { return entries_; }  // by offset
  std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::string location_;
  std::size_t smallest_;
  std::map<std::pair<const void*, std::size_t>, std::size_t> known_;  // entry by address, bytes
  std::vector<Entry> entries_;
  std::uint64_t bytes_ = 0;
};

// The bytes of a ModelProto. Values keep their names where no two have the same; the types of
// all that are known stand in it.
std::string export_onnx(const Graph& graph, TensorStore& tensors);

// Writes `graph` to `file`, its tensors into `file`.data beside it where there are more than
// 64 MiB of them.
void write_onnx(const Graph& graph, const std::filesystem::path& file);

// The data of all tensors in parts, each at its offset from the first.
void write_tensors(const TensorStore& tensors, const std::function<void(std::string_view)>& write);

// Undoes what export_onnx did to nodes of one domain with different versions.
void restore_versions(Graph& graph);

}  // namespace sluice::engine
