// Inputs for a model nobody has given any: shapes from what it declares, and numbers it can
// compute with.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/tensor_type.h"

namespace sluice::engine {

// "i64[batch, sequence]"; "?" stands for what is not declared.
std::string declared(const Value& value);
// One line for each input: "  input_ids  i64[batch, sequence]\n".
std::string list_inputs(const Graph& graph);

// Sizes that the user gives for what a model leaves open.
class Sizes {
 public:
  // "input_ids=1x128" for an input, "sequence=128" for a symbol. Throws invalid_argument.
  void add(std::string_view text);
  // The first dimension of every input.
  void set_batch(std::int64_t size) { batch_ = size; }

  // One type for each input; what is left open is 1. Throws invalid_argument, listing what
  // the inputs are, where a name is none of them or a size is not what the model declares.
  std::vector<TensorType> types(const Graph& graph) const;

 private:
  std::map<std::string, std::vector<std::int64_t>, std::less<>> given_;
  std::int64_t batch_ = 0;
};

// Floats around 0; integers that are rows of the tables they look up, and 1 elsewhere, so
// that masks let everything through. The same for the same seed. Throws unavailable for an
// input that is no tensor of numbers, texts or booleans.
std::vector<Tensor> random_inputs(const Graph& graph, std::span<const TensorType> types,
                                  std::uint64_t seed = 1);

}  // namespace sluice::engine
