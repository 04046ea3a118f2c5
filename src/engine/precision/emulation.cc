#include "engine/precision/emulation.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "engine/graph/tensor_type.h"
#include "engine/ops/convert.h"
#include "engine/passes/passes.h"
#include "engine/shapes/flops.h"

namespace sluice::engine {
namespace {

constexpr float kHeadroom = 4;  // inputs other than the samples may yield larger values

// Rounds like Half and BFloat16, in a form that compilers vectorize.
float rounded_to_f16(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const float even = std::bit_cast<float>((bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu);
  const float small = std::copysign((std::fabs(x) + 0.5f) - 0.5f, x);  // subnormal: 2^-24 apart
  const float past = std::copysign(std::numeric_limits<float>::infinity(), x);
  const float finite = magnitude < 0x38800000u ? small : magnitude >= 0x477ff000u ? past : even;
  return magnitude > 0x7f800000u ? x : finite;
}

float rounded_to(float x, DType to) {
  return to == DType::f16 ? rounded_to_f16(x) : static_cast<float>(BFloat16(x));
}

constexpr std::size_t kChunk = 1 << 16;  // elements

template <class Change>
Tensor changed_by(const Tensor& from, compute::Workers& workers, Change&& change) {
  const Tensor made(DType::f32, from.shape());
  const std::span<const float> in = from.values<float>();
  const std::span<float> out = made.values<float>();
  workers.each(in.size(), kChunk, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = change(in[i]);
  });
  return made;
}

Tensor rounded(const Tensor& from, DType to, compute::Workers& workers) {
  if (to == DType::f16) return changed_by(from, workers, [](float x) { return rounded_to_f16(x); });
  return changed_by(from, workers, [&](float x) { return rounded_to(x, to); });
}

// Rounds like narrowed(): finite values stay finite.
Tensor rounded_constant(const Tensor& from, DType to, compute::Workers& workers) {
  const float limit = narrow_limit(to);
  return changed_by(from, workers, [&](float x) {
    return rounded_to(std::isinf(x) ? x : x > limit ? limit : x < -limit ? -limit : x, to);
  });
}

float max_magnitude(const Tensor& tensor) {
  float max = 0;
  for (const float x : tensor.values<float>()) max = std::max(max, std::fabs(x));
  return max;
}

bool same_kind(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::isinf(a) && a == b;
}

}  // namespace

double loss_of(const Tensor& expected, const Tensor& actual) {
  require(expected.shape() == actual.shape(), "outputs of other shapes than in f32");
  const Tensor wide_a = converted(expected, DType::f64), wide_b = converted(actual, DType::f64);
  const auto a = wide_a.values<double>(), b = wide_b.values<double>();
  double max_expected = 0, off = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (same_kind(a[i], b[i])) continue;
    if (!std::isfinite(a[i]) || !std::isfinite(b[i]))
      return std::numeric_limits<double>::infinity();
    max_expected = std::max(max_expected, std::fabs(a[i]));
    off = std::max(off, std::fabs(a[i] - b[i]));
  }
  return max_expected > 0 ? off / max_expected : off;
}

double loss_of(std::span<const Tensor> expected, std::span<const Tensor> actual) {
  double loss = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (kReals.has(expected[i].dtype())) loss = std::max(loss, loss_of(expected[i], actual[i]));
  return loss;
}

double Emulation::bytes(const Graph& graph) {
  double sum = 0;
  for (const Value& value : graph.values)
    if (value.kind == onnx::Type::Kind::tensor && (value.constant || value.dims))
      sum +=
          static_cast<double>(value.constant ? 2 * value.constant.bytes() : type_of(value).bytes());
  return sum;
}

Emulation::Emulation(const Graph& graph, DType to, std::vector<Tensor> inputs,
                     compute::Workers& workers)
    : wide_(graph), narrow_(graph), to_(to), context_(workers) {
  candidates_ = narrow_nodes(narrow_, to);
  make_narrow_constants();
  for (auto& kernels : kernels_) kernels.resize(wide_.nodes.size());
  ranges_.resize(wide_.nodes.size());
  values_.resize(wide_.values.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    values_[index_of(wide_.inputs[i])] = std::move(inputs[i]);
  for (std::size_t i = 0; i < wide_.nodes.size(); ++i) {
    flops_.push_back(flops(wide_, wide_.nodes[i]));
    compute(i, false, values_, values_);
    for (const ValueId id : wide_.nodes[i].outputs)
      if (id != kNoValue && values_[index_of(id)].dtype() == DType::f32)
        ranges_[i].max_magnitude =
            std::max(ranges_[i].max_magnitude, max_magnitude(values_[index_of(id)]));
  }
}

// Rounds and clamps the constants of candidates like those of the narrow graph.
void Emulation::make_narrow_constants() {
  std::map<ValueId, ValueId> made;
  for (std::size_t n = 0; n < narrow_.nodes.size(); ++n) {
    if (!candidates_[n]) continue;
    Node& node = narrow_.nodes[n];
    narrow_attributes(node, to_);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId id = node.inputs[i];
      if (id == kNoValue || stays_f32(node, i)) continue;
      const Tensor constant = narrow_[id].constant;
      if (!constant || constant.dtype() != DType::f32) continue;
      const auto [found, is_new] =
          made.try_emplace(id, static_cast<ValueId>(narrow_.values.size()));
      if (is_new) {
        Value value = narrow_[id];
        value.constant = rounded_constant(constant, to_, context_.workers);
        narrow_.values.push_back(std::move(value));
      }
      node.inputs[i] = found->second;
    }
  }
}

