// One operator on random inputs, on the GPU and on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/exec/cuda/context/backend.h"
#include "engine/ops/op.h"

namespace sluice::engine::cuda {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }
  bool coin() { return between(0, 1) == 1; }
  Shape shape(int least, int most, std::int64_t largest = 9);
  // Numbers of any type between two.
  Tensor numbers(DType type, const Shape& shape, double low = -2, double high = 2);
  static Tensor integers(const std::vector<std::int64_t>& values) {
    return Tensor::of(std::span<const std::int64_t>(values));
  }

 private:
  std::mt19937 engine_;
};

inline Tensor tensor_of_floats(const std::vector<float>& values) {
  return Tensor::of(std::span<const float>(values));
}

struct OpCase {
  Node node;
  std::vector<Tensor> inputs;   // none: left out
  std::uint32_t constants = 0;  // those that the graph knows, a bit each
  int outputs = 1;
  double times = 1;  // how much more error than one operation makes is allowed

  OpCase(std::string op, int version, std::vector<Tensor> with, std::string domain = "")
      : node{.name = "", .op = std::move(op), .domain = std::move(domain), .version = version},
        inputs(std::move(with)) {}
  OpCase& set(std::string_view name, Attributes::Any value) {
    node.attributes.set(name, std::move(value));
    return *this;
  }
  OpCase& known(std::uint32_t bits) {
    constants = bits;
    return *this;
  }
  OpCase& gives(int count) {
    outputs = count;
    return *this;
  }
  OpCase& allows(double more) {
    times = more;
    return *this;
  }
};

// One operator: cases of these types.
struct OpRow {
  std::string name;
  std::vector<DType> types;
  OpCase (*make)(Random& random, DType type);
};

inline const std::vector<DType> kRealTypes{DType::f32, DType::f16, DType::bf16};
inline const std::vector<DType> kNumberTypes{DType::f32, DType::f16, DType::bf16, DType::i32,
                                             DType::i64};
inline const std::vector<DType> kMovedTypes{DType::f32, DType::f16, DType::i64, DType::u8};

std::vector<Tensor> on_cpu(const OpCase& what);
// Fails the test, and gives nothing, where there is no kernel.
std::vector<Tensor> on_gpu(OpCase what, const std::vector<Tensor>& like, Context& context);

// The largest difference, in units of what one rounding of the type makes.
double worst_error(const Tensor& got, const Tensor& want);

// All cases of a row; prints the worst.
void check(const OpRow& row, Context& context);

Context& test_context();

}  // namespace sluice::engine::cuda
