#include "engine/exec/schedule.h"

#include <algorithm>

#include "base/error.h"
#include "engine/exec/kernel.h"
#include "engine/exec/memory_planner.h"

namespace sluice::engine {
namespace {

class Scheduler {
 public:
  Scheduler(const Graph& graph, std::span<const std::unique_ptr<Kernel>> kernels)
      : graph_(graph),
        kernels_(kernels),
        root_(graph.values.size()),
        locations_(graph.values.size()) {
    for (std::size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<ValueId>(i);
  }

  Schedule run(std::size_t alignment) {
    find_roots();
    locate_io();
    find_lifetimes();
    share_in_place();
    return lay_out(alignment);
  }

 private:
  ValueId root(ValueId id) const { return root_[index_of(id)]; }

  void find_roots() {
    for (const Node& node : graph_.nodes)
      if (is_view(node)) root_[index_of(node.outputs[0])] = root(node.inputs[0]);
  }

  // Constants, inputs and outputs lie outside the arena.
  void locate_io() {
    for (std::size_t i = 0; i < graph_.values.size(); ++i)
      if (graph_.values[i].constant) locations_[i] = {ValueLocation::Kind::constant, i};
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      locations_[index_of(graph_.inputs[i])] = {ValueLocation::Kind::input, i};
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      ValueLocation& location = locations_[index_of(root(graph_.outputs[i]))];
      if (location.kind == ValueLocation::Kind::none)
        location = {ValueLocation::Kind::output, i};
      else
        made_.copies.push_back({location, i});
    }
  }

  void find_lifetimes() {
    block_of_.assign(graph_.values.size(), -1);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const Node& node = graph_.nodes[i];
      if (is_view(node)) continue;
      const int now = static_cast<int>(i);
      for (const ValueId id : node.outputs) {
        if (id == kNoValue || locations_[index_of(id)].kind != ValueLocation::Kind::none) continue;
        block_of_[index_of(id)] = static_cast<int>(blocks_.size());
        blocks_.push_back({type_of(graph_[id]).bytes(), now, now});
      }
      for (const ValueId id : node.inputs)
        if (id != kNoValue && block_of_[index_of(root(id))] >= 0)
          blocks_[index_of(block_of_[index_of(root(id))])].last = now;
    }
  }

  // A block whose last use is a step that can run in place becomes that step's output block.
  void share_in_place() {
    into_.resize(blocks_.size());
    for (std::size_t i = 0; i < into_.size(); ++i) into_[i] = static_cast<int>(i);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!kernels_[i] || kernels_[i]->in_place() < 0) continue;
      const Node& node = graph_.nodes[i];
      const int from = block_of_[index_of(root(node.inputs[index_of(kernels_[i]->in_place())]))];
      const int to = node.outputs[0] == kNoValue ? -1 : block_of_[index_of(node.outputs[0])];
      if (from < 0 || to < 0 || used_twice(node)) continue;
      Block& before = blocks_[index_of(into_[index_of(from)])];
      if (before.last != static_cast<int>(i) || before.bytes < blocks_[index_of(to)].bytes)
        continue;
      before.last = blocks_[index_of(to)].last;
      into_[index_of(to)] = into_[index_of(from)];
    }
  }

  bool used_twice(const Node& node) const {
    const auto shared = [&](ValueId a, ValueId b) {
      return a != kNoValue && b != kNoValue && root(a) == root(b);
    };
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      for (std::size_t k = 0; k < i; ++k)
        if (shared(node.inputs[i], node.inputs[k])) return true;
    return false;
  }

  Schedule lay_out(std::size_t alignment) {
    std::vector<Block> placed;
    std::vector<std::size_t> index(blocks_.size());
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      made_.unshared += blocks_[i].bytes;
      if (into_[i] != static_cast<int>(i)) continue;
      index[i] = placed.size();
      placed.push_back(blocks_[i]);
    }
    const std::size_t values = placed.size();
    for (std::size_t i = 0; i < kernels_.size(); ++i)
      if (kernels_[i])
        placed.push_back({kernels_[i]->scratch(), static_cast<int>(i), static_cast<int>(i)});
    check_sum(placed, alignment);
    const ArenaLayout placement = plan_memory(placed, alignment);
    for (std::size_t id = 0; id < block_of_.size(); ++id)
      if (block_of_[id] >= 0)
        locations_[id] = {ValueLocation::Kind::arena,
                          placement.offsets[index[index_of(into_[index_of(block_of_[id])])]]};
    made_.arena = placement.bytes;
    made_.peak_live = placement.peak_live;
    add_steps(std::span(placement.offsets).subspan(values));
    return std::move(made_);
  }

  // Offsets that overflow would lie in an arena that is too small.
  static void check_sum(std::span<const Block> blocks, std::size_t alignment) {
    constexpr std::size_t kMaxArena = std::size_t{1} << 60;
    std::size_t sum = 0;
    for (const Block& block : blocks) {
      if (block.bytes >= kMaxArena || sum >= kMaxArena)
        throw Error(Code::exhausted, "its values take more memory than can be addressed");
      sum += block.bytes + alignment;
    }
  }

  void add_steps(std::span<const std::size_t> scratch) {
    const auto location = [&](ValueId id) {
      return id == kNoValue ? ValueLocation() : locations_[index_of(root(id))];
    };
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!kernels_[i]) continue;
      const Node& node = graph_.nodes[i];
      ScheduleStep step{&node, kernels_[i].get(), {}, {}, scratch[made_.steps.size()]};
      for (const ValueId id : node.inputs) step.inputs.push_back(location(id));
      for (const ValueId id : node.outputs) step.outputs.push_back(location(id));
      made_.steps.push_back(std::move(step));
    }
  }

  const Graph& graph_;
  const std::span<const std::unique_ptr<Kernel>> kernels_;
  std::vector<ValueId> root_;             // by value: the value whose memory it shares
  std::vector<ValueLocation> locations_;  // of roots
  std::vector<int> block_of_;             // of roots in the arena
  std::vector<Block> blocks_;
  std::vector<int> into_;  // the block whose memory a block reuses, or itself
  Schedule made_;
};

}  // namespace

Schedule make_schedule(const Graph& graph, std::span<const std::unique_ptr<Kernel>> kernels,
                       std::size_t alignment) {
  return Scheduler(graph, kernels).run(alignment);
}

}  // namespace sluice::engine
