// sluice run: a model on given or random inputs, once.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/new_file.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/library_dirs.h"
#include "cli/model/chrome_trace.h"
#include "cli/model/model_flags.h"
#include "cli/model/model_values.h"
#include "cli/model/plan_flags.h"
#include "engine/open.h"

namespace sluice::cli {
namespace {

using engine::Graph;
using engine::Session;

constexpr std::string_view kRunModelExamples =
    "  sluice run model.onnx                                  random inputs of the declared "
    "shapes\n"
    "  sluice run model.onnx --shape batch=8 --shape sequence=128\n"
    "  sluice run model.onnx --input input_ids=ids.npy --input attention_mask=mask.npy --output "
    "out/\n"
    "  sluice run encoder/ --profile trace.json               a folder with config.json works too\n"
    "  sluice run model.onnx --device cuda --precision fp16\n"
    "  sluice run encoder/ --input input_ids=ids.npy --input attention_mask=mask.npy "
    "--skip-padding\n"
    "Open trace.json at ui.perfetto.dev or chrome://tracing. What was compiled is kept in the "
    "cache\n"
    "folder (engine.plans), so that the next start is quick.";

struct RunModelFlags {
  std::string model, profile;
  DeviceFlags on;
  PlanFlags plans;
  std::vector<std::string> inputs, outputs, shapes;
  bool json = false, node_by_node = false;
  int threads = 0;
};

struct Result {
  std::vector<Tensor> inputs, outputs;
  std::vector<std::string> files;  // of outputs
  std::string why_not;             // compiled
  std::string padding_kept;        // and why
  compute::FallbackCounts fallbacks;
  std::string plan;  // it came from, or was kept in
  PrecisionResult precision;
  bool from_plan = false;
  double device_s = 0, import_s = 0, compile_s = 0, run_s = 0;
  bool random = false;
};

double seconds_since(Steady::time_point from) { return seconds_between(from, Steady::now()); }

std::vector<Tensor> inputs_for(const Graph& graph, const RunModelFlags& flags) {
  if (!flags.inputs.empty()) {
    require(flags.shapes.empty(), "--shape is for random inputs; those of --input have theirs");
    return read_inputs(graph, flags.inputs);
  }
  engine::Sizes sizes;
  for (const std::string& shape : flags.shapes) sizes.add(shape);
  return engine::random_inputs(graph, sizes.types(graph));
}

std::vector<Tensor> tensors_of(std::vector<engine::Datum> data, const Graph& graph) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i].kind != engine::Datum::Kind::tensor)
      throw Error(Code::unavailable,
                  "output '" + graph[graph.outputs[i]].name + "' is a sequence, not a tensor");
    tensors.push_back(std::move(data[i].tensor));
  }
  return tensors;
}

void write_profile(const RunModelFlags& flags, const engine::Program& program,
                   const std::vector<Tensor>& inputs, const compute::Workers& workers) {
  std::vector<engine::StepTime> times;
  program.run(inputs, &times);
  NewFile file(flags.profile);
  file.write(chrome_trace(flags.model, fmt::format("CPU, {} threads", workers.threads()), times));
  file.keep();
}

Result run_once(const RunModelFlags& flags, const Session& session, const OnDevice& on,
                const compute::Workers& workers) {
  Result result;
  result.random = flags.inputs.empty();
  result.inputs = inputs_for(session.graph(), flags);
  auto from = Steady::now();
  const auto [compiled, all] = session.ready(result.inputs);
  result.compile_s = seconds_since(from);
  result.why_not = compiled.why_not;
  result.precision = precision_result(on, compiled);
  result.padding_kept = session.padding_kept();
  const std::vector<engine::Datum> data(result.inputs.begin(), result.inputs.end());
  from = Steady::now();
  result.outputs = tensors_of(session.run(data), session.graph());
  result.run_s = seconds_since(from);
  result.fallbacks = session.fallbacks();
  if (!flags.profile.empty()) {
    if (!compiled.program)
      throw Error(Code::unavailable,
                  "no profile: the model runs node by node, because " + compiled.why_not);
    write_profile(flags, *compiled.program, all, workers);
  }
  result.files = write_outputs(session.graph(), result.outputs, flags.outputs);
  return result;
}

