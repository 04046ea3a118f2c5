#include "cli/memory/memory_engine.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "engine/open.h"
#include "engine/precision/sample_inputs.h"
#include "memory/trace/trace_record.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

// Tensors keep it for as long as they live.
struct Recording {
  std::shared_ptr<memory::Allocator> system =
      limited_memory(std::numeric_limits<std::size_t>::max());
  memory::RecordingAllocator allocator{*system};
};

std::vector<std::vector<engine::Datum>> inputs_in_turn(const engine::Graph& graph,
                                                       const EngineRuns& runs) {
  std::vector<std::vector<engine::Datum>> all;
  for (const auto batch : runs.batches) {
    engine::Sizes sizes;
    for (const auto& shape : runs.shapes) sizes.add(shape);
    if (batch > 1) sizes.set_batch(batch);
    const auto tensors = engine::random_inputs(graph, sizes.types(graph));
    all.emplace_back(tensors.begin(), tensors.end());
  }
  return all;
}

void run_recorded(const std::string& model, const EngineRuns& runs,
                  const std::shared_ptr<memory::Allocator>& recorded) {
  compute::Workers workers(0);
  engine::OpenOptions options{.version = SLUICE_VERSION};
  options.session.compile = !runs.node_by_node;
  std::optional<TensorMemory> recording(std::in_place, recorded);
  const auto opened = engine::open_model(model, workers, options);
  recording.reset();  // the inputs are the caller's
  const auto inputs = inputs_in_turn(opened.session->graph(), runs);
  recording.emplace(recorded);
  for (int round = 0; round < runs.rounds; ++round)
    for (const auto& one : inputs) opened.session->run(one);
}

}  // namespace

bool is_model(const std::string& path) {
  const auto ending = fs::path(path).extension();
  return ending == ".onnx" || ending == ".plan" || fs::exists(fs::path(path) / "config.json");
}

memory::Trace record_engine(const std::string& model, const EngineRuns& runs,
                            memory::TraceHeader header) {
  const auto recording = std::make_shared<Recording>();
  run_recorded(model, runs, {recording, &recording->allocator});
  require(!recording->allocator.truncated(), "more is allocated than a trace holds; run it less");
  auto trace = recording->allocator.finish(std::move(header));
  require(!trace.events.empty(), "the engine allocates nothing for " + model);
  return trace;
}

}  // namespace sluice::cli
