// sluice bench: how fast this machine is. Each suite is a row of kSuites.
#include "memory/bench/bench.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/bench/bench_report.h"
#include "cli/bench/market_peers.h"
#include "cli/bench/tokenizer_rows.h"
#include "cli/common/actions.h"
#include "cli/common/checks.h"
#include "cli/common/commands.h"
#include "cli/common/library_dirs.h"
#include "cli/common/progress.h"
#include "cli/common/report.h"
#include "cli/common/terminal.h"
#include "cli/model/model_actions.h"
#include "cli/text/text_lines.h"
#include "commit.h"
#include "device/detect/detect_nvidia.h"
#include "device/host/cpu.h"
#include "market/bench/bench.h"

namespace sluice::cli {

namespace {

struct BenchFlags {
  bool json = false, quick = false, cpu_only = false;
  std::vector<std::string> only;
  std::string gpu, output;
};

constexpr std::string_view kBenchExamples =
    "  sluice bench device                       every GPU and the CPU, a minute or so\n"
    "  sluice bench device --only gemm --quick   a look at the matrix rates\n"
    "  sluice bench device --json --output bench/results/2026-01-31-device.json";

// ---- arguments -----------------------------------------------------------------

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> names;
  for (const auto list : {device::bench_gpu_names(), device::bench_cpu_names()})
    for (const auto name : list)
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

void require_known(std::string_view suite, const std::vector<std::string_view>& names,
                   const std::vector<std::string>& only) {
  for (const auto& name_start : only) {
    const auto begins = [&](std::string_view name) { return name.starts_with(name_start); };
    if (std::ranges::any_of(names, begins)) continue;
    std::string all;
    for (const auto name : names) all += (all.empty() ? "" : ", ") + std::string(name);
    throw Error(Code::invalid_argument, "bench " + std::string(suite) + ": no figure named '" +
                                            name_start + "'" + did_you_mean(name_start, names) +
                                            "; there are " + all);
  }
}

// ---- the measurements ------------------------------------------------------------

std::string driver_of(const std::string& uuid) {
  try {
    const auto nvml = device::Nvml::open();
    std::vector<std::string> notes;
    for (const auto& gpu : device::detect_nvidia(*nvml, notes))
      if (gpu.uuid == uuid) return gpu.driver_version;
  } catch (const Error&) {  // the figures stand without it
  }
  return {};
}

// Selects GPUs by UUID, a prefix of it, or bus id.
std::vector<device::BenchGpu> chosen(const device::BenchGpus& found, const std::string& given) {
  if (given.empty()) return found.gpus;
  std::vector<device::BenchGpu> gpus;
  std::ranges::copy_if(found.gpus, std::back_inserter(gpus), [&](const device::BenchGpu& gpu) {
    return gpu.uuid.starts_with(given) || gpu.bus == given;
  });
  if (!gpus.empty()) return gpus;
  std::string all;
  for (const auto& gpu : found.gpus) all += "\n  " + gpu.uuid + "  " + gpu.bus + "  " + gpu.name;
  throw Error(Code::not_found, "bench device: no GPU '" + given + "'; " +
                                   (all.empty() ? found.why_none : "there are" + all));
}

device::BenchProgress steps_of(Progress& progress, const std::string& subject) {
  return [&progress, subject](std::string_view title, std::size_t done, std::size_t total) {
    progress.show(static_cast<double>(done) / static_cast<double>(total),
                  subject + ": " + std::string(title));
  };
}

BenchReport blank_report(const BenchFlags& flags, Args args) {
  BenchReport report;
  report.suite = args[0];
  report.command = "sluice bench";
  for (const auto arg : args) report.command += " " + std::string(arg);
  report.version = SLUICE_VERSION;
  report.commit = SLUICE_COMMIT;
  utsname names{};
  if (uname(&names) == 0) {
    report.host = names.nodename;
    report.system = std::string(names.sysname) + " " + names.release + " " + names.machine;
  }
  report.started = WallTime::clock::now();
  report.quick = flags.quick;
  return report;
}

void measure_gpus(const BenchFlags& flags, const device::BenchOptions& options, Progress& progress,
                  BenchReport& report) {
  const auto found = device::bench_gpus();
  for (const auto& gpu : chosen(found, flags.gpu))
    report.subjects.push_back({"gpu", gpu.name, gpu.uuid, gpu.bus, driver_of(gpu.uuid), gpu.cuda,
                               device::bench_gpu(gpu.uuid, options, steps_of(progress, gpu.name))});
  if (found.gpus.empty()) report.notes.push_back("No GPU was measured: " + found.why_none);
}

void measure_cpu(const device::BenchOptions& options, Progress& progress, BenchReport& report) {
  const auto cpu = device::detect_cpu();
  report.subjects.push_back({"cpu", cpu.model, "", "", "", "",
                             device::bench_cpu(cpu, options, steps_of(progress, "CPU"))});
}

// ---- the suites --------------------------------------------------------------------

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw Error(Code::unavailable, "cannot write " + path);
}

// Measures, then prints and writes. `measure` fills the report's subjects.
template <class Measure>
int run_suite(Args args, Io& io, const BenchFlags& flags, Measure measure) {
  auto report = blank_report(flags, args);
  const auto from = Steady::now();
  {
    Progress progress(io.err);
    measure(report, progress);
  }
  report.seconds = seconds_between(from, Steady::now());
  const auto text = to_json(report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  const auto terminal = terminal_behind(io.out);
  io.out << (flags.json ? text : table(report, terminal.width, terminal.pen)) << std::flush;
  if (!flags.output.empty()) write_file(flags.output, text);  // last: the figures are not lost
  return measured(report) ? 0 : 1;
}

void add_common(CLI::App& app, BenchFlags& flags) {
  app.add_flag("--json", flags.json, "print JSON instead of a table");
  app.add_flag("--quick", flags.quick, "smaller sizes, fewer repeats: seconds instead of a minute");
  app.add_option("--gpu", flags.gpu, "this GPU alone: UUID, its beginning, or bus id")
      ->type_name("UUID")
      ->check(not_empty("a GPU, as sluice detect names it"));
  app.add_flag("--cpu", flags.cpu_only, "the CPU alone")->excludes("--gpu");
  app.add_option("--output", flags.output, "also write the JSON to FILE")
      ->type_name("FILE")
      ->check(not_empty("the path of a file"));
}

int bench_device(Args args, Io& io) {
  BenchFlags flags;
  CLI::App app("Measures this machine's memory, links, matrix units and launch path.",
               "sluice bench device");
  add_common(app, flags);
  app.add_option("--only", flags.only, "benchmarks to run, by name or prefix")->type_name("NAME");
  if (!parse(app, args.subspan(1), io, kBenchExamples)) return 0;
  require_known(args[0], known_names(), flags.only);
  const device::BenchOptions options{flags.quick, flags.only, library_dirs(io)};
  return run_suite(args, io, flags, [&](BenchReport& report, Progress& progress) {
    if (!flags.cpu_only) measure_gpus(flags, options, progress, report);
    if (flags.gpu.empty()) measure_cpu(options, progress, report);
  });
}

int bench_memory(Args args, Io& io) {
  BenchFlags flags;
  CLI::App app(
      "Measures what a block of memory costs: our pools beside the driver's own allocators.",
      "sluice bench memory");
  add_common(app, flags);
  if (!parse(app, args.subspan(1), io,
             "  sluice bench memory          a block freed and another allocated, the median\n"
             "  sluice bench memory --cpu    our own code alone, without a GPU"))
    return 0;
  const device::BenchOptions options{flags.quick, {}, {}};
  return run_suite(args, io, flags, [&](BenchReport& report, Progress& progress) {
    const auto found = flags.cpu_only ? device::BenchGpus{} : device::bench_gpus();
    for (const auto& gpu : chosen(found, flags.gpu)) {
      const auto number = std::ranges::find(found.gpus, gpu.uuid, &device::BenchGpu::uuid);
      report.subjects.push_back({"gpu", gpu.name, gpu.uuid, gpu.bus, driver_of(gpu.uuid), gpu.cuda,
                                 memory::bench_gpu(static_cast<int>(number - found.gpus.begin()),
                                                   options, steps_of(progress, gpu.name))});
    }
    if (!found.why_none.empty()) report.notes.push_back("No GPU was measured: " + found.why_none);
    if (flags.gpu.empty())
      report.subjects.push_back({"cpu", device::detect_cpu().model, "", "", "", "",
                                 memory::bench_host(options, steps_of(progress, "CPU"))});
  });
}

int bench_market(Args args, Io& io) {
  BenchFlags flags;
  std::string python = "python3";
  CLI::App app(
      "Measures market analytics beside the hardware's limit and the libraries people use.",
      "sluice bench market");
  add_common(app, flags);
  app.add_option("--only", flags.only, "benchmarks to run, by name or prefix")->type_name("NAME");
  app.add_option(
         "--python", python,
         "Python with the libraries to compare with (TA-Lib, QuantLib, PyTorch); \"\" for none")
      ->type_name("PROGRAM");
  if (!parse(app, args.subspan(1), io,
             "  sluice bench market                          CPU and GPU, a few minutes\n"
             "  sluice bench market --cpu --only ema --quick\n"
             "  sluice bench market --python .venv/bin/python --json"))
    return 0;
  require_known(args[0], market::bench_names(), flags.only);
  const device::BenchOptions options{flags.quick, flags.only, {}};
  return run_suite(args, io, flags, [&](BenchReport& report, Progress& progress) {
    const auto found = flags.cpu_only ? device::BenchGpus{} : device::bench_gpus();
    for (const auto& gpu : chosen(found, flags.gpu)) {
      const auto number = std::ranges::find(found.gpus, gpu.uuid, &device::BenchGpu::uuid);
      const std::shared_ptr<compute::Accelerator> accelerator =
          compute::make_cuda_accelerator({.device = static_cast<int>(number - found.gpus.begin())});
      report.subjects.push_back(
          {"gpu", gpu.name, gpu.uuid, gpu.bus, driver_of(gpu.uuid), gpu.cuda,
           market::bench_gpu(accelerator, options, steps_of(progress, gpu.name))});
    }
    if (!found.why_none.empty()) report.notes.push_back("No GPU was measured: " + found.why_none);
    if (flags.gpu.empty()) {
      compute::Workers workers;
      report.subjects.push_back({"cpu", device::detect_cpu().model, "", "", "", "",
                                 market::bench_cpu(workers, options, steps_of(progress, "CPU"))});
    }
    progress.show(1, "the libraries to compare with");
    add_market_peers(report, python, flags.quick);
  });
}

std::vector<std::string> read_texts(const std::string& path, std::istream& in) {
  LineReader lines(path, in);
  std::vector<std::string> texts;
  std::string_view line;
  while (lines.next(line)) {
    auto item = text_item(line, lines, format_of_texts(path), false);
    if (!item.error.empty()) throw Error(Code::invalid_argument, item.error);
    texts.push_back(std::move(item.text));
  }
  require(!texts.empty(), "bench tokenizer: " + path + " has no texts");
  return texts;
}

int bench_tokenizer(Args args, Io& io) {
  BenchFlags flags;
  std::string model, input;
  std::size_t threads = 0;
  CLI::App app("Measures how fast a tokenizer is on texts of yours.", "sluice bench tokenizer");
  app.add_option("--model", model, "folder or file of the tokenizer")
      ->type_name("PATH")
      ->required()
      ->check(not_empty("a folder or a tokenizer file"));
  app.add_option("--in", input, "texts, one a line; .ndjson: objects with text; -: stdin")
      ->type_name("FILE")
      ->required()
      ->check(not_empty("a file, or - for stdin"));
  app.add_option("--threads", threads, "beside one; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--json", flags.json, "print JSON instead of a table");
  app.add_flag("--quick", flags.quick, "fewer repeats");
  app.add_option("--output", flags.output, "also write the JSON to FILE")
      ->type_name("FILE")
      ->check(not_empty("the path of a file"));
  if (!parse(app, args.subspan(1), io,
             "  sluice bench tokenizer --model all-MiniLM-L6-v2 --in articles.ndjson"))
    return 0;
  const auto tokenizer = text::Tokenizer::open(model);
  const auto texts = read_texts(input, io.in);
  if (threads == 0) threads = std::thread::hardware_concurrency();
  return run_suite(args, io, flags, [&](BenchReport& report, Progress& progress) {
    report.subjects.push_back(
        {"cpu", device::detect_cpu().model, "", "", "", "",
         bench_tokenizer_rows(tokenizer, texts, threads, flags.quick, steps_of(progress, "CPU"))});
  });
}

constexpr Action kSuites[] = {
    {"device", "measure memory, links, GEMM rates and launch latency of GPUs and CPU",
     bench_device},
    {"market", "measure indicators, options, Monte Carlo, backtests; compare with TA-Lib",
     bench_market},
    {"memory", "measure allocation latency: pools, cudaMalloc, cudaMallocAsync", bench_memory},
    {"model", "measure a model's latency, throughput and memory by backend and batch", bench_model},
    {"tokenizer", "measure how much text a tokenizer takes a second, by thread", bench_tokenizer},
};

}  // namespace

int bench(Args args, Io& io) {
  const auto* action =
      find_action({"bench", "suite", kSuites, "Example: sluice bench device --quick"}, args, io);
  return action == nullptr ? 0 : action->run(args, io);
}

}  // namespace sluice::cli
