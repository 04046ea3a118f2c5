// sluice compile: a model as a plan file, which starts in milliseconds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/library_dirs.h"
#include "cli/common/progress.h"
#include "cli/model/model_flags.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/inspect.h"
#include "engine/io/hf_import.h"
#include "engine/io/model_stamp.h"
#include "engine/open.h"
#include "engine/precision/sample_inputs.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using engine::Session;
using Json = nlohmann::ordered_json;

constexpr std::string_view kCompileExamples =
    "  sluice compile model.onnx -o model.plan\n"
    "  sluice compile encoder/ --shape sequence=128 --batch 1,8,32 -o encoder.plan\n"
    "  sluice compile model.onnx --device cuda --precision fp16 -o model.plan\n"
    "  sluice run model.plan\n"
    "Other shapes still run: they are compiled when they first come.";

struct CompileFlags {
  std::string model, output;
  DeviceFlags on;
  std::vector<std::string> shapes;
  std::vector<std::int64_t> batches{1};
  int threads = 0;
  bool json = false;
};

// One set of shapes that was compiled.
struct Compiled {
  std::int64_t batch = 1;
  double seconds = 0, run_s = 0;
  engine::ProgramUse use{};
  std::vector<engine::PassReport> passes{};
  PrecisionResult precision{};
};

Compiled compile_for(const Session& session, const std::vector<engine::TensorType>& types,
                     std::int64_t batch, const OnDevice& on) {
  Compiled made{.batch = batch};
  auto from = Steady::now();
  const Session::Compiled compiled = session.compiled(types);
  if (!compiled.program)
    throw Error(Code::unavailable, "it cannot be compiled for these shapes: " + compiled.why_not);
  if (on.session.gpu && dynamic_cast<const engine::CudaProgram*>(compiled.program.get()) == nullptr)
    throw Error(Code::unavailable, "it cannot be compiled for the GPU: " + session.gpu_failure());
  made.seconds = seconds_between(from, Steady::now());
  const std::vector<Tensor> inputs = engine::random_inputs(session.graph(), types);
  for (int i = 0; i < 2; ++i) compiled.program->run(inputs);  // touches memory, records graphs
  from = Steady::now();
  compiled.program->run(inputs);
  made.run_s = seconds_between(from, Steady::now());
  made.use = engine::use_of(*compiled.program);
  made.passes = compiled.passes;
  made.precision = precision_result(on, compiled);
  return made;
}

std::vector<Compiled> compile_all(const Session& session, const CompileFlags& flags,
                                  const OnDevice& on, Io& io) {
  Progress progress(io.err);
  std::vector<Compiled> all;
  for (const std::int64_t batch : flags.batches) {
    progress.show(static_cast<double>(all.size()) / static_cast<double>(flags.batches.size()),
                  fmt::format("batch {}", batch));
    engine::Sizes sizes;
    for (const std::string& shape : flags.shapes) sizes.add(shape);
    if (batch > 1) sizes.set_batch(batch);
    all.push_back(compile_for(session, sizes.types(session.graph()), batch, on));
  }
  return all;
}

// Numbers of steps by kernel, the largest first.
std::vector<std::pair<std::string, int>> kernels(const engine::ProgramUse& use) {
  std::map<std::string, int> by;
  for (const engine::NodePlacement& place : use.placements)
    ++by[place.device + ", " + place.kernel];
  std::vector<std::pair<std::string, int>> list(by.begin(), by.end());
  std::ranges::stable_sort(list, [](const auto& a, const auto& b) { return a.second > b.second; });
  return list;
}

