// sluice quantize: writes an int8, int4 or fp8 model, only where its outputs stay within
// --max-loss.
#include "engine/quantize/quantize.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/progress.h"
#include "cli/model/quantize_data.h"
#include "engine/io/hf_import.h"
#include "engine/io/onnx_export.h"
#include "engine/precision/sample_inputs.h"
#include "engine/quantize/quantize_loss.h"
#include "engine/session/session.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using engine::Graph;
using engine::QuantizeOptions;
using engine::RangeMethod;
using Scheme = QuantizeOptions::Scheme;

constexpr std::string_view kQuantizeExamples =
    "  sluice quantize model.onnx -o int8.onnx --calibrate samples/\n"
    "  sluice quantize model.onnx -o int8.onnx --calibrate x1.npy --calibrate x2.npy "
    "--method entropy\n"
    "  sluice quantize model.onnx -o int8.onnx --weights int4 --data samples/\n"
    "  sluice quantize model.onnx -o int8.onnx --precision fp8 --calibrate samples/ "
    "--max-loss 0.05\n"
    "  sluice quantize model.onnx -o int8.onnx --random 8 --shape batch=4   to try it out\n"
    "samples/ has a folder for each set of inputs, with INPUT.npy for each of them. The result is\n"
    "a model of ONNX: sluice run, sluice compile and other runtimes take it.";

struct QuantizeFlags {
  std::string model, output, precision = "int8", weights, method = "minmax", activations = "u8";
  std::vector<std::string> calibrate, data, shapes, keep;
  double max_loss = 0.1, percent = 99.99, seconds = 1;
  std::int64_t block = 32;
  std::size_t random = 0;
  int threads = 0;
  bool json = false;
};

struct Named {
  std::string name;
  engine::OutputLoss loss;
};

struct Result {
  std::size_t quantized_nodes = 0, samples = 0;
  std::vector<Named> outputs{};
  std::size_t bytes_before = 0, bytes = 0;
  double seconds_before = 0, seconds = 0;  // of a run; 0: not measured
  bool random = false, written = false;

  double loss() const {
    double worst = 0;
    for (const Named& output : outputs) worst = std::max(worst, output.loss.relative);
    return worst;
  }
};

QuantizeOptions options_of(const QuantizeFlags& flags) {
  QuantizeOptions options{.block = flags.block};
  if (flags.weights == "int8") options.scheme = Scheme::int8_weights;
  if (flags.weights == "int4") options.scheme = Scheme::int4_weights;
  if (flags.weights.empty() && flags.precision == "fp8") options.scheme = Scheme::fp8;
  options.activations = flags.activations == "i8" ? DType::i8 : DType::u8;
  options.keep.insert(flags.keep.begin(), flags.keep.end());
  return options;
}

RangeMethod method_of(const QuantizeFlags& flags) {
  if (flags.method == "percentile") return {RangeMethod::Kind::percentile, flags.percent};
  return {flags.method == "entropy" ? RangeMethod::Kind::entropy : RangeMethod::Kind::minmax};
}

std::string what_text(const QuantizeFlags& flags) {
  if (!flags.weights.empty()) return "weights as " + flags.weights;
  return flags.precision == "fp8" ? "fp8" : "int8, " + flags.method;
}

class QuantizeRun {
 public:
  QuantizeRun(const QuantizeFlags& flags, Io& io)
      : flags_(flags),
        options_(options_of(flags)),
        progress_(io.err),
        workers_(flags.threads),
        graph_(engine::prepare_to_quantize(engine::import_model(flags.model), workers_)) {
    find_samples();
  }

  Result run() {
    Result result{.quantized_nodes = engine::sites_to_quantize(graph_, options_).size(),
                  .samples = judging_.size()};
    result.random = judging_.random();
    const auto ranges = engine::find_ranges(
        graph_, engine::values_to_quantize(graph_, options_),
        engine::needs_ranges(options_.scheme) ? calibrating_.size() : 0,
        [&](std::size_t i) { return calibrating_.get(graph_, i); }, method_of(flags_), workers_,
        [&](double share) { progress_.show(share * 0.5, "calibrating"); });
    const Graph quantized = engine::quantize(graph_, ranges, options_);
    judge(quantized, result);
    measure(quantized, result);
    result.bytes_before = engine::weight_bytes(graph_);
    result.bytes = engine::weight_bytes(quantized);
    if (result.loss() <= flags_.max_loss) {
      progress_.show(0.95, "writing");
      engine::write_onnx(quantized, flags_.output);
      result.written = true;
    }
    return result;
  }

