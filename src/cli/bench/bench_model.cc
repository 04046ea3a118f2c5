// sluice bench model: a model's latency, throughput and memory by backend, precision and batch.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/units.h"
#include "cli/common/draw.h"
#include "cli/common/library_dirs.h"
#include "cli/common/progress.h"
#include "cli/common/report.h"
#include "cli/model/model_actions.h"
#include "cli/model/model_timing.h"
#include "cli/model/model_values.h"
#include "cli/model/plan_flags.h"
#include "commit.h"

namespace sluice::cli {
namespace {

constexpr std::string_view kBenchModelExamples =
    "  sluice bench model model.onnx --batch 1,8,32 --shape sequence=128\n"
    "  sluice bench model model.onnx --backend cpu,cuda --precision fp32,tf32 --json\n"
    "  sluice bench model model.onnx --find-batch            the curve, and the best batch on it\n"
    "Times are from inputs in the host's memory to outputs there, unless they are --resident.";

constexpr std::int64_t kMaxBatch = 1024;

struct BenchModelFlags {
  std::string model;
  std::vector<std::string> shapes, inputs, backends{"cpu"}, precisions{"fp32"};
  std::vector<std::int64_t> batches;
  double seconds = 2;
  std::optional<double> max_loss{};
  PlanFlags plans;
  int threads = 0;
  bool json = false, find_batch = false, no_peak = false, resident = false, skip_padding = false;
};

struct Row {
  std::string backend, precision;
  std::int64_t batch;
  std::optional<Timing> timing{};  // none: `problem` says why
  std::string problem{};

  double per_second() const { return static_cast<double>(batch) / timing->p50_s; }
};

class Bench {
 public:
  Bench(const BenchModelFlags& flags, Io& io)
      : flags_(flags),
        err_(io.err),
        progress_(io.err),
        dirs_(library_dirs(io)),
        plans_(plan_cache(flags.plans, io)),
        workers_(flags.threads) {}

  void run() {
    for (const std::string& backend : flags_.backends)
      for (const std::string& precision : flags_.precisions) run(backend, precision);
  }

  const std::vector<Row>& rows() const { return rows_; }
  const std::map<std::string, DevicePeak>& peaks() const { return peaks_; }
  int threads() const { return workers_.threads(); }

  std::optional<double> percent(const Row& row) const {
    const auto peak = peaks_.find(row.backend + " " + row.precision);
    if (!row.timing || row.timing->flops == 0 || peak == peaks_.end() || peak->second.flops == 0)
      return std::nullopt;
    return 100 * row.timing->flops / row.timing->p50_s / peak->second.flops;
  }

 private:
  void run(const std::string& backend, const std::string& precision) {
    try {
      const auto model =
          timed_model(flags_.model, {backend, precision, flags_.skip_padding, flags_.max_loss},
                      plans_, workers_, dirs_, flags_.resident);
      if (!model->refused().empty()) err_ << "sluice: " << model->refused() << "\n";
      if (!flags_.no_peak) {
        progress_.show(0, backend + ": its peak");
        peaks_[backend + " " + precision] = device_peak(backend, precision, dirs_);
      }
      if (flags_.find_batch) search(*model, backend, precision);
      for (std::size_t i = 0; !flags_.find_batch && i < flags_.batches.size(); ++i) {
        progress_.show(static_cast<double>(i) / static_cast<double>(flags_.batches.size()),
                       fmt::format("{} {} batch {}", backend, precision, flags_.batches[i]));
        measure(*model, {backend, precision, flags_.batches[i]});
      }
      keep(*model);
    } catch (const Error& error) {
      rows_.push_back({backend, precision, 0, std::nullopt, std::string(error.reason())});
    }
  }

  void keep(const TimedModel& model) {
    try {
      model.keep();
    } catch (const Error& error) {
      err_ << "sluice: no plan was kept: " << error.reason() << "\n";
    }
  }

  // Doubles the batch until two steps brought less than 3 % or memory ends.
  void search(TimedModel& model, const std::string& backend, const std::string& precision) {
    double best = 0;
    int worse = 0;
    for (std::int64_t batch = 1; batch <= kMaxBatch && worse < 2; batch *= 2) {
      progress_.show(0, fmt::format("{} {} batch {}", backend, precision, batch));
      measure(model, {backend, precision, batch});
      if (!rows_.back().timing) return;
      const double rate = rows_.back().per_second();
      worse = rate < 1.03 * best ? worse + 1 : 0;
      best = std::max(best, rate);
    }
  }

