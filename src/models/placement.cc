#include "models/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "engine/exec/cuda/bucket_program.h"

namespace sluice::models {
namespace {

// Short and long sequences of random tokens.
struct SampleTokens {
  std::vector<std::int32_t> ids, cu_seqlens{0};

  explicit SampleTokens(const engine::PackedGraph& graph) {
    constexpr std::int64_t kLengths[] = {2, 9, 33, 128};
    std::mt19937 random(1);  // NOLINT: the same each time
    std::uniform_int_distribution<std::int32_t> id(
        0, static_cast<std::int32_t>(graph.vocabulary()) - 1);
    for (const std::int64_t length : kLengths) {
      for (std::int64_t i = 0; i < std::min(length, graph.max_length());) {
        ids.push_back(id(random));
        if (graph.padding_id() == ids.back())
          ids.pop_back();
        else
          ++i;
      }
      cu_seqlens.push_back(static_cast<std::int32_t>(ids.size()));
    }
  }

  std::vector<float> run(const engine::Encoder& encoder) const {
    const std::size_t rows = encoder.graph().pooled() ? cu_seqlens.size() - 1 : ids.size();
    std::vector<float> out(rows * static_cast<std::size_t>(encoder.graph().width()));
    const auto errors = encoder.run({.ids = ids, .type_ids = {}, .cu_seqlens = cu_seqlens}, out);
    if (!errors.empty()) std::ranges::fill(out, std::nanf(""));  // it overflowed
    return out;
  }
};

// The largest difference of the outputs, as a part of the largest output; NaN where there is none.
double loss_of(const engine::Encoder& narrow, const engine::Encoder& wide) {
  const SampleTokens tokens(wide.graph());
  const std::vector<float> got = tokens.run(narrow), want = tokens.run(wide);
  double off = 0, largest = 1e-30;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(want[i])) return std::nan("");
    off = std::max(off, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
    largest = std::max(largest, std::abs(static_cast<double>(want[i])));
  }
  return off / largest;
}

DType dtype_of(std::string_view precision, int capability) {
  constexpr int kTensorCores = 70;  // compute capability from which f16 is the fastest
  if (precision == "auto") return capability >= kTensorCores ? DType::f16 : DType::f32;
  if (precision == "fp16") return DType::f16;
  if (precision == "bf16") return DType::bf16;
  require(precision == "fp32",
          "precision is fp32, fp16, bf16 or auto, not " + in_quotes(precision));
  return DType::f32;
}

}  // namespace

Placement placement_on(std::shared_ptr<engine::cuda::Context> gpu, std::string_view precision,
                       std::optional<double> max_loss, compute::Workers& workers) {
  constexpr double kLossOfF16 = 0.01, kLossOfBf16 = 0.08;
  const DType dtype = dtype_of(precision, gpu->capability());
  return {.device = std::make_shared<engine::EncoderDevice>(std::move(gpu), workers),
          .precision = dtype,
          .max_loss = max_loss.value_or(dtype == DType::bf16 ? kLossOfBf16 : kLossOfF16),
          .falls_back = precision == "auto"};
}

engine::Encoder encoder_at(const Placement& placement, const engine::Graph& model,
                           compute::Workers& workers, engine::EncoderOptions options) {
  if (!placement.device) return {model, workers, options};
  options.precision = placement.precision;
  if (placement.precision == DType::f32 || std::isinf(placement.max_loss))
    return {model, *placement.device, options};
  engine::Encoder narrow(model, *placement.device, options);
  options.precision = DType::f32;
  const double loss = loss_of(narrow, {model, workers, options});
  if (loss <= placement.max_loss) return narrow;
  if (placement.falls_back) return {model, *placement.device, options};
  throw Error(Code::unavailable,
              fmt::format("the model in {} is off by {:.2g} of the largest output, and {:.2g} is "
                          "allowed: use --precision fp32, or a larger --max-loss",
                          to_string(placement.precision), loss, placement.max_loss));
}

}  // namespace sluice::models
