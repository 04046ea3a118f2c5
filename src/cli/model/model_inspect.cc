// sluice model inspect: what a model is, and what running it takes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/printable.h"
#include "base/units.h"
#include "cli/common/library_dirs.h"
#include "cli/common/report.h"
#include "cli/model/model_actions.h"
#include "cli/model/model_flags.h"
#include "cli/model/model_values.h"
#include "engine/inspect.h"
#include "engine/io/hf_import.h"

namespace sluice::cli {
namespace {

using engine::CompiledUse;
using engine::Graph;
using engine::Imported;
using engine::Inspection;
using engine::ValueId;

constexpr std::string_view kModelInspectExamples =
    "  sluice model inspect model.onnx\n"
    "  sluice model inspect model.onnx --shape batch=8 --shape sequence=128\n"
    "  sluice model inspect encoder/ --nodes             what runs each node, one line each\n"
    "Arithmetic and memory are for the given shapes; sizes left open are 1.";

std::string in_full(const std::string& domain, const std::string& op) {
  return domain.empty() ? op : domain + "." + op;
}

std::string flops_text(double flops) {
  return flops < 1e9    ? fmt::format("{:.2f} MFLOP", flops / 1e6)
         : flops < 1e12 ? fmt::format("{:.2f} GFLOP", flops / 1e9)
                        : fmt::format("{:.2f} TFLOP", flops / 1e12);
}

std::string count_text(std::size_t n) {
  return n < 10'000 ? std::to_string(n) : fmt::format("{:.1f} M", static_cast<double>(n) / 1e6);
}

// The nodes that one kernel runs for one operator.
struct KernelGroup {
  int nodes = 0;
  double flops = 0;
};
using KernelGroups = std::vector<std::pair<std::pair<std::string, std::string>, KernelGroup>>;

KernelGroups grouped(const CompiledUse& use) {
  std::map<std::pair<std::string, std::string>, KernelGroup> by;
  for (const engine::NodePlacement& place : use.placements) {
    KernelGroup& group = by[{place.op, place.device + ", " + place.kernel}];
    ++group.nodes;
    group.flops += place.flops;
  }
  KernelGroups list(by.begin(), by.end());
  std::ranges::stable_sort(
      list, [](const auto& a, const auto& b) { return a.second.flops > b.second.flops; });
  return list;
}

// ---- for people ------------------------------------------------------------------

void print_values(Report& report, std::string_view kind, const Graph& graph,
                  const std::vector<ValueId>& ids) {
  report.heading(kind, "");
  std::size_t width = 0;
  for (const ValueId id : ids) width = std::max(width, graph[id].name.size());
  for (const ValueId id : ids)
    report.line(
        printable(fmt::format("  {:<{}}  {}", graph[id].name, width, engine::declared(graph[id]))));
}

void print_compiled(Report& report, const CompiledUse& use, bool nodes) {
  report.heading("Compiled", "for these shapes");
  std::string passes;
  for (const engine::PassReport& pass : use.passes)
    passes += (passes.empty() ? "" : ", ") + fmt::format("{} {}", pass.pass, pass.changes);
  report.row("Arithmetic", flops_text(use.flops));
  report.row("Weights", human_bytes(use.weights));
  report.row("Activations",
             fmt::format("{} planned, {} were nothing shared, {} alive at once ({:.2f}x)",
                         human_bytes(use.arena), human_bytes(use.unshared),
                         human_bytes(use.min_arena), use.arena_overhead()));
  if (use.copied > 0) report.row("Copies", human_bytes(use.copied) + " to the CPU and back");
  report.row("Changed", passes.empty() ? "nothing" : passes);
  report.row("Nodes", std::to_string(use.nodes));
  report.heading("Runs", nodes ? "node by node" : "operator, kernel, nodes, arithmetic");
  if (nodes) {
    for (const engine::NodePlacement& place : use.placements)
      report.line(printable(fmt::format("  {:<14} {:<40} {}", place.op,
                                        place.device + ", " + place.kernel, place.node)));
    return;
  }
  for (const auto& [key, place] : grouped(use))
    report.line(fmt::format("  {:<16} {:<44} {:>5}  {:>14}", printable(key.first), key.second,
                            place.nodes, place.flops > 0 ? flops_text(place.flops) : ""));
}

void print_text(const Imported& model, const Inspection& found, bool nodes, std::ostream& out) {
  Report report(out, terminal_behind(out));
  report.heading("Model", model.graph.name);
  report.row("Format", model.format);
  report.row("Producer", model.producer);
  std::string opsets;
  for (const auto& [domain, version] : model.opsets)
    opsets += (opsets.empty() ? "" : ", ") +
              fmt::format("{} {}", domain.empty() ? "ONNX" : domain, version);
  report.row("Opsets", opsets);
  print_values(report, "Inputs", model.graph, model.graph.inputs);
  print_values(report, "Outputs", model.graph, model.graph.outputs);
  report.heading("Parameters", "");
  for (const engine::ParameterUse& use : found.parameters)
    report.row(to_string(use.dtype), fmt::format("{} in {} tensors, {}", count_text(use.elements),
                                                 use.tensors, human_bytes(use.bytes)));
  report.heading("Operators", fmt::format("{} nodes", found.nodes));
  for (const engine::OperatorUse& use : found.operators)
    report.line(fmt::format("  {:<32} {:>6}  {:>14}{}", printable(in_full(use.domain, use.op)),
                            use.nodes, use.flops > 0 ? flops_text(use.flops) : "",
                            use.supported ? "" : "  not supported"));
  if (found.compiled)
    print_compiled(report, *found.compiled, nodes);
  else
    report.heading("Runs", "node by node: " + found.why_not);
}

// ---- for programs ----------------------------------------------------------------

Json values_json(const Graph& graph, const std::vector<ValueId>& ids) {
  Json list = Json::array();
  for (const ValueId id : ids) {
    Json dims;  // null: any rank
    if (graph[id].dims) {
      dims = Json::array();
      for (const engine::Dim& dim : *graph[id].dims)
        dims.push_back(dim.size >= 0 ? Json(dim.size) : Json(dim.symbol));
    }
    list.push_back(
        {{"name", graph[id].name}, {"type", to_string(graph[id].dtype)}, {"shape", dims}});
  }
  return list;
}

Json compiled_json(const Graph& graph, const CompiledUse& use) {
  Json inputs = Json::object(), passes = Json::array(), nodes = Json::array();
  for (std::size_t i = 0; i < use.inputs.size(); ++i)
    inputs[graph[graph.inputs[i]].name] = shape_json(use.inputs[i].shape);
  for (const engine::PassReport& pass : use.passes)
    passes.push_back({{"pass", pass.pass}, {"changes", pass.changes}});
  for (const engine::NodePlacement& place : use.placements)
    nodes.push_back({{"name", place.node},
                     {"operator", place.op},
                     {"device", place.device},
                     {"kernel", place.kernel},
                     {"flops", place.flops}});
  return {
      {"shapes", inputs},           {"flops", use.flops},       {"weight_bytes", use.weights},
      {"copied_bytes", use.copied}, {"arena_bytes", use.arena}, {"unshared_bytes", use.unshared},
      {"min_bytes", use.min_arena}, {"passes", passes},         {"nodes", nodes}};
}

void print_json(const Imported& model, const Inspection& found, std::ostream& out) {
  Json operators = Json::array(), parameters = Json::array(), opsets = Json::object();
  for (const auto& [domain, version] : model.opsets)
    opsets[domain.empty() ? "ai.onnx" : domain] = version;
  for (const engine::OperatorUse& use : found.operators)
    operators.push_back({{"operator", use.op},
                         {"domain", use.domain},
                         {"nodes", use.nodes},
                         {"flops", use.flops},
                         {"supported", use.supported}});
  for (const engine::ParameterUse& use : found.parameters)
    parameters.push_back({{"type", to_string(use.dtype)},
                          {"tensors", use.tensors},
                          {"elements", use.elements},
                          {"bytes", use.bytes}});
  Json report{{"name", model.graph.name},
              {"format", model.format},
              {"producer", model.producer},
              {"opsets", opsets},
              {"inputs", values_json(model.graph, model.graph.inputs)},
              {"outputs", values_json(model.graph, model.graph.outputs)},
              {"nodes", found.nodes},
              {"operators", operators},
              {"parameters", parameters},
              {"compiled", nullptr}};
  if (found.compiled)
    report["compiled"] = compiled_json(model.graph, *found.compiled);
  else
    report["node_by_node_because"] = found.why_not;
  out << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace

int model_inspect(Args args, Io& io) {
  std::string file;
  DeviceFlags on;
  std::vector<std::string> shapes;
  bool json = false, nodes = false;
  CLI::App app("Shows a model, and what it takes to run it.", "sluice model inspect");
  app.add_option("model", file, ".onnx file, or folder with config.json and safetensors")
      ->required();
  app.add_option("--shape", shapes, "sizes left open: INPUT=1x128, or SYMBOL=8 (default 1)")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  app.add_option("--backend", on.device, "what to compile it for: cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--precision", on.precision, "fp32; on a GPU tf32, fp16, bf16 or auto")
      ->check(CLI::IsMember({"fp32", "tf32", "fp16", "bf16", "auto"}));
  app.add_flag("--nodes", nodes, "what runs each node, one line each");
  app.add_flag("--json", json, "print JSON");
  if (!parse(app, args.subspan(1), io, kModelInspectExamples)) return 0;
  const Imported model = engine::import_file(file);
  engine::Sizes sizes;
  for (const std::string& shape : shapes) sizes.add(shape);
  compute::Workers workers;
  const OnDevice place = on_device(on, library_dirs(io));
  const Inspection found = engine::inspect(model.graph, sizes.types(model.graph), workers,
                                           place.session.gpu, place.session.precision);
  json ? print_json(model, found, io.out) : print_text(model, found, nodes, io.out);
  return 0;
}

}  // namespace sluice::cli