  void measure(TimedModel& model, Row row) {
    try {
      const std::vector<Tensor> given = inputs(model.graph(), row.batch);
      if (row.batch == 0)
        row.batch = given.empty() || given[0].rank() == 0 ? 1 : given[0].shape()[0];
      row.timing = model.time(given, flags_.seconds);
    } catch (const Error& error) {
      row.problem = error.reason();
    } catch (const std::bad_alloc&) {
      row.problem = "not enough memory";
    }
    raise_peak(row);
    rows_.push_back(std::move(row));
  }

  // A CPU's peak is measured, and too low where other programs ran meanwhile: what a model reached
  // is within it.
  void raise_peak(const Row& row) {
    const auto peak = peaks_.find(row.backend + " " + row.precision);
    if (row.backend == "cpu" && row.timing && peak != peaks_.end() && peak->second.flops > 0)
      peak->second.flops = std::max(peak->second.flops, row.timing->flops / row.timing->p50_s);
  }

  std::vector<Tensor> inputs(const engine::Graph& graph, std::int64_t batch) const {
    if (!flags_.inputs.empty()) return read_inputs(graph, flags_.inputs);
    engine::Sizes sizes;
    for (const std::string& shape : flags_.shapes) sizes.add(shape);
    if (batch > 0) sizes.set_batch(batch);
    return engine::random_inputs(graph, sizes.types(graph));
  }

