#include "cli/model/model_timing.h"

#include <algorithm>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "device/bench/bench.h"
#include "device/catalogue.h"
#include "device/host/cpu.h"
#include "engine/exec/cuda/cuda_program.h"
#include "engine/inspect.h"
#include "engine/open.h"
#include "engine/shapes/flops.h"

namespace sluice::cli {
namespace {

using engine::Graph;
using engine::TensorType;

constexpr std::size_t kMinRuns = 10, kMaxRuns = 100'000;
constexpr double kWarmUp = 0.2;  // of the time to measure

std::vector<TensorType> types_of(std::span<const Tensor> inputs) {
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) types.push_back({input.dtype(), input.shape()});
  return types;
}

// `run` gives the seconds that one run took.
template <class Run>
void measure(Run&& run, double seconds, Timing& timing) {
  const auto begin = Steady::now();
  for (int i = 0; i < 3 || seconds_between(begin, Steady::now()) < kWarmUp * seconds; ++i) run();
  std::vector<double> times;
  const auto start = Steady::now();
  while (times.size() < kMaxRuns &&
         (times.size() < kMinRuns || seconds_between(start, Steady::now()) < seconds))
    times.push_back(run());
  std::ranges::sort(times);
  timing.runs = times.size();
  timing.p50_s = times[times.size() / 2];
  timing.p99_s = times[std::min(times.size() - 1, times.size() * 99 / 100)];
}

std::size_t constant_bytes(const Graph& graph) {
  std::set<const void*> seen;
  std::size_t bytes = 0;
  for (const engine::Value& value : graph.values)
    if (value.constant && seen.insert(value.constant.data()).second)
      bytes += value.constant.bytes();
  return bytes;
}

// 0 where the graph cannot be counted before it runs.
double flops_of(const Graph& graph, std::span<const Tensor> inputs, compute::Workers& workers) {
  try {
    return engine::flops(engine::specialize(graph, types_of(inputs), workers));
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    return 0;
  }
}

class TimedSession final : public TimedModel {
 public:
  TimedSession(const std::string& model, const OnDevice& on, const engine::PlanCache& plans,
               compute::Workers& workers, bool resident)
      : workers_(workers),
        on_(on),
        gpu_(on.session.gpu),
        resident_(resident),
        plans_(plans),
        begin_(Steady::now()),
        model_(engine::open_model(model, workers, {on.session, plans, SLUICE_VERSION})),
        session_(*model_.session),
        read_s_(seconds_between(begin_, Steady::now())) {}

  const Graph& graph() const noexcept override { return session_.graph(); }
  const std::string& refused() const noexcept override { return model_.refused; }
  void keep() const override { engine::keep_plan(model_, plans_); }

  Timing time(std::span<const Tensor> inputs, double seconds) override {
    Timing timing{.device_s = on_.seconds, .from_plan = !model_.from.empty()};
    const auto compiling = Steady::now();
    const auto [compiled, all] = session_.ready(inputs);
    timing.load_s = read_s_ + seconds_between(compiling, Steady::now());
    timing.precision = precision_result(on_, compiled);
    const bool packed = all.size() > inputs.size();  // padding is not work that is done
    timing.flops = packed ? engine::flops(compiled.program->graph())
                          : flops_of(session_.graph(), inputs, workers_);
    timing.memory = constant_bytes(session_.graph());
    if (!compiled.program)
      timing.note = "node by node: " + compiled.why_not;
    else
      describe(*compiled.program, timing);
    if (const std::string why = session_.padding_kept(); !why.empty())
      timing.note += (timing.note.empty() ? "" : "; ") + ("padding is computed too: " + why);
    if (timing.precision.name != on_.precision)
      timing.note +=
          (timing.note.empty() ? "" : "; ") + ("in fp32: " + timing.precision.report->refused);
    const auto* const on_gpu = dynamic_cast<const engine::CudaProgram*>(compiled.program.get());
    if (resident_ && on_gpu != nullptr) {
      measure_resident(*on_gpu, all, seconds, timing);
      return timing;
    }
    const std::vector<engine::Datum> data(inputs.begin(), inputs.end());
    measure(
        [&] {
          const auto from = Steady::now();
          session_.run(data);
          return seconds_between(from, Steady::now());
        },
        seconds, timing);
    if (const std::string fell_back = compute::describe(session_.fallbacks()); !fell_back.empty())
      timing.note += (timing.note.empty() ? "" : "; ") + fell_back;
    return timing;
  }

 private:
  static void describe(const engine::Program& program, Timing& timing) {
    const engine::ProgramUse use = engine::use_of(program);
    timing.memory = use.weights + use.arena;
    const auto* const on_gpu = dynamic_cast<const engine::CudaProgram*>(&program);
    if (on_gpu == nullptr) return;
    const engine::CudaReport report = on_gpu->report();
    timing.memory = report.constants + report.arena + report.io_bytes;
    if (!report.on_host.empty())
      timing.note = std::to_string(report.on_host.size()) + " nodes on the CPU, with copies";
  }

  void measure_resident(const engine::CudaProgram& program, std::span<const Tensor> inputs,
                        double seconds, Timing& timing) const {
    std::vector<engine::cuda::ConstMemory> given;
    std::vector<engine::cuda::Memory> made;
    std::vector<void*> from, to;
    for (const Tensor& input : inputs) {
      given.push_back(gpu_->constant(input));
      from.push_back(const_cast<void*>(given.back().get()));
    }
    for (const engine::ValueId id : program.graph().outputs) {
      made.push_back(gpu_->allocate(engine::type_of(program.graph()[id]).bytes()));
      to.push_back(made.back().get());
    }
    measure([&] { return program.run_on_device(from, to) * 1e-6; }, seconds, timing);
  }

  compute::Workers& workers_;
  const OnDevice on_;
  const std::shared_ptr<engine::cuda::Context> gpu_;
  const bool resident_;
  const engine::PlanCache plans_;
  const Instant begin_;
  const engine::OpenModel model_;
  const engine::Session& session_;
  const double read_s_;
};

}  // namespace

std::unique_ptr<TimedModel> timed_model(const std::string& model, const DeviceFlags& on,
                                        const engine::PlanCache& plans, compute::Workers& workers,
                                        const std::vector<std::string>& library_dirs,
                                        bool resident) {
  return std::make_unique<TimedSession>(model, on_device(on, library_dirs), plans, workers,
                                        resident);
}

DevicePeak device_peak(const std::string& backend, const std::string& precision,
                       const std::vector<std::string>& library_dirs) {
  if (backend == "cpu") {  // measured: what a processor's clock does under load nobody writes down
    const auto cpu = device::detect_cpu();
    const auto rows = device::bench_cpu(
        cpu, {.quick = true, .only = {"gemm_fp32"}, .library_dirs = library_dirs}, [](auto...) {});
    return {cpu.model, rows.empty() ? 0 : rows[0].value.value_or(0)};
  }
  const auto found = device::bench_gpus();
  if (found.gpus.empty()) return {};
  const auto card = device::find_card(found.gpus[0].name, std::nullopt);
  const auto peak_type = precision == "tf32"   ? device::Precision::tf32
                         : precision == "fp16" ? device::Precision::fp16
                         : precision == "bf16" ? device::Precision::bf16
                                               : device::Precision::fp32;
  return {found.gpus[0].name, card ? card->peaks.of(peak_type).value_or(0) : 0};
}

}  // namespace sluice::cli
