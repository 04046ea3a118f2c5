// One operator on random inputs, on the GPU and on the CPU.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "engine/exec/cuda/case_name_for_tests.h"
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
  Shape shape(int min_rank, int max_rank, std::int64_t max_size = 9);
  // Random numbers in [low, high], of any type.
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
  std::vector<Tensor> inputs;   // empty: omitted
  std::uint32_t constants = 0;  // bit mask of the inputs that are constants
  int outputs = 1;
  double times = 1;  // allowed error, as a multiple of one operation's

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

// The cases of one operator, for these types.
struct OpRow {
  std::string name;
  std::vector<DType> types;
  OpCase (*make)(Random& random, DType type);
};

inline std::ostream& operator<<(std::ostream& to, const OpRow& row) { return to << row.name; }
inline std::string name_of_row(const testing::TestParamInfo<OpRow>& row) {
  return case_name(row.param.name);
}

inline const std::vector<DType> kRealTypes{DType::f32, DType::f16, DType::bf16};
inline const std::vector<DType> kNumberTypes{DType::f32, DType::f16, DType::bf16, DType::i32,
                                             DType::i64};
inline const std::vector<DType> kMovedTypes{DType::f32, DType::f16, DType::i64, DType::u8};

std::vector<Tensor> on_cpu(const OpCase& what);
// Fails the test and returns nothing if there is no kernel.
std::vector<Tensor> on_gpu(OpCase what, const std::vector<Tensor>& like, Context& context);

// The largest error, in units of the type's rounding error.
double worst_error(const Tensor& got, const Tensor& want);

// Runs all cases of a row and prints the worst error.
void check(const OpRow& row, Context& context);

Context& test_context();

}  // namespace sluice::engine::cuda
