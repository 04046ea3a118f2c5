// sluice compile: a model as a plan file, which starts in milliseconds.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/units.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "engine/import_hf.h"
#include "engine/open.h"
#include "engine/passes/passes.h"
#include "engine/sample_inputs.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;
using engine::Session;
using Json = nlohmann::ordered_json;

constexpr std::string_view kExamples =
    "  sluice compile model.onnx -o model.plan\n"
    "  sluice compile encoder/ --shape sequence=128 --batch 1,8,32 -o encoder.plan\n"
    "  sluice run model.plan\n"
    "Other shapes still run: they are compiled when they first come.";

struct Flags {
  std::string model, output, precision = "fp32", device = "cpu";
  std::vector<std::string> shapes;
  std::vector<std::int64_t> batches{1};
  int threads = 0;
  bool json = false;
};

// One set of shapes that was compiled.
struct Compiled {
  std::int64_t batch = 1;
  double seconds = 0, run_s = 0;
  std::size_t nodes_before = 0, nodes = 0;
  std::size_t arena = 0, least = 0, unshared = 0;
  std::vector<engine::PassReport> passes{};
};

Compiled compile_for(const Session& session, const std::vector<engine::TensorType>& types,
                     std::int64_t batch, compute::Workers& workers) {
  Compiled made{.batch = batch};
  auto from = Steady::now();
  const Session::Compiled compiled = session.compiled(types);
  if (!compiled.program)
    throw Error(Code::unavailable, "it cannot be compiled for these shapes: " + compiled.why_not);
  made.seconds = seconds_between(from, Steady::now());
  const std::vector<Tensor> inputs = engine::random_inputs(session.graph(), types);
  compiled.program->run(inputs);  // the first touches the memory
  from = Steady::now();
  compiled.program->run(inputs);
  made.run_s = seconds_between(from, Steady::now());
  engine::Graph special = engine::specialize(session.graph(), types, workers);
  made.nodes_before = special.nodes.size();
  made.passes = engine::optimize(special);
  made.nodes = compiled.program->schedule().steps.size();
  made.arena = compiled.program->schedule().arena;
  made.least = compiled.program->schedule().least;
  made.unshared = compiled.program->schedule().unshared;
  return made;
}

std::vector<Compiled> compile_all(const Session& session, const Flags& flags,
                                  compute::Workers& workers, Io& io) {
  Progress progress(io.err);
  std::vector<Compiled> all;
  for (const std::int64_t batch : flags.batches) {
    progress.show(static_cast<double>(all.size()) / static_cast<double>(flags.batches.size()),
                  fmt::format("batch {}", batch));
    engine::Sizes sizes;
    for (const std::string& shape : flags.shapes) sizes.add(shape);
    if (batch > 1) sizes.set_batch(batch);
    all.push_back(compile_for(session, sizes.types(session.graph()), batch, workers));
  }
  return all;
}

void print_text(const std::vector<Compiled>& all, const Flags& flags, std::ostream& out) {
  for (const Compiled& made : all) {
    out << fmt::format("Batch {}: compiled in {}, runs in {}\n", made.batch,
                       human_duration(made.seconds), human_duration(made.run_s));
    out << fmt::format("  {} nodes became {}\n", made.nodes_before, made.nodes);
    for (const engine::PassReport& pass : made.passes)
      out << fmt::format("    {:<40} {} place{}\n", pass.pass, pass.changes,
                         pass.changes == 1 ? "" : "s");
    out << fmt::format("  memory {}, {} if nothing were shared; no placement needs less than {}\n",
                       human_bytes(made.arena), human_bytes(made.unshared),
                       human_bytes(made.least));
  }
  out << fmt::format("{}: {}\n", flags.output, human_bytes(fs::file_size(flags.output)));
}

void print_json(const std::vector<Compiled>& all, const Flags& flags, std::ostream& out) {
  Json shapes = Json::array();
  for (const Compiled& made : all) {
    Json passes = Json::object();
    for (const engine::PassReport& pass : made.passes) passes[pass.pass] = pass.changes;
    shapes.push_back({{"batch", made.batch},
                      {"compile_seconds", made.seconds},
                      {"run_seconds", made.run_s},
                      {"nodes_before", made.nodes_before},
                      {"nodes", made.nodes},
                      {"passes", passes},
                      {"arena_bytes", made.arena},
                      {"least_bytes", made.least},
                      {"unshared_bytes", made.unshared}});
  }
  const Json report{{"model", flags.model},
                    {"plan", flags.output},
                    {"bytes", fs::file_size(flags.output)},
                    {"shapes", shapes}};
  out << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

}  // namespace

int compile(Args args, Io& io) {
  Flags flags;
  CLI::App app("Compiles a model for some shapes and writes a plan.", "sluice compile");
  app.add_option("model", flags.model, ".onnx file, or folder with config.json and safetensors")
      ->required();
  app.add_option("-o,--output", flags.output, "the plan; MODEL.plan otherwise")
      ->check(not_empty("the path of a file"));
  app.add_option("--shape", flags.shapes, "sizes left open: INPUT=1x128, or SYMBOL=8; 1 otherwise")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  app.add_option("--batch", flags.batches, "sizes of the first dimension to compile for")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--precision", flags.precision, "of the arithmetic")
      ->check(CLI::IsMember({"fp32"}));
  app.add_option("--device", flags.device, "where it will run")->check(CLI::IsMember({"cpu"}));
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags.json, "print JSON");
  if (!parse(app, args, io, kExamples)) return 0;
  const fs::path model(flags.model);
  if (flags.output.empty())
    flags.output = (model.has_filename() ? model : model.parent_path()).stem().string() + ".plan";
  compute::Workers workers(flags.threads);
  const Session session(engine::import_model(model), workers);
  const std::vector<Compiled> all = compile_all(session, flags, workers, io);
  engine::write_plan(flags.output, session.plan({engine::model_stamp(model), engine::device_stamp(),
                                                 flags.precision, SLUICE_VERSION}));
  flags.json ? print_json(all, flags, io.out) : print_text(all, flags, io.out);
  return 0;
}

}  // namespace sluice::cli