// ---- output ----------------------------------------------------------------------

bool has_numbers(const Tensor& tensor) {
  return tensor.size() > 0 &&
         (engine::kNumbers | engine::Types{DType::boolean}).has(tensor.dtype());
}

std::string about(const Tensor& tensor) {
  if (!has_numbers(tensor)) return "";
  const Summary s = summarize(tensor);
  return fmt::format("min {:.6g}  max {:.6g}  mean {:.6g}{}", s.min, s.max, s.mean,
                     s.not_numbers > 0 ? fmt::format("  {} NaN", s.not_numbers) : "");
}

void print_text(const Graph& graph, const Result& result, const RunModelFlags& flags,
                std::ostream& out) {
  std::size_t width = 0, types = 0;
  const auto measure = [&](const std::vector<engine::ValueId>& ids,
                           const std::vector<Tensor>& list) {
    for (std::size_t i = 0; i < ids.size(); ++i) {
      width = std::max(width, graph[ids[i]].name.size());
      types = std::max(types, type_text(list[i].dtype(), list[i].shape()).size());
    }
  };
  measure(graph.inputs, result.inputs);
  measure(graph.outputs, result.outputs);
  const auto row = [&](engine::ValueId id, const Tensor& t, const std::string& more) {
    out << fmt::format("  {:<{}}  {:<{}}  {}\n", graph[id].name, width,
                       type_text(t.dtype(), t.shape()), types, more);
  };
  out << (result.random ? "Inputs, random\n" : "Inputs\n");
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    row(graph.inputs[i], result.inputs[i], about(result.inputs[i]));
  out << "Outputs\n";
  for (std::size_t i = 0; i < graph.outputs.size(); ++i)
    row(graph.outputs[i], result.outputs[i],
        about(result.outputs[i]) + (result.files[i].empty() ? "" : "  -> " + result.files[i]));
  if (result.device_s > 0)
    out << fmt::format("CUDA started in {}. ", human_duration(result.device_s));
  out << fmt::format("Read in {}, ", human_duration(result.import_s));
  if (result.why_not.empty())
    out << fmt::format("compiled in {}, ran in {}\n", human_duration(result.compile_s),
                       human_duration(result.run_s));
  else
    out << fmt::format("ran in {}, node by node: {}\n", human_duration(result.run_s),
                       result.why_not);
  if (!result.padding_kept.empty())
    out << "Padding is computed too: " << result.padding_kept << "\n";
  out << precision_text(result.precision);
  if (result.fallbacks.total() > 0)
    out << "On the CPU instead of the GPU: " << result.fallbacks.last << "\n";
  if (!result.plan.empty()) out << "Plan: " << result.plan << "\n";
  if (!flags.profile.empty()) out << "Profile: " << flags.profile << "\n";
}

Json value_json(const std::string& name, const Tensor& tensor) {
  Json json{
      {"name", name}, {"type", to_string(tensor.dtype())}, {"shape", shape_json(tensor.shape())}};
  if (!has_numbers(tensor)) return json;
  const Summary s = summarize(tensor);
  json["min"] = s.min;
  json["max"] = s.max;
  json["mean"] = s.mean;
  if (s.not_numbers > 0) json["nan"] = s.not_numbers;
  return json;
}

// {"out_of_memory": 1}
Json fallbacks_json(const compute::FallbackCounts& counts) {
  Json json = Json::object();
  for (std::size_t i = 0; i < compute::kFallbacks; ++i)
    if (counts.by_reason[i] > 0)
      json[std::string(to_string(static_cast<compute::Fallback>(i)))] = counts.by_reason[i];
  return json;
}

