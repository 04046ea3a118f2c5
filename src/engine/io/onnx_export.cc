#include "engine/io/onnx_export.h"

#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "base/new_file.h"
#include "memory/alloc/allocator.h"
#include "tensor/byte_size.h"

namespace sluice::engine {
namespace {

using onnx::Message;
using Kind = onnx::Attribute::Kind;

constexpr std::size_t kAlignment = 64;
constexpr std::string_view kVersion =
    "_version";  // marks a node whose version differs from its domain's
constexpr int kIrVersion = 10;
constexpr std::size_t kMaxInlineBytes = 64u << 20;  // tensors kept in the model file itself

// Packs sub-byte elements, lowest bits first.
std::string packed(const Tensor& tensor) {
  const int width = bits(tensor.dtype());
  std::string bytes(packed_byte_size(tensor.shape().dims(), tensor.dtype()), '\0');
  const auto* const from = static_cast<const std::uint8_t*>(tensor.data());
  const auto per_byte = static_cast<std::size_t>(8 / width);
  for (std::size_t i = 0; i < static_cast<std::size_t>(tensor.size()); ++i) {
    const int low = (from[i] & ((1 << width) - 1)) << (width * static_cast<int>(i % per_byte));
    bytes[i / per_byte] = static_cast<char>(bytes[i / per_byte] | low);
  }
  return bytes;
}

Message entry(std::string_view key, std::string_view value) {
  return Message().bytes(1, key).bytes(2, value);
}

class Exporter {
 public:
  explicit Exporter(TensorStore& tensors) : tensors_(tensors) {}

  std::string model(const Graph& graph) {
    find_versions(graph);
    Message model;
    model.integer(1, kIrVersion).bytes(2, "sluice").message(7, this->graph(graph, {}));
    for (const auto& [domain, version] : versions_)
      model.message(8, Message().bytes(1, domain).integer(2, version));
    return model.text();
  }

 private:
  using Names = std::vector<std::string>;  // by value

  void find_versions(const Graph& graph) {
    versions_.try_emplace("", 17);
    std::map<std::string, int> seen;
    for (const Node& node : graph.nodes) {
      seen[node.domain] = std::max(seen[node.domain], node.version);
      for (const auto& [name, body] : node.subgraphs) find_versions(*body);
    }
    for (const auto& [domain, version] : seen) {
      int& known = versions_[domain];
      known = domain.empty() && known == 17 ? version : std::max(known, version);
    }
  }

  std::string unique(const std::string& name, ValueId id) {
    std::string made = name.empty() ? "#" + std::to_string(id) : name;
    while (!used_.insert(made).second) made += "#" + std::to_string(id);
    return made;
  }

  Message graph(const Graph& graph, const Names& outer) {
    Names names(graph.values.size());
    for (const Graph::Captured& captured : graph.captured)
      names[static_cast<std::size_t>(captured.inner)] =
          outer[static_cast<std::size_t>(captured.outer)];
    for (std::size_t i = 0; i < names.size(); ++i)
      if (names[i].empty()) names[i] = unique(graph.values[i].name, static_cast<ValueId>(i));
    Message made;
    for (const Node& node : graph.nodes) made.message(1, this->node(node, names));
    made.bytes(2, graph.name.empty() ? "graph" : graph.name);
    std::vector<bool> needed(names.size());
    const auto need = [&](ValueId id) {
      if (id != kNoValue) needed[static_cast<std::size_t>(id)] = true;
    };
    for (const Node& node : graph.nodes) {
      std::for_each(node.inputs.begin(), node.inputs.end(), need);
      for (const auto& [name, body] : node.subgraphs)
        for (const Graph::Captured& captured : body->captured) need(captured.outer);
    }
    std::for_each(graph.outputs.begin(), graph.outputs.end(), need);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (needed[i] && graph.values[i].constant)
        made.message(5, tensors_.message(names[i], graph.values[i].constant));
    add_types(graph, names, made);
    return made;
  }

  static void add_types(const Graph& graph, const Names& names, Message& made) {
    const auto info = [&](ValueId id) {
      const auto i = static_cast<std::size_t>(id);
      return Message().bytes(1, names[i]).message(2, type(graph.values[i]));
    };
    for (const ValueId id : graph.inputs) made.message(11, info(id));
    for (const ValueId id : graph.outputs) made.message(12, info(id));
    for (const Node& node : graph.nodes)
      for (const ValueId id : node.outputs)
        if (id != kNoValue && graph[id].dims &&
            std::find(graph.outputs.begin(), graph.outputs.end(), id) == graph.outputs.end())
          made.message(13, info(id));
  }

  static Message type(const Value& value) {
    Message shape, tensor;
    if (value.dims)
      for (const Dim& dim : *value.dims)
        shape.message(
            1, dim.size >= 0 ? Message().integer(1, dim.size) : Message().bytes(2, dim.symbol));
    tensor.integer(1, static_cast<int>(value.dtype));
    if (value.dims) tensor.message(2, shape);
    const Message plain = Message().message(1, tensor);
    if (value.kind == onnx::Type::Kind::sequence)
      return Message().message(4, Message().message(1, plain));
    if (value.kind == onnx::Type::Kind::optional)
      return Message().message(9, Message().message(1, plain));
    return plain;
  }