 private:
  void find_samples() {
    calibrating_ = Samples(graph_, flags_.calibrate);
    judging_ = flags_.data.empty() ? calibrating_ : Samples(graph_, flags_.data);
    const bool calibrates = engine::needs_ranges(options_.scheme);
    if (calibrates && calibrating_.size() == 0 && flags_.random == 0)
      throw Error(Code::invalid_argument,
                  "int8 and fp8 need data like what the model is made for: --calibrate FOLDER, or "
                  "--random 8 to try it out; --weights int8 needs none. The model takes\n" +
                      engine::list_inputs(graph_));
    if (calibrating_.size() > 0 && judging_.size() > 0) return;
    engine::Sizes sizes;
    for (const std::string& shape : flags_.shapes) sizes.add(shape);
    const Samples random(sizes.types(graph_), flags_.random > 0 ? flags_.random : 4);
    if (calibrating_.size() == 0) calibrating_ = random;
    if (judging_.size() == 0) judging_ = random;
  }

  void judge(const Graph& quantized, Result& result) {
    const engine::Session before(graph_, workers_), after(quantized, workers_);
    std::vector<engine::LossMeter> meters(graph_.outputs.size());
    for (std::size_t i = 0; i < judging_.size(); ++i) {
      const std::vector<Tensor> inputs = judging_.get(graph_, i);
      const std::vector<engine::Datum> given(inputs.begin(), inputs.end());
      const auto should = before.run(given), is = after.run(given);
      for (std::size_t k = 0; k < meters.size(); ++k) meters[k].add(should[k].tensor, is[k].tensor);
      progress_.show(0.5 + 0.3 * static_cast<double>(i + 1) / static_cast<double>(judging_.size()),
                     "comparing");
    }
    for (std::size_t k = 0; k < meters.size(); ++k)
      result.outputs.push_back({graph_[graph_.outputs[k]].name, meters[k].loss()});
  }

  // Both in turn, so that what else the machine does slows down both.
  void measure(const Graph& quantized, Result& result) {
    if (flags_.seconds <= 0) return;
    progress_.show(0.85, "measuring");
    const engine::Session sessions[] = {{graph_, workers_}, {quantized, workers_}};
    const std::vector<Tensor> inputs = judging_.get(graph_, 0);
    const std::vector<engine::Datum> given(inputs.begin(), inputs.end());
    std::vector<double> times[2];
    for (const engine::Session& session : sessions) session.run(given);  // compiles
    const auto start = Steady::now();
    while (times[0].size() < 3 || seconds_between(start, Steady::now()) < flags_.seconds)
      for (const std::size_t i : {0u, 1u}) {
        const auto from = Steady::now();
        sessions[i].run(given);
        times[i].push_back(seconds_between(from, Steady::now()));
      }
    for (std::vector<double>& list : times) std::sort(list.begin(), list.end());
    result.seconds_before = times[0][times[0].size() / 2];
    result.seconds = times[1][times[1].size() / 2];
  }

  const QuantizeFlags& flags_;
  const QuantizeOptions options_;
  Progress progress_;
  compute::Workers workers_;
  const Graph graph_;
  Samples calibrating_, judging_;
};

std::string advice(const QuantizeFlags& flags) {
  if (flags.weights == "int4") return "a smaller --block, or --weights int8";
  if (!flags.weights.empty()) return "--keep NODE for the nodes that suffer";
  std::string text =
      flags.method == "minmax" ? "--method entropy or percentile, " : "--method minmax, ";
  return text +
         "more data in --calibrate, --keep NODE for the nodes that suffer, or --weights int8";
}

// The size of the file and of its external tensor file, if there is one.
std::uint64_t file_bytes(const std::string& file) {
  std::error_code none;
  const std::uint64_t more = fs::file_size(file + ".data", none);
  return fs::file_size(file) + (none ? 0 : more);
}

void print_text(const Result& result, const QuantizeFlags& flags, std::ostream& out) {
  out << fmt::format("{} node{}: {}\n", result.quantized_nodes,
                     result.quantized_nodes == 1 ? "" : "s", what_text(flags));
  out << fmt::format("Loss on {} set{} of {}inputs\n", result.samples,
                     result.samples == 1 ? "" : "s", result.random ? "random " : "");
  std::size_t width = 0;
  for (const Named& output : result.outputs) width = std::max(width, output.name.size());
  for (const auto& [name, loss] : result.outputs) {
    out << fmt::format("  {:<{}}  {:.4f} of its size, cosine {:.6f}", name, width, loss.relative,
                       loss.cosine);
    if (loss.top1_agreement)
      out << fmt::format(", top-1 agreement {:.1f} %", *loss.top1_agreement * 100);
    out << "\n";
  }
  out << fmt::format("Weights  {} -> {} ({:.2f}x smaller)\n", human_bytes(result.bytes_before),
                     human_bytes(result.bytes),
                     static_cast<double>(result.bytes_before) / static_cast<double>(result.bytes));
  if (result.seconds > 0)
    out << fmt::format("A run    {} -> {} ({:.2f}x as fast) on this CPU\n",
                       human_duration(result.seconds_before), human_duration(result.seconds),
                       result.seconds_before / result.seconds);
  if (result.written)
    out << fmt::format("{}: {}\n", flags.output, human_bytes(file_bytes(flags.output)));
}

