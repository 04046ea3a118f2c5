// The contents of an ONNX file. Only the format is checked here; engine/ builds the graph. Views
// point into the file, which `keep` owns.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace sluice::onnx {

struct Graph;

// The type of a value: an element type with dimensions, or a sequence or an optional of one.
struct Type {
  enum class Kind { tensor, sparse_tensor, sequence, optional, map, opaque } kind = Kind::tensor;
  DType element = DType::none;
  struct Dim {
    std::int64_t size = -1;   // -1: not fixed
    std::string_view symbol;  // symbolic name, if any
  };
  std::optional<std::vector<Dim>> dims{};  // none: any rank
  std::shared_ptr<Type> of{};              // element type of a sequence or an optional
};

struct ValueInfo {
  std::string_view name;
  std::optional<Type> type;
};

struct SparseTensor {
  std::string_view name;
  Tensor values, indices;
  std::vector<std::int64_t> dims;
};

struct Attribute {
  // Numbered as in the format.
  enum class Kind {
    none = 0,
    real,
    integer,
    string,
    tensor,
    graph,
    reals,
    integers,
    strings,
    tensors,
    graphs,
    sparse_tensor,
    sparse_tensors,
    type,
    types
  } kind = Kind::none;
  std::string_view name;
  std::string_view refers_to;  // ref_attr_name, inside a function
  float real = 0;
  std::int64_t integer = 0;
  std::string_view string;
  Tensor tensor;
  std::shared_ptr<Graph> graph;
  std::vector<float> reals;
  std::vector<std::int64_t> integers;
  std::vector<std::string_view> strings;
  std::vector<Tensor> tensors;
  std::vector<std::shared_ptr<Graph>> graphs;
  std::shared_ptr<SparseTensor> sparse;
  std::optional<Type> type;
};

struct Node {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs;  // empty: omitted
  std::vector<Attribute> attributes;
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<ValueInfo> inputs, outputs, values;
  std::map<std::string_view, Tensor> initializers;
  std::vector<SparseTensor> sparse_initializers;
};

using Opsets =
    std::map<std::string_view, std::int64_t>;  // version by domain; "" is the ONNX domain

struct Function {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<std::string_view> attributes;  // without a default
  std::vector<Attribute> defaults;
  std::vector<Node> nodes;
  Opsets opsets;
};

struct Model {
  std::int64_t ir_version = 0;
  std::string_view producer, producer_version;
  Opsets opsets;
  Graph graph;
  std::vector<Function> functions;
  std::shared_ptr<const void> keep;
};

// Reads a file and its external data files, which must be inside its folder. Files are mapped, so
// weights take no memory before they are used. Throws not_found, or invalid_argument with reason
// and location.
Model read(const std::filesystem::path& file);

// The same from memory. `folder`: the folder of external data; empty rejects it. `own`: the bytes
// of external data at the location kOwnData.
inline constexpr std::string_view kOwnData = "@";
Model parse(std::string_view bytes, std::shared_ptr<const void> keep,
            const std::filesystem::path& folder, std::string_view own = {});

// Parses a TensorProto. External data is in `own`.
Tensor parse_tensor(std::string_view bytes, std::shared_ptr<const void> keep, std::string_view own);

// A value of a test data file: TensorProto, SequenceProto or OptionalProto.
struct Value {
  Type::Kind kind = Type::Kind::tensor;
  Tensor tensor{};              // for a tensor, or an optional with one
  std::vector<Tensor> items{};  // for a sequence
  bool present = true;          // for an optional
};
Value parse_value(std::string_view bytes, const Type& type, std::shared_ptr<const void> keep);
Value read_value(const std::filesystem::path& file, const Type& type);

}  // namespace sluice::onnx
