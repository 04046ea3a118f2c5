// A fake GPU that runs the CPU backend, with configurable memory and failures.
#pragma once

#include <atomic>
#include <functional>

#include "device/gpu_status.h"
#include "engine/exec/cpu/cpu_program.h"
#include "engine/exec/gpu.h"

namespace sluice::engine {

// Controls that a test changes while sessions run. Thread-safe, except for `on_run`.
struct FakeGpuState {
  std::atomic<std::int64_t> max_batch{1 << 30};  // batch items that fit into memory
  std::atomic<int> faults{0};                    // runs that fail from now on
  std::atomic<int> transient_failures{0};        // runs that fail transiently
  std::atomic<bool> lost{false};                 // every run and every revival fails
  std::atomic<bool> dead{false};                 // likewise, permanently
  std::atomic<std::size_t> kept{0};              // bytes that the next trim() finds
  std::function<void()> on_run{};                // in the middle of each

  std::atomic<int> compiles{0}, runs{0}, finished{0}, revivals{0}, trims{0};
  std::atomic<double> now_s{0};
};

class FakeGpu final : public Gpu {
 public:
  explicit FakeGpu(std::shared_ptr<FakeGpuState> state) : state_(std::move(state)) {}

  std::shared_ptr<const Program> compile(Graph graph,
                                         const std::shared_ptr<cpu::Context>& host) override {
    ++state_->compiles;
    return std::make_shared<Run>(std::move(graph), host, state_, generation_.load(), generation_);
  }
  void revive() override {
    ++state_->revivals;
    if (state_->dead) throw Error(Code::unavailable, "dead for this process");
    if (state_->lost) throw Error(Code::internal, "still off the bus");
    ++generation_;
  }
  Instant now() const override {
    return Instant() + std::chrono::duration_cast<Steady::duration>(Seconds(state_->now_s.load()));
  }

 private:
  class Run final : public Program {
   public:
    Run(Graph graph, const std::shared_ptr<cpu::Context>& host, std::shared_ptr<FakeGpuState> state,
        int generation, const std::atomic<int>& current)
        : program_(std::move(graph), host),
          state_(std::move(state)),
          generation_(generation),
          current_(current) {}

    const Graph& graph() const noexcept override { return program_.graph(); }
    const Schedule& schedule() const noexcept override { return program_.schedule(); }
    std::vector<Tensor> run(std::span<const Tensor> inputs,
                            std::vector<StepTime>* times) const override {
      ++state_->runs;
      if (inputs[0].shape()[0] > state_->max_batch || state_->kept > 0)
        throw Error(Code::exhausted, "out of device memory");
      if (state_->on_run) state_->on_run();
      if (state_->lost || state_->dead || generation_ != current_ || take(state_->faults))
        throw Error(Code::internal, "fell off the bus");
      if (take(state_->transient_failures))
        throw device::GpuError(device::GpuStatus::transient, "busy for the moment");
      std::vector<Tensor> results = program_.run(inputs, times);
      ++state_->finished;
      return results;
    }
    std::size_t trim() const noexcept override {
      ++state_->trims;
      return state_->kept.exchange(0);
    }

   private:
    static bool take(std::atomic<int>& faults) {
      int left = faults;
      while (left > 0 && !faults.compare_exchange_weak(left, left - 1)) {
      }
      return left > 0;
    }

    const CpuProgram program_;
    const std::shared_ptr<FakeGpuState> state_;
    const int generation_;  // programs of other generations cannot run
    const std::atomic<int>& current_;
  };

  const std::shared_ptr<FakeGpuState> state_;
  std::atomic<int> generation_{0};
};

}  // namespace sluice::engine
