// Any bytes as an ONNX model: a graph that can be made ready and run on small inputs, or an
// Error that says something. Never a crash, nor memory on a file's word.
#include <cstdlib>

#include "base/error.h"
#include "small_for_fuzz.h"

namespace {

using namespace sluice;

std::vector<engine::Datum> inputs_for(const engine::Graph& graph) {
  std::vector<engine::Datum> inputs;
  for (const engine::ValueId id : graph.inputs) {
    const engine::Value& value = graph[id];
    Shape shape;
    for (const engine::Dim& dim : value.dims.value_or(std::vector<engine::Dim>{}))
      shape.push_back(dim.size >= 0 ? dim.size : 2);
    inputs.push_back(fuzz::ones(value.dtype == DType::none ? DType::f32 : value.dtype, shape));
  }
  return inputs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static compute::Workers workers(1);
  const TensorMemory limit(limited_memory(fuzz::kMemory));
  const auto keep = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  try {
    const engine::Session session(engine::import_onnx(onnx::parse(*keep, keep, {})), workers,
                                  fuzz::small_session());
    session.run(inputs_for(session.graph()));
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
