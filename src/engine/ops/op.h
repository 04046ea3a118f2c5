// An operator on the CPU: a function over tensors, for given opset versions and element types.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "compute/workers.h"
#include "engine/graph/graph.h"

namespace sluice::engine {

// A growing list of tensors. The list itself is accounted as tensor memory, because a loop may
// collect many empty or shared tensors.
class TensorList {
 public:
  void add(Tensor tensor);
  const std::vector<Tensor>& all() const noexcept { return all_; }

 private:
  std::vector<Tensor> all_;
  Tensor reservation_;  // accounts for the memory of the list
};

// A value at run time.
struct Datum {
  enum class Kind {
    none,
    tensor,
    sequence
  } kind = Kind::none;  // none: omitted, or an empty optional
  Tensor tensor;
  std::shared_ptr<const std::vector<Tensor>> items;

  Datum() = default;
  Datum(Tensor t) : kind(Kind::tensor), tensor(std::move(t)) {}
  Datum(TensorList list);
  Datum(const std::vector<Tensor>& list);
  explicit operator bool() const noexcept { return kind != Kind::none; }
};

// Runs a subgraph of a node (If, Loop, Scan) with the values it captured.
class SubgraphRunner {
 public:
  virtual std::vector<Datum> run(const Graph& body, std::span<const Datum> inputs) = 0;

 protected:
  ~SubgraphRunner() = default;
};

// Receives the outputs of a call, instead of new tensors.
class OutputSink {
 public:
  virtual Tensor allocate(std::size_t i, DType dtype, const Shape& shape) = 0;
  virtual void set(std::size_t i, const Datum& value) = 0;
  // The type of output i, before it is computed: enough for shape inference.
  virtual void declare(std::size_t /*i*/, DType /*dtype*/, const Shape& /*shape*/) {}

 protected:
  ~OutputSink() = default;
};

// One run of one node.
class OpCall {
 public:
  OpCall(const Node& of, std::span<const Datum> inputs, std::span<Datum> outputs,
         compute::Workers& on, SubgraphRunner& subgraphs)
      : node(of), workers(on), inputs_(inputs), outputs_(outputs), subgraphs_(&subgraphs) {}
  // For a node without subgraphs.
  OpCall(const Node& of, std::span<const Datum> inputs, OutputSink& sink, compute::Workers& on)
      : node(of), workers(on), inputs_(inputs), sink_(&sink) {}

  const Node& node;
  compute::Workers& workers;

  const Attributes& attributes() const noexcept { return node.attributes; }
  int version() const noexcept { return node.version; }

  std::size_t inputs() const noexcept { return inputs_.size(); }
  bool has(std::size_t i) const noexcept { return i < inputs_.size() && inputs_[i]; }
  const Tensor& input(std::size_t i) const;  // throws if it is omitted or not a tensor
  Tensor input_or_none(std::size_t i) const { return has(i) ? input(i) : Tensor(); }
  const std::vector<Tensor>& sequence(std::size_t i) const;
  const Datum& datum(std::size_t i) const;
  // The elements of an i64 or i32 tensor.
  std::vector<std::int64_t> integers(std::size_t i) const;

  std::size_t outputs() const noexcept { return node.outputs.size(); }
  bool wants(std::size_t i) const noexcept {
    return i < node.outputs.size() && node.outputs[i] != kNoValue;
  }
  // Allocates output i, which is kept until the call ends. Writing to an unused output is allowed.
  Tensor output(std::size_t i, DType dtype, const Shape& shape);
  void set_output(std::size_t i, Datum value);
  // Declares the type of an output before computing it with set_output: see OutputSink.
  void declare_output(std::size_t i, DType dtype, const Shape& shape) {
    if (sink_ != nullptr && wants(i)) sink_->declare(i, dtype, shape);
  }

  std::vector<Datum> run_subgraph(const Graph& body, std::span<const Datum> with) {
    return subgraphs_->run(body, with);
  }

 private:
  std::span<const Datum> inputs_;
  std::span<Datum> outputs_{};
  SubgraphRunner* subgraphs_ = nullptr;
  OutputSink* sink_ = nullptr;
  std::vector<Tensor> made_;  // operators write through pointers into them
};

// A set of element types.
class Types {
 public:
  constexpr Types() = default;
  constexpr Types(std::initializer_list<DType> types) {
    for (const DType type : types) bits_ |= 1u << static_cast<int>(type);
  }
  constexpr bool has(DType type) const { return (bits_ >> static_cast<int>(type) & 1u) != 0; }
  constexpr Types operator|(Types other) const {
    Types both;
    both.bits_ = bits_ | other.bits_;
    return both;
  }

 private:
  std::uint32_t bits_ = 0;
};

inline constexpr Types kReals{DType::f32, DType::f64, DType::f16, DType::bf16};
inline constexpr Types kIntegers{DType::i8, DType::i16, DType::i32, DType::i64,
                                 DType::u8, DType::u16, DType::u32, DType::u64};
inline constexpr Types kNumbers = kReals | kIntegers;
inline constexpr Types kLowPrecision{
    DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::u4,
    DType::i4,       DType::f4e2m1,     DType::f8e8m0, DType::u2,         DType::i2};
inline constexpr Types kAnyType =
    kNumbers | kLowPrecision | Types{DType::boolean, DType::string, DType::c64, DType::c128};

struct Op {
  std::string_view name;
  int since;    // the first opset version; valid until the next entry of this operator
  Types types;  // of the first tensor input; ignored if there is none
  void (*run)(OpCall&);
  std::string_view domain = "";
};

// The operator of a node, or null.
const Op* find_op(const Node& node);

// As find_op, but throws unavailable with node, operator and opset if there is none.
const Op& op_of(const Node& node);

// Throws unavailable if `op` does not support the type of the first tensor in `inputs`.
void check_type(const Op& op, std::span<const Datum> inputs);

// All operators, sorted by domain, name and version.
std::vector<const Op*> all_ops();

// Calls body.operator()<T>() with the C++ type of `type`; throws unavailable with the type if it is
// not one of Ts.
[[noreturn]] void unsupported_type(DType type);

template <class... Ts, class Body>
void visit_types(DType type, Body&& body) {
  const bool known =
      ((type == kDTypeOf<Ts> ? (body.template operator()<Ts>(), true) : false) || ...);
  if (!known) unsupported_type(type);
}

template <class Body>
void visit_reals(DType type, Body&& body) {
  visit_types<float, double, Half, BFloat16>(type, std::forward<Body>(body));
}
template <class Body>
void visit_numbers(DType type, Body&& body) {
  visit_types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>(type,
                                                                         std::forward<Body>(body));
}
// By element width only, for data movement; strings too.
template <class Body>
void visit_widths(DType type, Body&& body) {
  struct Pair {
    std::uint64_t a, b;
  };
  if (type == DType::string) return body.template operator()<std::string>();
  switch (bytes(type)) {
    case 1: return body.template operator()<std::uint8_t>();
    case 2: return body.template operator()<std::uint16_t>();
    case 4: return body.template operator()<std::uint32_t>();
    case 8: return body.template operator()<std::uint64_t>();
    case 16: return body.template operator()<Pair>();
    default: unsupported_type(type);
  }
}
// The elements as type T.
template <class T>
std::span<T> as(const Tensor& tensor) {
  return {static_cast<T*>(tensor.data()), static_cast<std::size_t>(tensor.size())};
}

// The compute type of T: float for narrow floats, T itself otherwise.
template <class T>
using Wide = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

}  // namespace sluice::engine
