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

constexpr double kMostSampleBytes = 8e9;  // as NarrowingOptions::sample_flops
constexpr double kLossOfSteps = 0.1;      // allowed where numbers are rounded to steps anyway
constexpr double kStricter = 4;           // where a GPU loses more than was emulated
constexpr double kAnyLoss = std::numeric_limits<double>::infinity();
constexpr std::size_t kMostMeasured = 4;  // kinds of inputs; what is known serves for others
constexpr std::size_t kMostReports = 64;  // twice as many as there are shapes in a plan

std::string text_of(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types)
    text += (text.empty() ? "" : ", ") + std::string(to_string(type.dtype)) + to_string(type.shape);
  return text;
}

// The same with one row each, where the model says what rows are.
std::vector<TensorType> one_row(const Graph& model, std::span<const TensorType> types,
                                compute::Workers& workers) {
  std::vector<TensorType> one(types.begin(), types.end());
  const auto rows = rows_of(model, types);
  if (!rows || rows->count == 1 || !rows_are_independent(model, types, *rows, workers)) return one;
  for (std::size_t i = 0; i < one.size(); ++i)
    if (rows->inputs[i]) one[i].shape[0] = 1;
  return one;
}

// Of such types: the first rows where there are fewer, one row again and again where there are
// more.
std::vector<Tensor> with_rows(std::span<const Tensor> from, std::span<const TensorType> types) {
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

// The first row of an output of several, where it has rows.
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

// Inputs as a warm-up has them: the same number everywhere.
bool says_nothing(std::span<const Tensor> sample) {
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

// Products of small numbers, or what comes before them.
bool is_of_steps(const Graph& graph) {
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

Narrowing::Narrowing(const Graph& model, Derived& derived, compute::Workers& workers,
                     const NarrowingOptions& options)
    : model_(model), derived_(derived), workers_(workers), options_(options) {}

// ---- on the CPU -----------------------------------------------------------------------------

std::span<const TensorType> Narrowing::own(const Wanted& wanted) const {
  return wanted.types.first(model_.inputs.size());
}

Graph Narrowing::graph_for(std::span<const TensorType> types) const {
  Graph graph = specialize(model_, types, workers_);
  optimize(graph, &derived_, Backend::cuda);
  return graph;
}

// Inputs that differ from the samples in size and in kind.
std::vector<std::vector<Tensor>> Narrowing::others(const Evidence& evidence) const {
  std::vector<std::vector<Tensor>> all;
  for (const float by : {0.1f, 4.0f}) all.push_back(scaled(evidence.sample, by));
  try {
    all.push_back(random_inputs(model_, evidence.types, 2));
  } catch (const Error&) {  // there are none of that type
  }
  return all;
}

void Narrowing::take_sample(const Wanted& wanted, const Graph& graph, Evidence& evidence) {
  evidence.random = makes_random_numbers(graph);
  evidence.of_steps = is_of_steps(graph);
  // A step that is rounded the other way is as far off as steps are wide, whichever node it was.
  if (evidence.of_steps) evidence.report.limit = std::max(evidence.report.limit, kLossOfSteps);
  evidence.too_large =
      flops(graph) > options_.sample_flops || Emulation::bytes(graph) > kMostSampleBytes;
  if (evidence.too_large) return;
  evidence.sample = says_nothing(wanted.sample) ? random_inputs(model_, evidence.types)
                                                : with_rows(wanted.sample, evidence.types);
}

void Narrowing::choose(const Graph& graph, double max_loss, Evidence& evidence) {
  const double allowed = evidence.of_steps ? kAnyLoss : max_loss;
  PrecisionChoice choice;
  {
    Emulation run(graph, options_.to, evidence.sample, workers_);
    choice = choose_precision(run, allowed);
    evidence.should_be = run.should_be();
  }
  evidence.report.loss = choice.loss;
  evidence.report.measured = "emulated";
  if (!choice.wide.empty())  // which nodes are to blame depends on the inputs more than it should
    for (const std::vector<Tensor>& other : others(evidence)) try {
        Emulation run(graph, options_.to, other, workers_);
        choice = choose_precision(run, allowed, choice);
        evidence.report.loss = std::max(evidence.report.loss.value_or(0), choice.loss);
      } catch (const Error& error) {  // the model does not take such inputs
        if (error.code() != Code::invalid_argument) throw;
      }
  evidence.report.wide = choice.wide;
  for (const WideNode& node : choice.wide) evidence.wide.insert(node.value);
}

void Narrowing::measure(const Wanted& wanted, Evidence& evidence) {
  const auto from = Steady::now();
  evidence.report.wanted = precision_name(options_.to);
  evidence.report.asked = evidence.report.limit = options_.allowed();
  try {
    const Graph graph = graph_for(evidence.types);
    take_sample(wanted, graph, evidence);
    if (!evidence.too_large) choose(graph, options_.allowed(), evidence);
  } catch (const Cancelled&) {
    throw;
  } catch (const Error& error) {
    if (error.code() == Code::internal) throw;
    evidence.too_large = error.code() == Code::exhausted;  // on the GPU, as a whole
    if (!evidence.too_large) evidence.why_not = error.reason();
    evidence.sample.clear();  // half measured is not measured
    evidence.should_be.clear();
    evidence.report.loss.reset();
    evidence.report.measured.clear();
  }
  evidence.report.seconds = seconds_between(from, Steady::now());
}

// ": Conv node 'stem' (0.02), ...". Measured again, since it is seldom needed.
std::string Narrowing::blamed(const Evidence& evidence) const {
  if (evidence.sample.empty()) return "";
  Emulation run(graph_for(evidence.types), options_.to, evidence.sample, workers_);
  std::vector<bool> narrow = run.candidates();
  for (std::size_t i = 0; i < narrow.size(); ++i)
    for (const ValueId id : run.graph().nodes[i].outputs)
      if (id != kNoValue && evidence.wide.contains(run.graph()[id].name)) narrow[i] = false;
  return ": " + worst_nodes(run, narrow);
}

Narrowing::Found Narrowing::measured(const Wanted& wanted) {
  const std::vector<TensorType> types = one_row(model_, own(wanted), workers_);
  for (Evidence& known : evidence_)
    if (known.types == types) return {known, true};
  if (evidence_.size() >= kMostMeasured) return {evidence_.back(), false};
  Evidence& added = evidence_.emplace_back();
  added.types = types;
  try {
    measure(wanted, added);
  } catch (...) {  // it tells nothing of the model
    evidence_.pop_back();
    throw;
  }
  return {added, true};
}

// ---- on the GPU -----------------------------------------------------------------------------

// None where what it makes cannot be compared.
std::optional<double> Narrowing::loss_on_gpu(const Wanted& wanted, const Evidence& evidence,
                                             const Program& program) const {
  const bool packed = wanted.types.size() > model_.inputs.size();
  if (packed || evidence.random || evidence.should_be.empty()) return std::nullopt;
  const std::vector<Tensor> made = program.run(with_rows(evidence.sample, wanted.types));
  std::vector<Tensor> should, is;
  for (std::size_t i = 0; i < made.size(); ++i)
    if (const auto row = first_row(made[i], evidence.should_be[i])) {
      should.push_back(evidence.should_be[i]);
      is.push_back(*row);
    }
  return loss_of(should, is);
}

// Against f32 on the GPU. Says why nothing is known then.
std::string Narrowing::measure_whole(const Wanted& wanted, const Compile& compile,
                                     Made& made) const {
  std::vector<Tensor> inputs = wanted.sample;
  if (says_nothing(inputs)) {
    if (wanted.types.size() > model_.inputs.size()) return "there are no inputs with padding";
    inputs = random_inputs(model_, wanted.types);
  }
  try {
    const std::vector<Tensor> is = made.program->run(inputs);
    made.report.loss = loss_of(compile(wanted.graph)->run(inputs), is);
    made.report.measured = "gpu";
    return "";
  } catch (const Error& error) {
    if (error.code() != Code::exhausted) throw;
    return "no room to compare it with fp32: " + std::string(error.reason());
  }
}

Narrowing::Made Narrowing::in_f32(const Wanted& wanted, const Compile& compile,
                                  PrecisionReport report) {
  report.narrow = 0;
  log::warn("a model runs in fp32: {}", report.refused);
  keep(report);
  return {compile(wanted.graph), std::move(report)};
}

// With the loss it has on the GPU, where that can be measured.
Narrowing::Made Narrowing::narrow_program(const Wanted& wanted, const Compile& compile,
                                          const Found& found) {
  std::set<std::string> wide;
  for (const Evidence& known : evidence_) wide.insert(known.wide.begin(), known.wide.end());
  Made made{nullptr, found.of.report};
  made.report.types = text_of(wanted.types);
  made.report.wanted = precision_name(options_.to);
  if (!found.exact && made.report.loss) made.report.measured = "another shape";
  Graph narrow = wanted.graph;
  Editor edit(narrow, &derived_);
  made.report.narrow = to_precision(edit, options_.to, wide);
  edit.finish();
  made.program = compile(std::move(narrow));
  const auto from = Steady::now();
  if (found.of.too_large) {
    const std::string why_not =
        found.of.random ? "it makes random numbers" : measure_whole(wanted, compile, made);
    if (!why_not.empty())
      made.report.refused = made.report.wanted + " was not measured: " + why_not;
  }
  if (const auto loss = found.exact ? loss_on_gpu(wanted, found.of, *made.program) : std::nullopt) {
    made.report.loss = *loss;
    made.report.measured = "gpu";
  }
  made.report.seconds += seconds_between(from, Steady::now());
  return made;
}

Narrowing::Made Narrowing::make(const Wanted& wanted, const Compile& compile) {
  const Lock lock(making_);
  const bool measures = std::isfinite(options_.allowed());
  Evidence none;
  const Found found = measures ? measured(wanted) : Found{none, false};
  Evidence& evidence = found.of;
  if (!evidence.why_not.empty()) {
    PrecisionReport report = evidence.report;
    report.types = text_of(wanted.types);
    report.refused = report.wanted + " was not measured: " + evidence.why_not;
    return in_f32(wanted, compile, std::move(report));
  }
  Made made = narrow_program(wanted, compile, found);
  if (!measures) return made;
  const auto is_good = [&] { return made.report.loss && *made.report.loss <= made.report.limit; };
  if (!is_good() && found.exact && !evidence.sample.empty() && !evidence.of_steps) {
    choose(graph_for(evidence.types), options_.allowed() / kStricter, evidence);
    made.program.reset();
    made = narrow_program(wanted, compile, found);
  }
  if (!is_good()) {
    if (made.report.loss)
      made.report.refused =
          fmt::format("{} loses {:.2g} of the largest output, more than {:.2g}{}",
                      made.report.wanted, *made.report.loss, made.report.limit, blamed(evidence));
    made.program.reset();
    return in_f32(wanted, compile, std::move(made.report));
  }
  keep(made.report);
  return made;
}

// ---- what is known --------------------------------------------------------------------------

void Narrowing::keep(const PrecisionReport& report) {
  const Lock lock(mutex_);
  reports_.remove_if([&](const PrecisionReport& other) { return other.types == report.types; });
  reports_.push_front(report);
  if (reports_.size() > kMostReports) reports_.pop_back();
}

std::vector<PrecisionReport> Narrowing::reports() const {
  const Lock lock(mutex_);
  return {reports_.begin(), reports_.end()};
}

void Narrowing::bring(std::vector<PrecisionReport> reports) {
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
