#include "engine/precision/narrowing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/cancellation.h"
#include "base/clock.h"
#include "base/log.h"
#include "engine/passes/passes.h"
#include "engine/passes/quantized.h"
#include "engine/precision/sample_inputs.h"
#include "engine/shapes/batch_axis.h"
#include "engine/shapes/flops.h"
#include "engine/shapes/specialize.h"

namespace sluice::engine {
namespace {

constexpr double kMaxSampleBytes = 8e9;  // as NarrowingOptions::sample_flops
constexpr double kQuantizedLoss = 0.1;   // allowed for quantized models
constexpr double kStricter = 4;          // where a GPU loses more than was emulated
constexpr double kUnlimitedLoss = std::numeric_limits<double>::infinity();
constexpr std::size_t kMaxMeasured = 4;  // sets of input types; others use the last measurement
constexpr std::size_t kMaxReports = 64;  // twice as many as there are shapes in a plan

std::string text_of(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types)
    text += (text.empty() ? "" : ", ") + std::string(to_string(type.dtype)) + to_string(type.shape);
  return text;
}

// The types for a batch of one, if the model has a batch axis.
std::vector<TensorType> batch_of_one(const Graph& model, std::span<const TensorType> types,
                                     compute::Workers& workers) {
  std::vector<TensorType> one(types.begin(), types.end());
  const auto batch = batch_inputs_of(model, types);
  if (!batch || batch->count == 1 || !batch_is_independent(model, types, *batch, workers))
    return one;
  for (std::size_t i = 0; i < one.size(); ++i)
    if (batch->inputs[i]) one[i].shape[0] = 1;
  return one;
}

// Resizes the batch of `from` to these types, by dropping items or repeating them.
std::vector<Tensor> with_batch(std::span<const Tensor> from, std::span<const TensorType> types) {
  std::vector<Tensor> made;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (from[i].shape() == types[i].shape) {
      made.push_back(from[i]);
      continue;
    }
    const Tensor to(types[i].dtype, types[i].shape);
    const std::size_t piece = std::min(from[i].bytes(), to.bytes());
    for (std::size_t at = 0; at < to.bytes(); at += piece)
      std::memcpy(static_cast<std::byte*>(to.data()) + at, from[i].data(), piece);
    made.push_back(to);
  }
  return made;
}

// The first row of a batched output; none if the output has no batch axis.
std::optional<Tensor> first_row(const Tensor& output, const Tensor& like) {
  if (output.shape() == like.shape()) return output;
  if (output.rank() == 0 || output.rank() != like.rank() || output.size() < like.size())
    return std::nullopt;
  for (int d = 1; d < output.rank(); ++d)
    if (output.shape()[d] != like.shape()[d]) return std::nullopt;
  return Tensor::view(output.dtype(), like.shape(), output.data(), nullptr);
}

template <class T>
bool is_flat(const Tensor& tensor) {
  const auto all = tensor.values<T>();
  return std::all_of(all.begin(), all.end(), [&](T x) { return x == all[0]; });
}

// Whether all inputs are constant, like those of a warm-up.
bool is_constant_sample(std::span<const Tensor> sample) {
  return std::all_of(sample.begin(), sample.end(), [](const Tensor& tensor) {
    if (tensor.size() < 2) return true;
    if (tensor.dtype() == DType::f32) return is_flat<float>(tensor);
    if (tensor.dtype() == DType::i64) return is_flat<std::int64_t>(tensor);
    return tensor.dtype() == DType::i32 && is_flat<std::int32_t>(tensor);
  });
}

std::vector<Tensor> scaled(const std::vector<Tensor>& sample, float by) {
  std::vector<Tensor> made;
  for (const Tensor& tensor : sample) {
    made.push_back(tensor);
    if (tensor.dtype() != DType::f32) continue;
    made.back() = Tensor(DType::f32, tensor.shape());
    std::ranges::transform(tensor.values<float>(), made.back().values<float>().begin(),
                           [&](float x) { return by * x; });
  }
  return made;
}

// Whether the graph has quantized nodes or QuantizeLinear.
bool has_quantized_nodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return is_quantized(node) || (node.domain.empty() && node.op.ends_with("QuantizeLinear"));
  });
}

bool makes_random_numbers(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), is_random);
}

}  // namespace

std::string precision_name(DType type) {
  return type == DType::f16 ? "fp16" : type == DType::bf16 ? "bf16" : "fp32";
}

Narrowing::Narrowing(const Graph& model, DerivedConstants& derived, compute::Workers& workers,
                     const NarrowingOptions& options)
    : model_(model), derived_(derived), workers_(workers), options_(options) {}

// ---- on the CPU -----------------------------------------------------------------------------

std::span<const TensorType> Narrowing::own(const Request& request) const {
  return request.types.first(model_.inputs.size());
}

Graph Narrowing::graph_for(std::span<const TensorType> types) const {
  Graph graph = specialize(model_, types, workers_);
  optimize(graph, &derived_, Backend::cuda);
  return graph;
}

