#include "cli/model/plan_footprint.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "engine/exec/schedule.h"
#include "tensor/byte_size.h"

namespace sluice::cli {

namespace {

using broker::Footprint;
using engine::Graph;
using engine::Node;
using engine::ValueId;

constexpr std::uint64_t kCudaContextBytes = 600ull
                                            << 20;  // its context and cuBLASLt's and cuDNN's code

std::uint64_t bytes_of(const engine::Value& value) {
  if (value.constant) return value.constant.bytes();
  Shape shape;
  for (const auto& dim : value.dims.value_or(std::vector<engine::Dim>{}))
    shape.push_back(std::max<std::int64_t>(dim.size, 0));
  return byte_size(shape, value.dtype);
}

// Values that lie in the same memory have the same root.
std::vector<ValueId> roots_of(const Graph& graph) {
  std::vector<ValueId> roots(graph.values.size());
  for (std::size_t i = 0; i < roots.size(); ++i) roots[i] = static_cast<ValueId>(i);
  for (const Node& node : graph.nodes)
    if (engine::is_view(node) && !node.inputs.empty() && node.inputs[0] >= 0)
      for (const auto id : node.outputs)
        if (id >= 0)
          roots[static_cast<std::size_t>(id)] = roots[static_cast<std::size_t>(node.inputs[0])];
  return roots;
}

// The maximum of bytes that are alive at once: from the node that makes them to the last that reads
// them. Inputs and outputs are there throughout.
std::uint64_t peak_live_bytes(const Graph& graph) {
  const auto roots = roots_of(graph);
  const auto root = [&](ValueId id) {
    return static_cast<std::size_t>(roots[static_cast<std::size_t>(id)]);
  };
  const std::size_t end = graph.nodes.size();
  std::vector<std::size_t> last(graph.values.size(), 0), first(graph.values.size(), end);
  for (std::size_t i = 0; i < end; ++i) {
    for (const auto id : graph.nodes[i].inputs)
      if (id >= 0) last[root(id)] = i;
    for (const auto id : graph.nodes[i].outputs)
      if (id >= 0)
        first[root(id)] = std::min(first[root(id)], i),
        last[root(id)] = std::max(last[root(id)], i);
  }
  for (const auto* ids : {&graph.inputs, &graph.outputs})
    for (const auto id : *ids) first[root(id)] = 0, last[root(id)] = end;
  std::vector<std::int64_t> change(end + 2, 0);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (first[i] > last[i] || graph.values[i].constant || root(static_cast<ValueId>(i)) != i)
      continue;
    change[first[i]] += static_cast<std::int64_t>(bytes_of(graph.values[i]));
    change[last[i] + 1] -= static_cast<std::int64_t>(bytes_of(graph.values[i]));
  }
  std::int64_t now = 0, peak = 0;
  for (const auto by : change) peak = std::max(peak, now += by);
  return static_cast<std::uint64_t>(peak);
}

std::uint64_t weights_of(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const auto& value : graph.values)
    if (value.constant) bytes += value.constant.bytes();
  return bytes;
}

std::int64_t batch_of(const Graph& graph) {
  if (graph.inputs.empty()) return 1;
  const auto& dims = graph[graph.inputs.front()].dims;
  return !dims || dims->empty() ? 1 : std::max<std::int64_t>(1, dims->front().size);
}

}  // namespace

std::optional<broker::FootprintFit> footprint_of(const engine::Plan& plan) {
  const std::uint64_t cuda = plan.key.software.empty() ? 0 : kCudaContextBytes;
  std::map<std::int64_t, std::uint64_t> by_batch;  // the maximum over shapes of the same batch
  std::uint64_t fixed = 0;
  for (const Graph& graph : plan.shapes) {
    fixed = std::max(fixed, cuda + weights_of(graph));
    auto& peak = by_batch[batch_of(graph)];
    peak = std::max(peak, cuda + weights_of(graph) + peak_live_bytes(graph));
  }
  std::vector<Footprint> runs;
  for (const auto& [batch, bytes] : by_batch) runs.push_back({batch, bytes});
  if (const auto fitted = broker::fit(runs)) return fitted;
  if (runs.empty() || runs.back().bytes <= fixed) return std::nullopt;
  const auto& largest = runs.back();
  return broker::FootprintFit{
      static_cast<double>(fixed),
      static_cast<double>(largest.bytes - fixed) / static_cast<double>(largest.batch_size)};
}

std::map<std::string, broker::FootprintFit> plan_footprints(
    const std::map<std::string, std::string>& files) {
  std::map<std::string, broker::FootprintFit> needs;
  if (files.empty()) return needs;
  compute::Workers workers(1);
  const auto add = [&](const std::string& name, const std::string& file) {
    const auto fitted = footprint_of(engine::read_plan(file, workers));
    require(fitted.has_value(), "no shapes are compiled in it");
    needs.emplace(name, *fitted);
  };
  for (const auto& [name, file] : files) {
    try {
      add(name, file);
    } catch (const Error& e) {
      log::warn("broker.plans: {} of {} is not used: {}", file, name, e.reason());
    }
  }
  return needs;
}

}  // namespace sluice::cli
