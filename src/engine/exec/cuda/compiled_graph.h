// A graph bound to CUDA kernels: its schedule, its constants on the device, and its steps, enqueued
// on memory that the caller has. Nodes without a CUDA kernel run on the CPU.
#pragma once

#include <memory>
#include <vector>

#include "engine/exec/cpu/backend.h"
#include "engine/exec/cuda/context/backend.h"
#include "engine/exec/cuda/context/execution_slot.h"
#include "engine/exec/cuda/host_kernel.h"
#include "engine/exec/schedule.h"

namespace sluice::engine::cuda {

// Where a run's values lie. All addresses are device addresses but `host`.
struct RunMemory {
  const IoAddresses& io;
  std::byte* arena;  // of Schedule::arena bytes
  void* host;        // pinned, for steps on the host; null if there are none
  CUstream_st* stream;
  unsigned* error_flag;
  const kernels::LiveCounts* live = nullptr;  // null: every row is computed
  kernels::WorkQueue* queue = nullptr;        // null: items of work are dealt out beforehand
};

// The rows of a node's result, of which a batch has at most `capacity`.
struct NodeRows {
  kernels::RowsOf of = kernels::RowsOf::other;
  std::int64_t capacity = 0;
};

class CompiledGraph {
 public:
  // `graph` is specialized and optimized. `rows`: for each node; empty: every row is computed.
  CompiledGraph(Graph graph, std::shared_ptr<Context> context, std::shared_ptr<cpu::Context> host,
                const std::vector<NodeRows>& rows = {});
  CompiledGraph(const CompiledGraph&) = delete;
  CompiledGraph& operator=(const CompiledGraph&) = delete;

  const Graph& graph() const noexcept { return graph_; }
  const Schedule& schedule() const noexcept { return schedule_; }
  Context& context() const noexcept { return *context_; }
  cpu::Context& host() const noexcept { return *host_; }
  // Returns the kernel of a step that runs on the host; null where the device runs it.
  const HostKernel* host_kernel(std::size_t step) const { return host_kernels_[step]; }
  std::size_t host_bytes() const;  // of RunMemory::host

  void enqueue_step(std::size_t i, const RunMemory& memory) const;
  void enqueue_output_copies(const RunMemory& memory) const;

  // What to throw if step `i` reported an error to its flag.
  Error step_error(unsigned i) const;

 private:
  void make_kernels();
  void upload_constants();
  void* address(const ValueLocation& location, const RunMemory& memory, bool on_host) const;

  const Graph graph_;
  const std::shared_ptr<Context> context_;
  const std::shared_ptr<cpu::Context> host_;
  std::vector<std::unique_ptr<Kernel>> kernels_;  // by node, null for views
  std::vector<ConstMemory> constants_;            // by value, those that are on the device
  Schedule schedule_;
  std::vector<const HostKernel*> host_kernels_;  // by step, null on the device
  std::vector<NodeRows> rows_;                   // by step
};

}  // namespace sluice::engine::cuda