// Inputs that differ from the samples in magnitude and distribution.
std::vector<std::vector<Tensor>> Narrowing::others(const Evidence& evidence) const {
  std::vector<std::vector<Tensor>> all;
  for (const float by : {0.1f, 4.0f}) all.push_back(scaled(evidence.sample, by));
  try {
    all.push_back(random_inputs(model_, evidence.types, 2));
  } catch (const Error&) {  // random inputs of that type are not supported
  }
  return all;
}

void Narrowing::take_sample(const Request& request, const Graph& graph, Evidence& evidence) {
  evidence.random = makes_random_numbers(graph);
  evidence.is_quantized = has_quantized_nodes(graph);
  // A value rounded to the adjacent quantized level is one scale off, whichever node rounded it.
  if (evidence.is_quantized)
    evidence.report.allowed_loss = std::max(evidence.report.allowed_loss, kQuantizedLoss);
  evidence.too_large =
      flops(graph) > options_.sample_flops || Emulation::bytes(graph) > kMaxSampleBytes;
  if (evidence.too_large) return;
  evidence.sample = is_constant_sample(request.sample) ? random_inputs(model_, evidence.types)
                                                       : with_batch(request.sample, evidence.types);
}

void Narrowing::choose(const Graph& graph, double max_loss, Evidence& evidence) {
  const double allowed = evidence.is_quantized ? kUnlimitedLoss : max_loss;
  PrecisionChoice choice;
  {
    Emulation run(graph, options_.to, evidence.sample, workers_);
    choice = choose_precision(run, allowed);
    evidence.expected_outputs = run.expected_outputs();
  }
  evidence.report.loss = choice.loss;
  evidence.report.measured = "emulated";
  if (!choice.wide.empty())  // which nodes lose most depends on the inputs
    for (const std::vector<Tensor>& other : others(evidence)) try {
        Emulation run(graph, options_.to, other, workers_);
        choice = choose_precision(run, allowed, choice);
        evidence.report.loss = std::max(evidence.report.loss.value_or(0), choice.loss);
      } catch (const Error& error) {  // the model rejects such inputs
        if (error.code() != Code::invalid_argument) throw;
      }
  evidence.report.wide = choice.wide;
  for (const WideNode& node : choice.wide) evidence.wide.insert(node.value);
}

void Narrowing::measure(const Request& request, Evidence& evidence) {
  const auto from = Steady::now();
  evidence.report.requested = precision_name(options_.to);
  evidence.report.requested_loss = evidence.report.allowed_loss = options_.allowed();
  try {
    const Graph graph = graph_for(evidence.types);
    take_sample(request, graph, evidence);
    if (!evidence.too_large) choose(graph, options_.allowed(), evidence);
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::internal) throw;
    evidence.too_large = error.code() == Code::exhausted;  // on the GPU, as a whole
    if (!evidence.too_large) evidence.why_not = error.reason();
    evidence.sample.clear();  // a partial measurement is discarded
    evidence.expected_outputs.clear();
    evidence.report.loss.reset();
    evidence.report.measured.clear();
  }
  evidence.report.seconds = seconds_between(from, Steady::now());
}

// ": Conv node 'stem' (0.02), ...". Measured again, since it is rarely needed.
std::string Narrowing::blamed_nodes(const Evidence& evidence) const {
  if (evidence.sample.empty()) return "";
  Emulation run(graph_for(evidence.types), options_.to, evidence.sample, workers_);
  std::vector<bool> narrow = run.candidates();
  for (std::size_t i = 0; i < narrow.size(); ++i)
    for (const ValueId id : run.graph().nodes[i].outputs)
      if (id != kNoValue && evidence.wide.contains(run.graph()[id].name)) narrow[i] = false;
  return ": " + worst_nodes(run, narrow);
}

Narrowing::Found Narrowing::measured(const Request& request) {
  const std::vector<TensorType> types = batch_of_one(model_, own(request), workers_);
  for (Evidence& known : evidence_)
    if (known.types == types) return {known, true};
  if (evidence_.size() >= kMaxMeasured) return {evidence_.back(), false};
  Evidence& added = evidence_.emplace_back();
  added.types = types;
  try {
    measure(request, added);
  } catch (...) {  // the failure says nothing about the model
    evidence_.pop_back();
    throw;
  }
  return {added, true};
}

// ---- on the GPU -----------------------------------------------------------------------------

// None if the outputs cannot be compared.
std::optional<double> Narrowing::loss_on_gpu(const Request& request, const Evidence& evidence,
                                             const Program& program) const {
  const bool packed = request.types.size() > model_.inputs.size();
  if (packed || evidence.random || evidence.expected_outputs.empty()) return std::nullopt;
  const std::vector<Tensor> made = program.run(with_batch(evidence.sample, request.types));
  std::vector<Tensor> should, is;
  for (std::size_t i = 0; i < made.size(); ++i)
    if (const auto row = first_row(made[i], evidence.expected_outputs[i])) {
      should.push_back(evidence.expected_outputs[i]);
      is.push_back(*row);
    }
  return loss_of(should, is);
}

