#include "engine/encoder/encoder.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "engine/encoder/encoder_runner.h"
#include "engine/exec/cuda/bucket_program.h"

namespace sluice::engine {

struct EncoderDevice::Impl {
  Impl(compute::Workers& on, const compute::ExecutorOptions& options)
      : workers(on), executor(options) {}
  Impl(std::shared_ptr<cuda::Context> context, compute::Workers& on,
       const compute::ExecutorOptions& options)
      : workers(on),
        gpu{make_cuda_slots(std::move(context), std::max<std::size_t>(1, options.threads)),
            std::make_shared<compute::Executor>()},
        executor(options) {}

  std::unique_ptr<EncoderRunner> runner(const Graph& model, const EncoderOptions& options) const {
    if (gpu.slots) return make_cuda_encoder_runner(model, options, workers, gpu);
    return make_cpu_encoder_runner(model, options, workers, arenas);
  }

  compute::Workers& workers;
  const std::shared_ptr<cpu::ArenaPool> arenas = std::make_shared<cpu::ArenaPool>();
  const GpuSlots gpu{};
  compute::Executor executor;  // ends first: its calls use the rest
};

struct Encoder::Impl {
  explicit Impl(std::unique_ptr<EncoderRunner> made) : runner(std::move(made)) {}

  std::vector<SequenceError> run(const PackedTokens& tokens, std::span<float> out) const;

  const std::unique_ptr<EncoderRunner> runner;
};

std::vector<SequenceError> Encoder::Impl::run(const PackedTokens& tokens,
                                              std::span<float> out) const {
  const PackedGraph& graph = runner->graph();
  const std::size_t rows = graph.pooled() ? tokens.sequences() : tokens.ids.size();
  const auto width = static_cast<std::size_t>(graph.width());
  require(out.size() == rows * width, "room for " + std::to_string(out.size()) +
                                          " numbers, where " + std::to_string(rows) + " rows of " +
                                          std::to_string(width) + " are made");
  require(tokens.type_ids.empty() || tokens.type_ids.size() == tokens.ids.size(),
          std::to_string(tokens.type_ids.size()) + " token types for " +
              std::to_string(tokens.ids.size()) + " token ids");
  std::ranges::fill(out, 0.0f);
  std::vector<SequenceError> errors;
  std::vector<std::size_t> good;
  for (std::size_t i = 0; i < tokens.sequences(); ++i)
    if (std::string why = fault_of(tokens, i, graph); !why.empty())
      errors.push_back({i, std::move(why)});
    else
      good.push_back(i);
  std::ranges::move(runner->run(tokens, good, out), std::back_inserter(errors));
  std::ranges::sort(errors, {}, &SequenceError::sequence);
  return errors;
}

// ---- the device and the encoder -------------------------------------------------------------

EncoderDevice::EncoderDevice(compute::Workers& workers, const compute::ExecutorOptions& options)
    : impl_(std::make_unique<Impl>(workers, options)) {}

EncoderDevice::EncoderDevice(std::shared_ptr<cuda::Context> gpu, compute::Workers& workers,
                             const compute::ExecutorOptions& options)
    : impl_(std::make_unique<Impl>(std::move(gpu), workers, options)) {}

EncoderDevice::~EncoderDevice() = default;

compute::Workers& EncoderDevice::workers() const noexcept { return impl_->workers; }
compute::ExecutorCounts EncoderDevice::counts() const { return impl_->executor.counts(); }
std::size_t EncoderDevice::arena_bytes() const {
  return impl_->gpu.slots ? free_slot_bytes(*impl_->gpu.slots) : impl_->arenas->free_bytes();
}
std::size_t EncoderDevice::trim() noexcept {
  return impl_->gpu.slots ? trim_slots(*impl_->gpu.slots) : impl_->arenas->trim();
}

Encoder::Encoder(const Graph& model, EncoderDevice& device, const EncoderOptions& options)
    : impl_(std::make_shared<Impl>(device.impl_->runner(model, options))), device_(&device) {}

Encoder::Encoder(const Graph& model, compute::Workers& workers, const EncoderOptions& options)
    : own_(std::make_unique<EncoderDevice>(workers)), device_(own_.get()) {
  impl_ = std::make_shared<Impl>(device_->impl_->runner(model, options));
}

Encoder::~Encoder() = default;
Encoder::Encoder(Encoder&&) noexcept = default;

const PackedGraph& Encoder::graph() const noexcept { return impl_->runner->graph(); }

std::vector<KernelTime> Encoder::profile(const PackedTokens& tokens) const {
  std::vector<std::size_t> all(tokens.sequences());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return impl_->runner->profile(tokens, all);
}

void Encoder::wait_until_ready() const { impl_->runner->wait_until_ready(); }

std::shared_ptr<const Program> Encoder::program(const PackedGraph::Sizes& sizes) const {
  return impl_->runner->program(sizes);
}

std::vector<SequenceError> Encoder::run(const PackedTokens& tokens, std::span<float> out) const {
  return impl_->run(tokens, out);
}

std::optional<compute::Executor::Ticket> Encoder::submit(
    const EncodeRequest& request, std::function<void(EncodeResult)> done) const {
  const auto errors = std::make_shared<std::vector<SequenceError>>();
  return device_->impl_->executor.submit(
      {.run = [impl = impl_, request, errors] { *errors = impl->run(request.tokens, request.out); },
       .done =
           [errors, done = std::move(done)](std::exception_ptr error) {
             done({.errors = std::move(*errors), .error = std::move(error)});
           },
       .deadline = request.deadline});
}

}  // namespace sluice::engine