  Message node(const Node& node, const Names& names) {
    const auto name = [&](ValueId id) {
      return id == kNoValue ? std::string_view() : names[static_cast<std::size_t>(id)];
    };
    Message made;
    for (const ValueId id : node.inputs) made.bytes(1, name(id));
    for (const ValueId id : node.outputs) made.bytes(2, name(id));
    made.bytes(3, node.name).bytes(4, node.op).bytes(7, node.domain);
    for (const auto& [key, value] : node.attributes.all()) made.message(5, attribute(key, value));
    for (const auto& [key, body] : node.subgraphs)
      made.message(5, Message()
                          .bytes(1, key)
                          .integer(20, static_cast<int>(Kind::graph))
                          .message(6, graph(*body, names)));
    if (node.version != versions_[node.domain])
      made.message(5, attribute(kVersion, std::int64_t{node.version}));
    return made;
  }

  Message attribute(std::string_view name, const Attributes::Any& value) {
    Message made = Message().bytes(1, name);
    const auto kind = [&](Kind k) { made.integer(20, static_cast<int>(k)); };
    if (const auto* i = std::get_if<std::int64_t>(&value)) {
      made.integer(3, *i), kind(Kind::integer);
    } else if (const auto* f = std::get_if<float>(&value)) {
      made.real(2, *f), kind(Kind::real);
    } else if (const auto* s = std::get_if<std::string>(&value)) {
      made.bytes(4, *s), kind(Kind::string);
    } else if (const auto* t = std::get_if<Tensor>(&value)) {
      made.message(5, tensors_.message("", *t)), kind(Kind::tensor);
    } else if (const auto* list = std::get_if<Attributes::Integers>(&value)) {
      for (const std::int64_t x : *list) made.integer(8, x);
      kind(Kind::integers);
    } else if (const auto* reals = std::get_if<Attributes::Reals>(&value)) {
      for (const float x : *reals) made.real(7, x);
      kind(Kind::reals);
    } else if (const auto* strings = std::get_if<Attributes::Strings>(&value)) {
      for (const std::string& x : *strings) made.bytes(9, x);
      kind(Kind::strings);
    } else if (const auto* tensors = std::get_if<Attributes::Tensors>(&value)) {
      for (const Tensor& x : *tensors) made.message(10, tensors_.message("", x));
      kind(Kind::tensors);
    } else {
      throw Error(Code::unavailable, "attribute '" + std::string(name) +
                                         "' holds a type or a sparse tensor, which is not written");
    }
    return made;
  }

  TensorStore& tensors_;
  std::map<std::string, int> versions_;  // by domain
  std::set<std::string> used_;
};

}  // namespace

onnx::Message TensorStore::message(std::string_view name, const Tensor& tensor) {
  Message made;
  for (const std::int64_t dim : tensor.shape()) made.integer(1, dim);
  made.integer(2, static_cast<int>(tensor.dtype())).bytes(8, name);
  if (tensor.dtype() == DType::string) {
    for (const std::string& text : tensor.values<std::string>()) made.bytes(6, text);
    return made;
  }
  if (bits(tensor.dtype()) < 8) return made.bytes(9, packed(tensor));
  if (tensor.bytes() < min_bytes_)
    return made.bytes(9, {static_cast<const char*>(tensor.data()), tensor.bytes()});
  const auto [found, added] = known_.try_emplace({tensor.data(), tensor.bytes()}, entries_.size());
  if (added) {
    entries_.push_back({bytes_, tensor});
    bytes_ = memory::round_up(bytes_ + tensor.bytes(), kAlignment);
  }
  const Entry& kept = entries_[found->second];
  made.message(13, entry("location", location_))
      .message(13, entry("offset", std::to_string(kept.offset)))
      .message(13, entry("length", std::to_string(tensor.bytes())));
  return made.integer(14, 1);
}

std::string export_onnx(const Graph& graph, TensorStore& tensors) {
  return Exporter(tensors).model(graph);
}

void write_tensors(const TensorStore& tensors, const std::function<void(std::string_view)>& write) {
  std::uint64_t at = 0;
  for (const TensorStore::Entry& entry : tensors.entries()) {
    write(std::string(entry.offset - at, '\0'));
    write({static_cast<const char*>(entry.tensor.data()), entry.tensor.bytes()});
    at = entry.offset + entry.tensor.bytes();
  }
}

void write_onnx(const Graph& graph, const std::filesystem::path& file) {
  const std::filesystem::path beside = file.string() + ".data";
  TensorStore within("", std::numeric_limits<std::size_t>::max());
  TensorStore outside(beside.filename().string());
  std::size_t bytes = 0;
  for (const Value& value : graph.values) bytes += value.constant.bytes();
  const bool split = bytes > kMaxInlineBytes;
  const std::string model = export_onnx(graph, split ? outside : within);
  if (split) {
    NewFile data(beside);
    write_tensors(outside, [&](std::string_view part) { data.write(part); });
    data.keep();
  }
  NewFile written(file);
  written.write(model);
  written.keep();
}

void restore_versions(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (!node.attributes.has(kVersion)) continue;
    node.version = static_cast<int>(node.attributes.integer(kVersion));
    node.attributes.erase(kVersion);
  }
}

}  // namespace sluice::engine