std::vector<Tensor> Emulation::expected_outputs() const {
  std::vector<Tensor> outputs;
  for (const ValueId id : wide_.outputs)
    outputs.push_back(wide_[id].constant ? wide_[id].constant : values_[index_of(id)]);
  return outputs;
}

const Kernel& Emulation::kernel(std::size_t node, bool narrow) {
  std::unique_ptr<Kernel>& made = kernels_[narrow ? 1 : 0][node];
  const Graph& graph = narrow ? narrow_ : wide_;
  if (!made) made = cpu::make_kernel(graph, graph.nodes[node], context_);
  if (!scratch_ || scratch_.bytes() < made->scratch())
    scratch_ = Tensor(DType::u8, Shape{static_cast<std::int64_t>(made->scratch())});
  return *made;
}

// Values that `from` lacks are taken from the f32 run. Input tensors are not modified.
void Emulation::compute(std::size_t node, bool narrow, const Values& from, Values& to) {
  const Graph& graph = narrow ? narrow_ : wide_;
  const Node& of = graph.nodes[node];
  std::vector<void*> inputs, outputs;
  std::vector<Tensor> given;
  for (const ValueId id : of.inputs) {
    Tensor value;
    if (id != kNoValue && graph[id].constant)
      value = graph[id].constant;
    else if (id != kNoValue)
      value = from[index_of(id)] ? from[index_of(id)] : values_[index_of(id)];
    inputs.push_back(value ? value.data() : nullptr);
    given.push_back(std::move(value));
  }
  if (is_view(of)) {
    to[index_of(of.outputs[0])] = given[0].reshaped(type_of(graph[of.outputs[0]]).shape);
    return;
  }
  for (const ValueId id : of.outputs) {
    if (id != kNoValue) {
      const TensorType type = type_of(graph[id]);
      to[index_of(id)] = Tensor(type.dtype, type.shape);
    }
    outputs.push_back(id == kNoValue ? nullptr : to[index_of(id)].data());
  }
  const Kernel& runs = kernel(node, narrow);
  runs.run({inputs, outputs, scratch_.data()});
  spent_ += node < flops_.size() ? flops_[node] : 0;
}

// `changed` has the values that differ from the f32 run.
void Emulation::compute_rounded(std::size_t node, const Values& changed, Values& to) {
  Values inputs(changed.size());
  const Node& of = narrow_.nodes[node];
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const ValueId id = of.inputs[i];
    if (id == kNoValue || narrow_[id].constant) continue;
    const Tensor& value = changed[index_of(id)] ? changed[index_of(id)] : values_[index_of(id)];
    const bool rounds = value.dtype() == DType::f32 && !stays_f32(of, i);
    inputs[index_of(id)] = rounds ? rounded(value, to_, context_.workers) : value;
  }
  compute(node, true, inputs, to);
  for (const ValueId id : of.outputs)
    if (id != kNoValue && to[index_of(id)].dtype() == DType::f32)
      to[index_of(id)] = rounded(to[index_of(id)], to_, context_.workers);
}

bool Emulation::is_read_changed(std::size_t node, const Values& changed) const {
  return std::ranges::any_of(wide_.nodes[node].inputs, [&](ValueId id) {
    return id != kNoValue && !wide_[id].constant && changed[index_of(id)];
  });
}

// Mask values are clamped to the limit itself on purpose.
bool Emulation::overflows(std::size_t node, const Values& made) {
  const float limit = narrow_limit(to_);
  NodeRange& range = ranges_[node];
  for (const ValueId id : wide_.nodes[node].outputs) {
    if (id == kNoValue || made[index_of(id)].dtype() != DType::f32) continue;
    const auto actual = made[index_of(id)].values<float>(),
               expected = values_[index_of(id)].values<float>();
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const float magnitude = std::fabs(actual[i]);
      if (magnitude <= limit / kHeadroom || magnitude == limit || !std::isfinite(expected[i]))
        continue;
      range.overflows = true;
      range.infinite = range.infinite || !std::isfinite(actual[i]);
    }
  }
  return range.overflows;
}

double Emulation::run(std::vector<bool>& narrow, bool repair) {
  Values changed(narrow_.values.size());
  for (std::size_t i = 0; i < wide_.nodes.size(); ++i) {
    if (is_random(wide_.nodes[i])) continue;
    if (narrow[i]) {
      compute_rounded(i, changed, changed);
      if (!repair || !overflows(i, changed)) continue;
      narrow[i] = false;
      for (const ValueId id : wide_.nodes[i].outputs)
        if (id != kNoValue) changed[index_of(id)] = Tensor();
    }
    if (is_read_changed(i, changed)) compute(i, false, changed, changed);
  }
  return outputs_lost(changed);
}

double Emulation::outputs_lost(const Values& changed) const {
  double loss = 0;
  for (const ValueId id : wide_.outputs) {
    const Tensor& actual = changed[index_of(id)];
    if (actual && kReals.has(actual.dtype()))
      loss = std::max(loss, loss_of(values_[index_of(id)], actual));
  }
  return loss;
}

double Emulation::loss(const std::vector<bool>& narrow) {
  std::vector<bool> nodes = narrow;
  return run(nodes, false);
}

double Emulation::loss_without_overflow(std::vector<bool>& narrow) { return run(narrow, true); }

double Emulation::own_loss(std::size_t node) {
  Values made(narrow_.values.size());
  compute_rounded(node, made, made);
  double loss = 0;
  for (const ValueId id : wide_.nodes[node].outputs)
    if (id != kNoValue && made[index_of(id)].dtype() == DType::f32)
      loss = std::max(loss, loss_of(values_[index_of(id)], made[index_of(id)]));
  return loss;
}

}  // namespace sluice::engine