void print_json(const Graph& graph, const Result& result, const RunModelFlags& flags,
                std::ostream& out) {
  Json inputs = Json::array(), outputs = Json::array();
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    inputs.push_back(value_json(graph[graph.inputs[i]].name, result.inputs[i]));
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    outputs.push_back(value_json(graph[graph.outputs[i]].name, result.outputs[i]));
    if (!result.files[i].empty()) outputs.back()["file"] = result.files[i];
  }
  Json report{{"model", flags.model},
              {"random_inputs", result.random},
              {"device", flags.on.device},
              {"precision", result.precision.name},
              {"precision_report", precision_json(result.precision)},
              {"compiled", result.why_not.empty()},
              {"from_plan", result.from_plan},
              {"padding_kept", result.padding_kept},
              {"fallbacks", fallbacks_json(result.fallbacks)},
              {"device_ms", 1e3 * result.device_s},
              {"load_ms", 1e3 * (result.import_s + result.compile_s)},
              {"read_seconds", result.import_s},
              {"compile_seconds", result.compile_s},
              {"run_seconds", result.run_s},
              {"inputs", inputs},
              {"outputs", outputs}};
  if (!result.plan.empty()) report["plan"] = result.plan;
  if (!result.why_not.empty()) report["node_by_node_because"] = result.why_not;
  out << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

// Its path, or empty where nothing was kept. What cannot be kept is no reason to fail.
std::string kept_plan(const engine::OpenModel& model, const engine::PlanCache& plans, Io& io) {
  try {
    if (engine::keep_plan(model, plans)) return engine::plan_file(plans.folder, model.key).string();
  } catch (const Error& error) {
    io.err << "sluice: no plan was kept: " << printable_lines(error.reason()) << "\n";
  }
  return model.from.string();
}

void add_options(CLI::App& app, RunModelFlags& flags) {
  app.add_option("model", flags.model,
                 ".onnx file, plan, or folder with config.json and safetensors")
      ->required();
  app.add_option("--input", flags.inputs, "an input's values, [NAME=]FILE.npy")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--shape", flags.shapes, "sizes left open: INPUT=1x128, or SYMBOL=8 (default 1)")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  app.add_option("--output", flags.outputs, "folder for all outputs, or NAME=FILE.npy for one")
      ->type_name("DIR|NAME=FILE")
      ->allow_extra_args(false)
      ->check(not_empty("a folder, or NAME=FILE.npy"));
  app.add_option("--profile", flags.profile, "write when each step ran, as a Chrome trace")
      ->type_name("FILE")
      ->check(not_empty("the path of a file"));
  add_options(app, flags.on);
  add_skip_padding(app, flags.on.skip_padding);
  add_options(app, flags.plans);
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--node-by-node", flags.node_by_node, "do not compile: the operators as they are");
  app.add_flag("--json", flags.json, "print JSON");
}

}  // namespace

int run_model(Args args, Io& io) {
  RunModelFlags flags;
  CLI::App app("Runs a model once, on given inputs or on random ones.", "sluice run");
  add_options(app, flags);
  if (!parse(app, args, io, kRunModelExamples)) return 0;
  compute::Workers workers(flags.threads);
  const engine::PlanCache plans = plan_cache(flags.plans, io);
  OnDevice on = on_device(flags.on, library_dirs(io));
  on.session.compile = !flags.node_by_node;
  const auto from = Steady::now();
  const engine::OpenModel model =
      engine::open_model(flags.model, workers, {on.session, plans, SLUICE_VERSION});
  const double import_s = seconds_since(from);
  if (!model.refused.empty()) io.err << "sluice: " << model.refused << "\n";
  const Session& session = *model.session;
  Result result = run_once(flags, session, on, workers);
  result.import_s = import_s;
  result.device_s = on.seconds;
  result.from_plan = !model.from.empty();
  result.plan = kept_plan(model, plans, io);
  flags.json ? print_json(session.graph(), result, flags, io.out)
             : print_text(session.graph(), result, flags, io.out);
  return 0;
}

}  // namespace sluice::cli