void print_text(const std::vector<Compiled>& all, const CompileFlags& flags, std::ostream& out) {
  for (const Compiled& made : all) {
    const engine::ProgramUse& use = made.use;
    out << fmt::format("Batch {}: compiled in {}, runs in {}\n", made.batch,
                       human_duration(made.seconds), human_duration(made.run_s));
    out << precision_text(made.precision) << "  Changed\n";
    for (const engine::PassReport& pass : made.passes)
      out << fmt::format("    {:<40} {} place{}\n", pass.pass, pass.changes,
                         pass.changes == 1 ? "" : "s");
    out << fmt::format("  Runs, {} steps\n", use.nodes);
    for (const auto& [kernel, steps] : kernels(use))
      out << fmt::format("    {:<56} {}\n", kernel, steps);
    if (use.copied > 0)
      out << fmt::format("    {} are copied to the CPU and back\n", human_bytes(use.copied));
    out << fmt::format(
        "  Memory: {} of weights, {} of values ({} if nothing were shared), {:.2f}x "
        "the minimum\n",
        human_bytes(use.weights), human_bytes(use.arena), human_bytes(use.unshared),
        use.arena_overhead());
  }
  out << fmt::format("{}: {}\n", flags.output, human_bytes(fs::file_size(flags.output)));
}

void print_json(const std::vector<Compiled>& all, const CompileFlags& flags, std::ostream& out) {
  Json shapes = Json::array();
  for (const Compiled& made : all) {
    Json passes = Json::object();
    for (const engine::PassReport& pass : made.passes) passes[pass.pass] = pass.changes;
    Json steps = Json::object();
    for (const auto& [kernel, count] : kernels(made.use)) steps[kernel] = count;
    shapes.push_back({{"batch", made.batch},
                      {"compile_seconds", made.seconds},
                      {"run_seconds", made.run_s},
                      {"precision", made.precision.name},
                      {"precision_report", precision_json(made.precision)},
                      {"nodes", made.use.nodes},
                      {"passes", passes},
                      {"kernels", steps},
                      {"copied_bytes", made.use.copied},
                      {"weight_bytes", made.use.weights},
                      {"arena_bytes", made.use.arena},
                      {"min_bytes", made.use.min_arena},
                      {"unshared_bytes", made.use.unshared}});
  }
  const Json report{{"model", flags.model},
                    {"device", flags.on.device},
                    {"precision", flags.on.precision},
                    {"plan", flags.output},
                    {"bytes", fs::file_size(flags.output)},
                    {"shapes", shapes}};
  out << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace

int compile(Args args, Io& io) {
  CompileFlags flags;
  CLI::App app("Compiles a model for some shapes and writes a plan.", "sluice compile");
  app.add_option("model", flags.model, ".onnx file, or folder with config.json and safetensors")
      ->required();
  app.add_option("-o,--output", flags.output, "the plan (default: MODEL.plan)")
      ->check(not_empty("the path of a file"));
  app.add_option("--shape", flags.shapes, "sizes left open: INPUT=1x128, or SYMBOL=8 (default 1)")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  app.add_option("--batch", flags.batches, "sizes of the first dimension to compile for")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  add_options(app, flags.on);
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags.json, "print JSON");
  if (!parse(app, args, io, kCompileExamples)) return 0;
  const fs::path model(flags.model);
  if (flags.output.empty())
    flags.output = (model.has_filename() ? model : model.parent_path()).stem().string() + ".plan";
  compute::Workers workers(flags.threads);
  const OnDevice on = on_device(flags.on, library_dirs(io));
  flags.on.precision = on.precision;
  const engine::OpenOptions options{on.session, {}, SLUICE_VERSION};
  const std::string version = engine::model_version(model);
  const std::string content = engine::model_content(model);
  engine::Graph graph = engine::import_model(model);
  engine::require_version(model, version);
  const Session session(std::move(graph), workers, options.session);
  const std::vector<Compiled> all = compile_all(session, flags, on, io);
  engine::write_plan(flags.output, session.plan(engine::plan_key(content, options)));
  flags.json ? print_json(all, flags, io.out) : print_text(all, flags, io.out);
  return 0;
}

}  // namespace sluice::cli
