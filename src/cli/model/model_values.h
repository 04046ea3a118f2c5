// Inputs and outputs of models as .npy files, and summaries of tensors.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "engine/precision/sample_inputs.h"

namespace sluice::cli {

// One tensor for each input of the graph, from arguments like "input_ids=ids.npy" or, in the
// order of the inputs, "ids.npy". Throws invalid_argument, listing what the model takes, where
// one is missing, given twice, or of another type or shape.
std::vector<Tensor> read_inputs(const engine::Graph& graph, const std::vector<std::string>& given);

// Writes results: each of `wanted` is "NAME=file.npy" or a folder, which takes all of them.
// The files' names, one for each result, empty where it was not written.
std::vector<std::string> write_outputs(const engine::Graph& graph,
                                       const std::vector<Tensor>& results,
                                       const std::vector<std::string>& wanted);

struct Summary {
  double min, max, mean;
  std::size_t not_numbers;  // NaN; not among the others
};
// Summarizes elements that are numbers or booleans; throws unavailable for others.
Summary summarize(const Tensor& tensor);

// "f32[1, 128, 768]".
std::string type_text(DType dtype, const Shape& shape);
Json shape_json(const Shape& shape);

}  // namespace sluice::cli
