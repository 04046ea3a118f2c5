#include "compute/compute.h"

#include <fmt/core.h>

#include <atomic>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/mutex.h"
#include "compute/choose/costs_file.h"
#include "compute/fallback/batched_run.h"
#include "compute/fallback/fallback_counts.h"

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

  Choice choose_for(const Operation& operation, const Call& call, DevicePreference preference) {
    const Traffic bytes = traffic(call);
    const ChoiceQuery query{.operation = operation.name,
                            .work = call.work * static_cast<double>(call.items),
                            .bytes_in = bytes.in,
                            .bytes_out = bytes.out,
                            .preference = preference,
                            .gpu_unusable = gpu_unusable(operation)};
    const Lock lock(mutex);
    return choose(query, costs);
  }

  void note(std::string_view operation, Processor on, double work, double seconds) {
    if (work <= 0 || seconds <= 0) return;
    const Lock lock(mutex);
    costs.note(operation, on, work, seconds);
  }

  void on_cpu(const Operation& operation, const Call& call, std::size_t begin, Outcome& outcome);
  void on_gpu(const Operation& operation, const Call& call, Outcome& outcome);
  void batch_on_gpu(const Operation& operation, const Call& batch);

  const ComputeOptions options;
  Workers workers;
  std::string machine;
  Mutex mutex;
  Costs costs GUARDED_BY(mutex);
  Fallbacks fallbacks;
  std::atomic<std::uint64_t> cpu_calls{0}, gpu_calls{0}, faults{0}, exhausted{0};
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

void Compute::Impl::batch_on_gpu(const Operation& operation, const Call& batch) try {
  const Taken taken = options.accelerator->run(operation, batch);
  const Traffic bytes = traffic(batch);
  note(operation.name, Processor::gpu, batch.work * static_cast<double>(batch.items),
       taken.compute);
  note(kCopyIn, Processor::gpu, static_cast<double>(bytes.in), taken.copy_in);
  note(kCopyOut, Processor::gpu, static_cast<double>(bytes.out), taken.copy_out);
} catch (const Error& error) {
  if (error.code() == Code::exhausted) ++exhausted;
  throw;
}

// The items that the GPU did not compute run on the CPU.
void Compute::Impl::on_gpu(const Operation& operation, const Call& call, Outcome& outcome) {
  outcome.batches = 0;
  const auto fall_back = [&](Fallback reason, const std::string& why) {
    outcome.fallback = why;
    fallbacks.note(reason,
                   fmt::format("{}: {}; {} of {} items", operation.name, why,
                               call.items - outcome.items_on_gpu, call.items),
                   Steady::now());
  };
  try {
    const BatchedResult result =
        run_in_batches(call.items, call.items,
                       {.run =
                            [&](std::size_t begin, std::size_t end) {
                              batch_on_gpu(operation, slice(call, begin, end));
                              outcome.items_on_gpu += end - begin;
                              ++outcome.batches;
                            },
                        .trim = [&] { return options.accelerator->trim(); }});
    if (result.exhausted) std::rethrow_exception(result.exhausted);
  } catch (const DeviceFault& fault) {
    ++faults;
    fall_back(Fallback::lost, "the GPU failed: " + std::string(fault.reason()));
  } catch (const DeviceRefusal& refusal) {
    fall_back(Fallback::unsupported, "the GPU refused it: " + std::string(refusal.reason()));
  } catch (const Error& error) {
    if (error.code() != Code::exhausted) throw;
    fall_back(Fallback::out_of_memory, "not enough GPU memory: " + std::string(error.reason()));
  }
  on_cpu(operation, call, outcome.items_on_gpu, outcome);
}

Compute::Compute(ComputeOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

Compute::~Compute() {
  if (impl_->options.costs.empty()) return;
  const Lock lock(impl_->mutex);
  save_costs(impl_->options.costs, impl_->machine, impl_->costs);
}

Outcome Compute::run(const Operation& operation, const Call& call, DevicePreference preference) {
  const Instant start = Steady::now();
  Outcome outcome;
  outcome.choice = impl_->choose_for(operation, call, preference);
  if (call.items > 0 && outcome.choice.on == Processor::gpu)
    impl_->on_gpu(operation, call, outcome);
  else
    impl_->on_cpu(operation, call, 0, outcome);
  ++(outcome.items_on_gpu > 0 ? impl_->gpu_calls : impl_->cpu_calls);
  outcome.seconds = seconds_between(start, Steady::now());
  return outcome;
}

Choice Compute::explain(const Operation& operation, const Call& call, DevicePreference preference) {
  return impl_->choose_for(operation, call, preference);
}

Workers& Compute::workers() noexcept { return impl_->workers; }

ComputeStats Compute::stats() const {
  return {impl_->cpu_calls, impl_->gpu_calls, impl_->faults, impl_->exhausted,
          impl_->fallbacks.counts().total()};
}

void Compute::require_device(DevicePreference preference) const {
  if (preference != DevicePreference::gpu || impl_->options.accelerator) return;
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
  const auto preference = device_preference_from(device);
  require(preference.has_value(), "device is auto, cpu or gpu, not '" + std::string(device) + "'");
  ComputeOptions options{.costs = std::move(costs)};
  if (*preference == DevicePreference::cpu) {
    options.no_accelerator = "the GPU is turned off";
    return std::make_unique<Compute>(std::move(options));
  }
  try {
    options.accelerator = make_cuda_accelerator({.pools = pools});
  } catch (const Error& error) {
    if (*preference == DevicePreference::gpu) throw;
    options.no_accelerator = std::string(error.reason());
  }
  return std::make_unique<Compute>(std::move(options));
}

}  // namespace sluice::compute
