// sluice memory: records and replays allocation traces, and compares placement strategies.
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/bytes.h"
#include "base/error.h"
#include "base/nearest.h"
#include "base/units.h"
#include "cli/common/actions.h"
#include "cli/common/commands.h"
#include "cli/common/progress.h"
#include "cli/common/report.h"
#include "cli/memory/memory_engine.h"
#include "cli/memory/memory_report.h"
#include "memory/trace/torch_snapshot.h"
#include "memory/trace/trace_record.h"
#include "serve/views.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;

// ---- finding a trace -----------------------------------------------------------------

std::vector<std::string_view> shipped_names() {
  std::vector<std::string_view> names;
  for (const auto& file : memory::shipped_traces()) names.push_back(file.name);
  return names;
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

void refuse_compressed(const std::string& bytes, const std::string& path) {
  if (bytes.starts_with("\x1f\x8b"))
    throw Error(Code::invalid_argument, path + " is compressed; gunzip it first");
  if (bytes.empty()) throw Error(Code::invalid_argument, path + " is empty");
}

// A device or a pipe may have no end.
std::string contents_of(const std::string& path) {
  constexpr std::uintmax_t kMaxSnapshotBytes = std::uintmax_t{4} << 30;
  const auto kind = fs::status(path).type();
  require(kind == fs::file_type::regular || kind == fs::file_type::directory ||
              kind == fs::file_type::not_found,
          path + " is neither a trace nor a snapshot: it is no regular file");
  if (kind == fs::file_type::regular)
    require(fs::file_size(path) <= kMaxSnapshotBytes,
            path + " is larger than a snapshot can be (4 GiB)");
  return memory::read_file(path);
}

// Adds the file name to errors.
template <class Read>
memory::Trace read_named(const std::string& path, Read read) {
  try {
    return read();
  } catch (const Error& e) {
    throw Error(e.code(), path + ": " + std::string(e.reason()));
  }
}

// A shipped trace by its name, a trace file, or a snapshot as record takes it.
memory::Trace load(const std::string& what, int device) {
  for (const auto& file : memory::shipped_traces())
    if (file.name == what) return memory::decode(file.bytes());
  if (!fs::exists(what)) {
    const auto names = shipped_names();
    throw Error(Code::not_found, "no file '" + what + "' and no trace of that name" +
                                     did_you_mean(what, names) + "; shipped are " + listed(names));
  }
  const auto bytes = contents_of(what);
  refuse_compressed(bytes, what);
  auto trace = read_named(what, [&] {
    if (!memory::is_torch_snapshot(bytes)) return memory::decode(bytes);
    const auto name = fs::path(what).stem().string();
    return memory::read_torch_snapshot(bytes, {device, name, "PyTorch memory snapshot " + what});
  });
  require(!trace.events.empty(), what + " has no events: nothing was allocated");
  return trace;
}

void add_device(CLI::App& app, int& device) {
  app.add_option("--device", device, "of a PyTorch snapshot, the GPU's number in it (default 0)")
      ->type_name("N")
      ->check(CLI::Range(0, 1023));
}

void print_json(const char* schema, Json traces, std::ostream& out) {
  Json json{{"schema", schema}, {"version", SLUICE_VERSION}, {"traces", std::move(traces)}};
  serve::round_numbers(json);
  out << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

// ---- record ----------------------------------------------------------------------------

constexpr std::string_view kRecordExamples =
    "  sluice memory record model.onnx --shape sequence=128 --batch 1,8,32   our own engine\n"
    "  in Python: torch.cuda.memory._record_memory_history(stacks=\"python\", context=None)\n"
    "             ... the work ...; torch.cuda.memory._dump_snapshot(\"mine.pickle\")\n"
    "  sluice memory record mine.pickle -o mine.trace\n"
    "  sluice memory replay mine.trace";

void say_recorded(const std::string& output, const memory::TraceHeader& header, std::ostream& out) {
  out << fmt::format("{}: {} allocations, {} frees, {} live at the peak, {} blocks left live; {}\n",
                     output, grouped(header.allocations), grouped(header.frees),
                     human_bytes(header.peak_live_bytes), grouped(header.live_at_end),
                     human_bytes(fs::file_size(output)));
  if (header.unknown_frees > 0)
    out << fmt::format(
        "{} frees of blocks from before the recording were left out; start recording before the "
        "model is loaded to have them.\n",
        grouped(header.unknown_frees));
}

struct RecordFlags {
  std::string file, output, name, source;
  int device = 0;
  bool force = false;
  EngineRuns runs;
};

void add_flags(CLI::App& app, RecordFlags& flags) {
  app.add_option("FILE", flags.file,
                 "snapshot of torch.cuda.memory._dump_snapshot; or a model (.onnx, plan, folder)")
      ->required();
  app.add_option("-o,--output", flags.output,
                 "trace to write (default: FILE's name, ending in .trace)")
      ->type_name("TRACE");
  add_device(app, flags.device);
  app.add_option("--shape", flags.runs.shapes,
                 "of a model, sizes left open: INPUT=1x128, or SYMBOL=8 (default 1)")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  app.add_option("--batch", flags.runs.batches, "of a model, sizes of the first dimension, in turn")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--rounds", flags.runs.rounds, "of a model, how often (default 3)")
      ->check(CLI::Range(1, 100'000));
  app.add_flag("--node-by-node", flags.runs.node_by_node,
               "of a model: every value by itself, not the memory that compiling gives them");
  app.add_option("--name", flags.name, "of the trace (default: FILE's name)");
  app.add_option("--source", flags.source, "a sentence about where it comes from");
  app.add_flag("--force", flags.force, "write over a file that exists");
}

memory::Trace record_model(const RecordFlags& flags) {
  memory::TraceHeader header;
  header.name = flags.name;
  header.source = flags.source.empty()
                      ? "Sluice's engine on the CPU, " + fs::path(flags.file).filename().string()
                      : flags.source;
  return record_engine(flags.file, flags.runs, std::move(header));
}

memory::Trace record_snapshot(const RecordFlags& flags) {
  const auto& file = flags.file;
  const auto bytes = contents_of(file);
  refuse_compressed(bytes, file);
  require(!memory::is_trace(bytes), file + " is a trace already; see sluice memory report " + file);
  const auto source = flags.source.empty()
                          ? "PyTorch memory snapshot " + fs::path(file).filename().string()
                          : flags.source;
  return read_named(file, [&] {
    return memory::read_torch_snapshot(bytes, {flags.device, flags.name, source});
  });
}

int record(Args args, Io& io) {
  RecordFlags flags;
  CLI::App app(
      "Turns a PyTorch memory snapshot (pickle or JSON) into a small trace. Nothing in the file\n"
      "is executed. Of a model, runs it on the CPU and records what our own engine asks for. A\n"
      "program records with memory::RecordingAllocator.",
      "sluice memory record");
  add_flags(app, flags);
  if (!parse(app, args, io, kRecordExamples)) return 0;
  auto& output = flags.output;
  if (output.empty()) output = fs::path(flags.file).stem().string() + ".trace";
  if (flags.name.empty()) flags.name = fs::path(output).stem().string();
  require(flags.force || !fs::exists(output),
          output + " exists; choose another -o, or --force to write over it");
  const auto trace = is_model(flags.file) ? record_model(flags) : record_snapshot(flags);
  memory::save_trace(output, trace);
  say_recorded(output, trace.header, io.out);
  return 0;
}

// ---- replay ----------------------------------------------------------------------------

constexpr std::string_view kReplayExamples =
    "  sluice memory replay training              a shipped trace\n"
    "  sluice memory replay mine.trace --arena 8  in 8 GB: what would be refused?\n"
    "  sluice memory replay mine.pickle --strategy best_fit --json\n\n"
    "needs/held  memory the pool holds at its peak\n"
    "effic.      bytes requested / memory held, both at their peak\n"
    "intern.     of what is in blocks at the peak, lost to rounding up\n"
    "extern.     of the memory held, in no block at the peak\n"
    "alloc, free  median and 99th percentile of one call: our code alone, without what a\n"
    "            driver takes to map memory; the median of --passes passes\n"
    "refused     requests that did not fit (--arena)\n"
    "docs/memory-traces.md has the rest.";

struct ReplayFlags {
  std::vector<std::string> traces;
  std::string strategy = "all";
  double arena_gb = 0, growth_mb = 0;
  int passes = 5, device = 0;
  bool json = false;
};

void add_flags(CLI::App& app, ReplayFlags& flags) {
  app.add_option("TRACE", flags.traces, "name, trace file or snapshot (default: those shipped)");
  app.add_option("--strategy", flags.strategy, "first_fit, best_fit, buddy, slab or all")
      ->type_name("NAME");
  app.add_option("--arena", flags.arena_gb,
                 "memory there is, in GB of 2^30 bytes (default: as much as is needed)")
      ->type_name("GB")
      ->check(CLI::Range(0.01, 1e6));
  app.add_option("--growth", flags.growth_mb, "the pool's growth, in MiB (default 16)")
      ->type_name("MIB")
      ->check(CLI::Range(2.0, 1e6));
  app.add_option("--passes", flags.passes, "timed passes (default 5)")->check(CLI::Range(1, 1000));
  add_device(app, flags.device);
  app.add_flag("--json", flags.json, "as JSON");
}

std::vector<memory::StrategyKind> strategies_of(const std::string& name) {
  if (name == "all") return {std::begin(memory::kStrategyKinds), std::end(memory::kStrategyKinds)};
  if (const auto kind = memory::strategy_kind(name)) return {*kind};
  std::vector<std::string_view> names{"all"};
  for (const auto kind : memory::kStrategyKinds) names.push_back(to_string(kind));
  throw Error(Code::invalid_argument, "no strategy named '" + name + "'" +
                                          did_you_mean(name, names) + "; there are " +
                                          listed(names));
}

memory::ReplayOptions options_of(const ReplayFlags& flags) {
  memory::ReplayOptions options;
  if (flags.arena_gb > 0) options.ceiling = static_cast<std::size_t>(flags.arena_gb * kGiB);
  if (flags.growth_mb > 0) options.growth = static_cast<std::size_t>(flags.growth_mb) << 20;
  options.passes = flags.passes;
  return options;
}

void run_all(std::vector<ReplayReport>& reports, const std::vector<memory::StrategyKind>& kinds,
             Progress& progress) {
  const auto total = static_cast<double>(reports.size() * kinds.size());
  double before = 0;
  for (auto& report : reports)
    for (const auto kind : kinds) {
      const auto what = report.trace.header.name + ": " + std::string(to_string(kind));
      const auto show = [&](double done) { progress.show((before + done) / total, what); };
      show(0);
      report.results.push_back(memory::replay(report.trace, kind, report.options, show));
      ++before;
    }
}

int replay(Args args, Io& io) {
  ReplayFlags flags;
  CLI::App app("Replays traces through the strategies of a pool, without any real memory.",
               "sluice memory replay");
  add_flags(app, flags);
  if (!parse(app, args, io, kReplayExamples)) return 0;
  const auto kinds = strategies_of(flags.strategy);
  if (flags.traces.empty())
    for (const auto name : shipped_names()) flags.traces.emplace_back(name);

  std::vector<ReplayReport> reports;
  for (const auto& name : flags.traces)
    reports.push_back({load(name, flags.device), options_of(flags), {}});
  {
    Progress progress(io.err);
    run_all(reports, kinds, progress);
  }
  if (flags.json) {
    Json traces = Json::array();
    for (const auto& report : reports) traces.push_back(replay_json(report));
    print_json("sluice/memory-replay/1", std::move(traces), io.out);
    return 0;
  }
  for (const auto& report : reports) {
    if (&report != &reports.front()) io.out << "\n";
    print_replay(report, io.out, terminal_behind(io.out));
  }
  return 0;
}

// ---- report ----------------------------------------------------------------------------

constexpr std::string_view kReportExamples =
    "  sluice memory report              which traces are shipped\n"
    "  sluice memory report training     what is in one\n"
    "  sluice memory report mine.trace --json";

int list_shipped(bool json, Io& io) {
  Json list = Json::array();
  Report page(io.out, terminal_behind(io.out));
  for (const auto& file : memory::shipped_traces()) {
    const auto trace = memory::decode(file.bytes());
    if (json) {
      list.push_back(trace_json(trace));
      continue;
    }
    page.heading("trace", file.name);
    page.row("from", trace.header.source);
    page.row("asks",
             fmt::format("{} allocations; {} live at the peak", grouped(trace.header.allocations),
                         human_bytes(trace.header.peak_live_bytes)));
  }
  if (json)
    print_json("sluice/memory-report/1", std::move(list), io.out);
  else
    page.line("\nsluice memory report NAME shows what is in one.");
  return 0;
}

int report_trace(Args args, Io& io) {
  std::string what;
  int device = 0;
  bool json = false;
  CLI::App app("Summarizes a trace: sizes, lifetimes, the peak over time, what was left.",
               "sluice memory report");
  app.add_option("TRACE", what, "name, trace file or snapshot");
  add_device(app, device);
  app.add_flag("--json", json, "as JSON");
  if (!parse(app, args, io, kReportExamples)) return 0;
  if (what.empty()) return list_shipped(json, io);
  const auto trace = load(what, device);
  if (!json) {
    print_trace(trace, io.out, terminal_behind(io.out));
    return 0;
  }
  print_json("sluice/memory-report/1", Json::array({trace_json(trace)}), io.out);
  return 0;
}

constexpr Action kActions[] = {
    {"record", "record allocations of a model or a PyTorch snapshot as a trace", record},
    {"replay", "replay traces with every pool strategy, and recommend one", replay},
    {"report", "summarize a trace: sizes, lifetimes, peak", report_trace},
};

}  // namespace

int memory(Args args, Io& io) {
  const auto* action = find_action(
      {"memory", "action", kActions, "Example: sluice memory replay training"}, args, io);
  return action == nullptr ? 0 : action->run(args.subspan(1), io);
}

}  // namespace sluice::cli
