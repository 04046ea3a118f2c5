// Matrix products by cuBLASLt, with the way that measured best.
#pragma once

#include <optional>

#include "engine/exec/cuda/context/backend.h"

namespace sluice::engine::cuda {

// d = after(alpha * a * b + beta * c + bias), row by row in memory; `batch` of them. c may be d.
struct Product {
  // Of a, b, c, d and bias; of i8 the result is i32, and of f8e4m3fn f32.
  DType dtype = DType::none;
  std::int64_t m = 0, n = 0, k = 0;                 // a is m x k, b is k x n
  bool transposed_a = false, transposed_b = false;  // lies as k x m, as n x k
  std::int64_t batch = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_d = 0;  // elements from one to the next; c as d
  float alpha = 1, beta = 0;
  bool bias = false;  // n numbers, added to each row
  enum class After { nothing, relu, gelu_tanh } after = After::nothing;
  std::size_t alignment = 256;  // of addresses, bytes
};

// Thread-safe.
class ProductPlan {
 public:
  // Throws unavailable where cuBLASLt is not here or has no way to do it.
  ProductPlan(Context& context, const Product& product);
  ~ProductPlan();
  ProductPlan(const ProductPlan&) = delete;
  ProductPlan& operator=(const ProductPlan&) = delete;

  std::size_t scratch() const noexcept;

  struct Places {
    const void *a, *b, *c, *bias;  // c and bias null where there are none
    void *d, *scratch;
  };
  void run(const Places& at, CUstream_st* stream) const;

  // How long it takes on numbers that are made up; 0 where nothing is measured.
  double us() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// "13.1.0", or empty where the library is not here.
std::string cublaslt_version(Context& context);

// Where it may be asked for on `context`: null where the library is not here.
std::unique_ptr<ProductPlan> plan_product(Context& context, const Product& product);

}  // namespace sluice::engine::cuda
