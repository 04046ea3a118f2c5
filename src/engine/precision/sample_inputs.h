// Sample inputs for a model: shapes from its declaration and valid random values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// "i64[batch, sequence]"; "?" stands for an undeclared dimension.
std::string declared(const Value& value);
// One line for each input: "  input_ids  i64[batch, sequence]\n".
std::string list_inputs(const Graph& graph);

// Sizes that the user gives for dynamic dimensions.
class Sizes {
 public:
  // "input_ids=1x128" for an input, "sequence=128" for a symbol. Throws invalid_argument.
  void add(std::string_view text);
  // The first dimension of every input.
  void set_batch(std::int64_t size) { batch_ = size; }

  // One type for each input; dynamic dimensions default to 1. Throws invalid_argument, with a list
  // of the inputs, if a name is unknown or a size contradicts the model's declaration.
  std::vector<TensorType> types(const Graph& graph) const;

 private:
  std::map<std::string, std::vector<std::int64_t>, std::less<>> given_;
  std::int64_t batch_ = 0;
};

// Normally distributed floats; integers are valid indices of the tables that they index, and 1
// elsewhere, so that masks keep everything. Deterministic for a seed. Throws unavailable for an
// input that is not a tensor of numbers, strings or booleans.
std::vector<Tensor> random_inputs(const Graph& graph, std::span<const TensorType> types,
                                  std::uint64_t seed = 1);

}  // namespace sluice::engine