// Measures against f32 on the GPU. Returns why it could not, or nothing.
std::string Narrowing::measure_whole(const Request& request, const Compile& compile,
                                     Made& made) const {
  std::vector<Tensor> inputs = request.sample;
  if (is_constant_sample(inputs)) {
    if (request.types.size() > model_.inputs.size()) return "there are no inputs with padding";
    inputs = random_inputs(model_, request.types);
  }
  try {
    const std::vector<Tensor> is = made.program->run(inputs);
    made.report.loss = loss_of(compile(request.graph)->run(inputs), is);
    made.report.measured = "gpu";
    return "";
  } catch (const Error& error) {
    if (error.code() != Code::exhausted) throw;
    return "not enough memory to compare it with fp32: " + std::string(error.reason());
  }
}

Narrowing::Made Narrowing::in_f32(const Request& request, const Compile& compile,
                                  PrecisionReport report) {
  report.narrow = 0;
  log::warn("a model runs in fp32: {}", report.refused);
  keep(report);
  return {compile(request.graph), std::move(report)};
}

// Compiles the narrow program and measures its loss on the GPU, if that is possible.
Narrowing::Made Narrowing::narrow_program(const Request& request, const Compile& compile,
                                          const Found& found) {
  std::set<std::string> wide;
  for (const Evidence& known : evidence_) wide.insert(known.wide.begin(), known.wide.end());
  Made made{nullptr, found.of.report};
  made.report.types = text_of(request.types);
  made.report.requested = precision_name(options_.to);
  if (!found.exact && made.report.loss) made.report.measured = "another shape";
  Graph narrow = request.graph;
  GraphEditor edit(narrow, &derived_);
  made.report.narrow = to_precision(edit, options_.to, wide);
  edit.finish();
  made.program = compile(std::move(narrow));
  const auto from = Steady::now();
  if (found.of.too_large) {
    const std::string why_not =
        found.of.random ? "it makes random numbers" : measure_whole(request, compile, made);
    if (!why_not.empty())
      made.report.refused = made.report.requested + " was not measured: " + why_not;
  }
  if (const auto loss =
          found.exact ? loss_on_gpu(request, found.of, *made.program) : std::nullopt) {
    made.report.loss = *loss;
    made.report.measured = "gpu";
  }
  made.report.seconds += seconds_between(from, Steady::now());
  return made;
}

Narrowing::Made Narrowing::make(const Request& request, const Compile& compile) {
  const Lock lock(making_);
  const bool measures = std::isfinite(options_.allowed());
  Evidence none;
  const Found found = measures ? measured(request) : Found{none, false};
  Evidence& evidence = found.of;
  if (!evidence.why_not.empty()) {
    PrecisionReport report = evidence.report;
    report.types = text_of(request.types);
    report.refused = report.requested + " was not measured: " + evidence.why_not;
    return in_f32(request, compile, std::move(report));
  }
  Made made = narrow_program(request, compile, found);
  if (!measures) return made;
  const auto is_good = [&] {
    return made.report.loss && *made.report.loss <= made.report.allowed_loss;
  };
  if (!is_good() && found.exact && !evidence.sample.empty() && !evidence.is_quantized) {
    choose(graph_for(evidence.types), options_.allowed() / kStricter, evidence);
    made.program.reset();
    made = narrow_program(request, compile, found);
  }
  if (!is_good()) {
    if (made.report.loss)
      made.report.refused = fmt::format("{} loses {:.2g} of the largest output, more than {:.2g}{}",
                                        made.report.requested, *made.report.loss,
                                        made.report.allowed_loss, blamed_nodes(evidence));
    made.program.reset();
    return in_f32(request, compile, std::move(made.report));
  }
  keep(made.report);
  return made;
}

// ---- reports --------------------------------------------------------------------------------

void Narrowing::keep(const PrecisionReport& report) {
  const Lock lock(mutex_);
  reports_.remove_if([&](const PrecisionReport& other) { return other.types == report.types; });
  reports_.push_front(report);
  if (reports_.size() > kMaxReports) reports_.pop_back();
}

std::vector<PrecisionReport> Narrowing::reports() const {
  const Lock lock(mutex_);
  return {reports_.begin(), reports_.end()};
}

void Narrowing::restore(std::vector<PrecisionReport> reports) {
  for (const PrecisionReport& report : reports) keep(report);
}

std::optional<PrecisionReport> Narrowing::report(std::span<const TensorType> types) const {
  const Lock lock(mutex_);
  const std::string text = text_of(types);
  for (const PrecisionReport& report : reports_)
    if (report.types == text) return report;
  return std::nullopt;
}

}  // namespace sluice::engine
