#include "compute/compute.h"

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/mutex.h"
#include "compute/costs_file.h"

namespace sluice::compute {

struct Compute::Impl {
  explicit Impl(ComputeOptions with) : options(std::move(with)), workers(options.threads) {
    if (options.costs.empty()) return;
    machine = machine_name(options.accelerator ? options.accelerator->name() : "");
    costs = load_costs(options.costs, machine);
  }

  std::string gpu_unusable(const Operation& operation) {
    if (!options.accelerator) return options.no_accelerator;
    if (operation.gpu == nullptr) return "this build has no GPU code for it";
    if (options.veto)
      if (std::string why = options.veto(); !why.empty()) return why;
    return options.accelerator->why_not();
  }

  Choice choose_for(const Operation& operation, const Call& call, Where where) {
    const Question question{operation.name, call.work * static_cast<double>(call.items),
                            traffic(call), where, gpu_unusable(operation)};
    const Lock lock(mutex);
    return choose(question, costs);
  }

  void note(std::string_view operation, Processor on, double work, double seconds) {
    if (work <= 0 || seconds <= 0) return;
    const Lock lock(mutex);
    costs.note(operation, on, work, seconds);
  }

  // A line now and then: whoever calls may have every call fall back. How many were not told since
  // the last line; nothing where this is one of them.
  std::optional<std::uint64_t> may_tell_fallback() {
    constexpr auto kBetween = std::chrono::seconds(10);
    const Instant now = Steady::now();
    const Lock lock(mutex);
    if (told_at && now - *told_at < kBetween) {
      ++untold;
      return std::nullopt;
    }
    told_at = now;
    return std::exchange(untold, 0);
  }

  void on_cpu(const Operation& operation, const Call& call, std::size_t begin, Outcome& outcome);
  void on_gpu(const Operation& operation, const Call& call, Outcome& outcome);
  void part_on_gpu(const Operation& operation, const Call& part);

  const ComputeOptions options;
  Workers workers;
  std::string machine;
  Mutex mutex;
  Costs costs GUARDED_BY(mutex);
  std::optional<Instant> told_at GUARDED_BY(mutex);  // of a fallback
  std::uint64_t untold GUARDED_BY(mutex) = 0;        // fallbacks since
  std::atomic<std::uint64_t> cpu_calls{0}, gpu_calls{0}, faults{0}, exhausted{0}, fallbacks{0};
};

// The items from `begin` on.
void Compute::Impl::on_cpu(const Operation& operation, const Call& call, std::size_t begin,
                           Outcome& outcome) {
  if (begin == call.items) return;
  const Call part = slice(call, begin, call.items);
  const Instant start = Steady::now();
  operation.cpu(part, workers);
  note(operation.name, Processor::cpu, part.work * static_cast<double>(part.items),
       seconds_between(start, Steady::now()));
  outcome.items_on_cpu += part.items;
}

void Compute::Impl::part_on_gpu(const Operation& operation, const Call& part) {
  const Taken taken = options.accelerator->run(operation, part);
  const Traffic bytes = traffic(part);
  note(operation.name, Processor::gpu, part.work * static_cast<double>(part.items), taken.compute);
  note(kCopyIn, Processor::gpu, static_cast<double>(bytes.in), taken.copy_in);
  note(kCopyOut, Processor::gpu, static_cast<double>(bytes.out), taken.copy_out);
}

// Part by part, halving parts that do not fit; what is left over runs on the CPU.
void Compute::Impl::on_gpu(const Operation& operation, const Call& call, Outcome& outcome) {
  std::size_t done = 0, part = call.items;
  bool trimmed = false;
  outcome.parts = 0;
  while (done < call.items && outcome.fallback.empty()) {
    throw_if_cancelled();
    const std::size_t end = std::min(done + part, call.items);
    try {
      part_on_gpu(operation, slice(call, done, end));
      outcome.items_on_gpu += end - done;
      ++outcome.parts;
      done = end;
    } catch (const DeviceFault& fault) {
      ++faults;
      outcome.fallback = "the GPU failed: " + std::string(fault.reason());
    } catch (const DeviceRefusal& refusal) {
      outcome.fallback = "the GPU refused it: " + std::string(refusal.reason());
    } catch (const Error& error) {
      if (error.code() != Code::exhausted) throw;
      ++exhausted;
      if (!trimmed && options.accelerator->trim() > 0)
        trimmed = true;
      else if (part > 1)
        part = (part + 1) / 2;
      else
        outcome.fallback = "not enough GPU memory: " + std::string(error.reason());
    }
  }
  if (outcome.fallback.empty()) return;
  ++fallbacks;
  if (const auto unsaid = may_tell_fallback())
    log::warn("{}: {}; {} of {} items run on the CPU{}", operation.name, outcome.fallback,
              call.items - done, call.items,
              *unsaid > 0 ? fmt::format(" (and {} calls before, not told)", *unsaid) : "");
  on_cpu(operation, call, done, outcome);
}

Compute::Compute(ComputeOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Compute::~Compute() {
  if (impl_->options.costs.empty()) return;
  const Lock lock(impl_->mutex);
  save_costs(impl_->options.costs, impl_->machine, impl_->costs);
}

Outcome Compute::run(const Operation& operation, const Call& call, Where where) {
  const Instant start = Steady::now();
  Outcome outcome;
  outcome.choice = impl_->choose_for(operation, call, where);
  if (call.items > 0 && outcome.choice.on == Processor::gpu)
    impl_->on_gpu(operation, call, outcome);
  else
    impl_->on_cpu(operation, call, 0, outcome);
  ++(outcome.items_on_gpu > 0 ? impl_->gpu_calls : impl_->cpu_calls);
  outcome.seconds = seconds_between(start, Steady::now());
  return outcome;
}

Choice Compute::explain(const Operation& operation, const Call& call, Where where) {
  return impl_->choose_for(operation, call, where);
}

Workers& Compute::workers() noexcept { return impl_->workers; }

ComputeFigures Compute::figures() const {
  return {impl_->cpu_calls, impl_->gpu_calls, impl_->faults, impl_->exhausted, impl_->fallbacks};
}

void Compute::require_device(Where where) const {
  if (where != Where::gpu || impl_->options.accelerator) return;
  throw Error(
      Code::unavailable,
      "device gpu: no GPU is in use here (none found, or switched off); auto takes the CPU");
}

std::string Compute::accelerator_name() const {
  return impl_->options.accelerator ? impl_->options.accelerator->name() : std::string();
}

std::vector<memory::PoolStatistics> Compute::pools() const {
  return impl_->options.accelerator ? impl_->options.accelerator->pools()
                                    : std::vector<memory::PoolStatistics>();
}

std::unique_ptr<Compute> make_compute(std::string_view device, std::filesystem::path costs,
                                      const memory::MemoryConfig& pools) {
  const auto where = where_from(device);
  require(where.has_value(), "device is auto, cpu or gpu, not '" + std::string(device) + "'");
  ComputeOptions options{.costs = std::move(costs)};
  if (*where == Where::cpu) {
    options.no_accelerator = "the GPU is turned off";
    return std::make_unique<Compute>(std::move(options));
  }
  try {
    options.accelerator = make_cuda_accelerator({.pools = pools});
  } catch (const Error& error) {
    if (*where == Where::gpu) throw;
    options.no_accelerator = std::string(error.reason());
  }
  return std::make_unique<Compute>(std::move(options));
}

}  // namespace sluice::compute
