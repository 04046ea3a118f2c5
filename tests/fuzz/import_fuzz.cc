// Any bytes as an ONNX model, imported alone: a graph, or an Error that says something. Tries far
// more files than onnx_fuzz.cc, which runs them too.
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "formats/onnx/external_files.h"
#include "small_for_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const TensorMemory limit(limited_memory(fuzz::kMemory));
  const auto keep = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  (void)onnx::external_locations(*keep);
  try {
    const engine::Graph graph = engine::import_onnx(onnx::parse(*keep, keep, {}));
    const auto known = [&](engine::ValueId id) {
      return id == engine::kNoValue || (id >= 0 && std::cmp_less(id, graph.values.size()));
    };
    for (const engine::Node& node : graph.nodes)
      if (!std::ranges::all_of(node.inputs, known) || !std::ranges::all_of(node.outputs, known))
        std::abort();
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
