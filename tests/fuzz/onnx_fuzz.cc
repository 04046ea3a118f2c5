// Any bytes as an ONNX model: a graph that can be made ready and run on small inputs, or an
// Error that says something. Never a crash, nor memory on a file's word.
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "engine/session.h"

namespace {

using namespace sluice;

constexpr std::int64_t kMostElements = 4096;  // of an input: the rest is the model's own doing

std::vector<engine::Datum> inputs_for(const engine::Graph& graph) {
  std::vector<engine::Datum> inputs;
  for (const engine::ValueId id : graph.inputs) {
    const engine::Value& value = graph[id];
    Shape shape;
    for (const engine::Dim& dim : value.dims.value_or(std::vector<engine::Dim>{}))
      shape.push_back(dim.size >= 0 ? dim.size : 2);
    require(checked_size(shape.dims()) <= kMostElements, "an input too large to try");
    const DType dtype = value.dtype == DType::none ? DType::f32 : value.dtype;
    const Tensor tensor(dtype, shape);
    if (dtype != DType::string) std::memset(tensor.data(), 1, tensor.bytes());
    inputs.push_back(tensor);
  }
  return inputs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static compute::Workers workers(1);
  const auto keep = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  try {
    const engine::Session session(engine::import_onnx(onnx::parse(*keep, keep, {})), workers,
                                  {.memory = std::size_t{64} << 20});
    session.run(inputs_for(session.graph()));
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