Json number_json(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void print_json(const Result& result, const QuantizeFlags& flags, std::ostream& out) {
  Json outputs = Json::array();
  for (const auto& [name, loss] : result.outputs) {
    outputs.push_back({{"name", name},
                       {"relative_error", number_json(loss.relative)},
                       {"cosine", number_json(loss.cosine)}});
    if (loss.top1_agreement) outputs.back()["top1_agreement"] = *loss.top1_agreement;
  }
  Json report{{"model", flags.model},
              {"what", what_text(flags)},
              {"nodes", result.quantized_nodes},
              {"samples", result.samples},
              {"random_data", result.random},
              {"loss", number_json(result.loss())},
              {"max_loss", flags.max_loss},
              {"outputs", outputs},
              {"weight_bytes_before", result.bytes_before},
              {"weight_bytes", result.bytes}};
  if (result.seconds > 0) {
    report["run_seconds_before"] = result.seconds_before;
    report["run_seconds"] = result.seconds;
    report["speedup"] = result.seconds_before / result.seconds;
  }
  report["written"] = result.written;
  if (result.written) report["file"] = flags.output;
  out << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void add_what(CLI::App& app, QuantizeFlags& flags) {
  app.add_option("model", flags.model, ".onnx file, or folder with config.json and safetensors")
      ->required();
  app.add_option("-o,--output", flags.output, "the .onnx file to write")
      ->required()
      ->check(not_empty("the path of a file"));
  app.add_option("--precision", flags.precision,
                 "int8: a scale for each channel; fp8: e4m3, for GPUs of compute capability 8.9 up")
      ->check(CLI::IsMember({"int8", "fp8"}));
  app.add_option("--weights", flags.weights, "quantize weights only, to int8 or int4")
      ->check(CLI::IsMember({"int8", "int4"}));
  app.add_option("--block", flags.block, "int4 weights per scale (default 32)")
      ->check(CLI::Range(16, 1024));
  app.add_option("--activations", flags.activations,
                 "type of int8 activations: u8 (asymmetric) or i8 (symmetric)")
      ->check(CLI::IsMember({"u8", "i8"}));
  app.add_option("--keep", flags.keep, "a node that is not quantized, by name")
      ->type_name("NODE")
      ->allow_extra_args(false);
}

void add_data(CLI::App& app, QuantizeFlags& flags) {
  app.add_option("--calibrate", flags.calibrate, "inputs to find ranges with: x.npy or a folder")
      ->type_name("PATH")
      ->check(not_empty("a .npy file or a folder"));
  app.add_option("--method", flags.method, "calibration method of the ranges (default minmax)")
      ->check(CLI::IsMember({"minmax", "entropy", "percentile"}));
  app.add_option("--percent", flags.percent, "of values within the range, with percentile (99.99)")
      ->check(CLI::Range(50.0, 100.0));
  app.add_option("--data", flags.data, "inputs to measure the loss on; those of --calibrate else")
      ->type_name("PATH")
      ->check(not_empty("a .npy file or a folder"));
  app.add_option("--random", flags.random, "so many sets of random inputs where no data is given")
      ->check(CLI::Range(1, 100000));
  app.add_option("--shape", flags.shapes, "sizes of random inputs: INPUT=1x128, or SYMBOL=8")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  app.add_option(
         "--max-loss", flags.max_loss,
         "the most that an output may be off, of its size (0.1); beyond it nothing is written")
      ->check(number_between(0, 1e9));
  app.add_option("--seconds", flags.seconds, "how long speed is measured; 0: not at all")
      ->check(CLI::Range(0.0, 600.0));
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags.json, "print JSON");
}

}  // namespace

int quantize(Args args, Io& io) {
  QuantizeFlags flags;
  CLI::App app("Quantizes a model to int8, int4 or fp8, and reports its accuracy and speed.",
               "sluice quantize");
  add_what(app, flags);
  add_data(app, flags);
  if (!parse(app, args, io, kQuantizeExamples)) return 0;
  const Result result = QuantizeRun(flags, io).run();
  flags.json ? print_json(result, flags, io.out) : print_text(result, flags, io.out);
  if (result.written) return 0;
  io.err << fmt::format(
      "sluice: nothing was written: it loses {:.4f}, and --max-loss is {:g}. Try {}.\n",
      result.loss(), flags.max_loss, advice(flags));
  return 1;
}

}  // namespace sluice::cli