  const BenchModelFlags& flags_;
  std::ostream& err_;
  Progress progress_;
  std::vector<std::string> dirs_;
  engine::PlanCache plans_;
  compute::Workers workers_;
  std::vector<Row> rows_;
  std::map<std::string, DevicePeak> peaks_;
};

// The row with the highest throughput for each backend and precision.
bool is_best(const std::vector<Row>& rows, const Row& row) {
  return row.timing && std::ranges::all_of(rows, [&](const Row& other) {
           return !other.timing || other.backend != row.backend ||
                  other.precision != row.precision || other.per_second() <= row.per_second();
         });
}

// Prints the start time of each backend and precision, from its first row.
void print_starts(const Bench& bench, std::ostream& out) {
  std::string last;
  for (const Row& row : bench.rows()) {
    const std::string key = row.backend + " " + row.precision;
    if (!row.timing || key == last) continue;
    last = key;
    const std::string cuda = row.timing->device_s > 0
                                 ? ", after " + human_duration(row.timing->device_s) + " for CUDA"
                                 : "";
    out << fmt::format("{} was ready in {}{}{}\n", key, human_duration(row.timing->load_s), cuda,
                       row.timing->from_plan ? ", from its plan" : "");
  }
}

void print_text(const Bench& bench, const BenchModelFlags& flags, std::ostream& out) {
  const Pen pen = terminal_behind(out).pen;
  double best = 0;
  for (const Row& row : bench.rows())
    if (row.timing) best = std::max(best, row.per_second());
  out << fmt::format("{:<8} {:<10} {:>5} {:>10} {:>10} {:>12} {:>10} {:>8}\n", "backend",
                     "precision", "batch", "p50", "p99", "throughput", "memory", "of peak");
  for (const Row& row : bench.rows()) {
    const std::string batch = row.batch > 0 ? std::to_string(row.batch) : "";
    out << fmt::format("{:<8} {:<10} {:>5} ", row.backend, row.precision, batch);
    if (!row.timing) {
      out << paint(row.problem, Ink::warn, pen) << "\n";
      continue;
    }
    const auto percent = bench.percent(row);
    out << fmt::format("{:>10} {:>10} {:>12} {:>10} {:>8}", human_duration(row.timing->p50_s),
                       human_duration(row.timing->p99_s),
                       fmt::format("{:.4g} /s", row.per_second()), human_bytes(row.timing->memory),
                       percent ? fmt::format("{:.0f} %", *percent) : "");
    if (flags.find_batch)
      out << "  " << bar(row.per_second() / best, 20, pen, Ink::accent)
          << (is_best(bench.rows(), row) ? " best" : "");
    out << (row.timing->note.empty() ? "" : "  " + row.timing->note) << "\n";
  }
  print_starts(bench, out);
  for (const auto& [key, peak] : bench.peaks())
    if (peak.flops > 0)
      out << fmt::format("Peak of {}: {} ({}{})\n", key, human_rate(peak.flops, "FLOP"), peak.name,
                         key.starts_with("cpu") ? ", large GEMMs measured now" : "");
}

void print_json(const Bench& bench, const BenchModelFlags& flags, std::ostream& out) {
  Json rows = Json::array(), peaks = Json::object();
  for (const auto& [key, peak] : bench.peaks())
    peaks[key] = {{"device", peak.name}, {"flops_per_second", peak.flops}};
  for (const Row& row : bench.rows()) {
    Json json{{"backend", row.backend}, {"precision", row.precision}, {"batch", row.batch}};
    if (row.timing) {
      json["runs"] = row.timing->runs;
      json["p50_seconds"] = row.timing->p50_s;
      json["p99_seconds"] = row.timing->p99_s;
      json["per_second"] = row.per_second();
      json["memory_bytes"] = row.timing->memory;
      json["flops"] = row.timing->flops;
      json["device_ms"] = 1e3 * row.timing->device_s;
      json["load_ms"] = 1e3 * row.timing->load_s;
      json["from_plan"] = row.timing->from_plan;
      json["precision_report"] = precision_json(row.timing->precision);
      if (const auto percent = bench.percent(row)) json["percent_of_peak"] = *percent;
      if (!row.timing->note.empty()) json["note"] = row.timing->note;
      if (flags.find_batch) json["best"] = is_best(bench.rows(), row);
    } else {
      json["problem"] = row.problem;
    }
    rows.push_back(std::move(json));
  }
  const Json report{{"suite", "model"},
                    {"model", flags.model},
                    {"version", SLUICE_VERSION},
                    {"commit", SLUICE_COMMIT},
                    {"threads", bench.threads()},
                    {"peaks", peaks},
                    {"rows", rows}};
  out << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void add_options(CLI::App& app, BenchModelFlags& flags) {
  app.add_option("model", flags.model, ".onnx file, or folder with config.json and safetensors")
      ->required();
  app.add_option("--batch", flags.batches, "sizes of the first dimension, 1,8,32")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, kMaxBatch * kMaxBatch));
  app.add_option("--shape", flags.shapes, "other sizes left open: INPUT=1x128, or SYMBOL=128")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  app.add_option("--input", flags.inputs, "values instead of random ones, [NAME=]FILE.npy")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--backend", flags.backends, "cpu, cuda or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--precision", flags.precisions, "fp32, tf32, ...")
      ->delimiter(',')
      ->check(CLI::IsMember({"fp32", "tf32", "fp16", "bf16", "fp8", "int8", "auto"}));
  add_max_loss(app, flags.max_loss);
  app.add_option("--seconds", flags.seconds, "for each row")->check(CLI::Range(0.01, 600.0));
  app.add_option("--threads", flags.threads, "CPU threads; 0: all this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--find-batch", flags.find_batch, "double the batch for as long as it pays");
  app.add_flag("--resident", flags.resident,
               "on a GPU: inputs and outputs stay there, its work alone is timed");
  add_skip_padding(app, flags.skip_padding);
  add_options(app, flags.plans);
  app.add_flag("--no-peak", flags.no_peak, "leave out what the device can do at most");
  app.add_flag("--json", flags.json, "print JSON");
}

}  // namespace

int bench_model(Args args, Io& io) {
  BenchModelFlags flags;
  CLI::App app("Measures a model: latency, throughput and memory.", "sluice bench model");
  add_options(app, flags);
  if (!parse(app, args.subspan(1), io, kBenchModelExamples)) return 0;
  const bool given = !flags.inputs.empty();
  require(!given || (flags.batches.empty() && flags.shapes.empty() && !flags.find_batch),
          "--input says the shapes: leave out --batch, --shape and --find-batch");
  if (flags.batches.empty()) flags.batches = {given ? 0 : 1};
  Bench bench(flags, io);
  bench.run();
  flags.json ? print_json(bench, flags, io.out) : print_text(bench, flags, io.out);
  return std::ranges::any_of(bench.rows(), [](const Row& row) { return row.timing.has_value(); })
             ? 0
             : 1;
}

}  // namespace sluice::cli
