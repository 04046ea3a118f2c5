#include "compute/choose/choose.h"

#include <fmt/format.h>

#include <algorithm>

namespace sluice::compute {
namespace {

constexpr double kMaxRetryRatio = 3;  // a loser slower than this is not tried again

// Assumed where no copy was measured yet: the rate of slow links, so that the GPU is tried.
constexpr double kAssumedBytesPerSecond = 10e9, kAssumedStart = 20e-6;

double copy_seconds(const Costs& costs, std::string_view copy, std::size_t bytes) {
  if (bytes == 0) return 0;
  const auto work = static_cast<double>(bytes);
  const auto seen = costs.estimate(copy, Processor::gpu, work);
  return seen ? seen->seconds : kAssumedStart + work / kAssumedBytesPerSecond;
}

std::string shown(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.3g} ms", seconds * 1e3) : fmt::format("{:.3g} s", seconds);
}

Choice chosen(Choice choice, Processor on, std::string reason) {
  choice.on = on;
  choice.reason = std::move(reason);
  return choice;
}

Choice by_time(Choice choice, int cpu_runs, int gpu_runs) {
  const double cpu = *choice.cpu_s, gpu = *choice.gpu_s;
  const Processor winner = gpu < cpu ? Processor::gpu : Processor::cpu;
  const bool cpu_lost = winner == Processor::gpu;
  const double won = std::min(cpu, gpu), lost = std::max(cpu, gpu);
  if ((cpu_lost ? cpu_runs : gpu_runs) < kTries && lost < kMaxRetryRatio * won)
    return chosen(std::move(choice), cpu_lost ? Processor::cpu : Processor::gpu,
                  fmt::format("measured {} times only, and {} is near {}",
                              cpu_lost ? cpu_runs : gpu_runs, shown(lost), shown(won)));
  return chosen(std::move(choice), winner,
                fmt::format("{} expected, {} on the {}", shown(won), shown(lost),
                            cpu_lost ? "CPU" : "GPU with its copies"));
}

}  // namespace

std::optional<DevicePreference> device_preference_from(std::string_view name) noexcept {
  if (name == "auto") return DevicePreference::automatic;
  if (name == "cpu") return DevicePreference::cpu;
  if (name == "gpu") return DevicePreference::gpu;
  return std::nullopt;
}

Choice choose(const ChoiceQuery& query, const Costs& costs) {
  const auto cpu = costs.estimate(query.operation, Processor::cpu, query.work);
  const auto gpu = costs.estimate(query.operation, Processor::gpu, query.work);
  const double copies =
      copy_seconds(costs, kCopyIn, query.bytes_in) + copy_seconds(costs, kCopyOut, query.bytes_out);
  Choice choice;
  if (cpu) choice.cpu_s = cpu->seconds;
  if (gpu) choice.gpu_s = gpu->seconds + copies;
  if (query.preference == DevicePreference::cpu)
    return chosen(std::move(choice), Processor::cpu, "the caller requested the CPU");
  if (!query.gpu_unusable.empty())
    return chosen(std::move(choice), Processor::cpu, query.gpu_unusable);
  if (query.preference == DevicePreference::gpu)
    return chosen(std::move(choice), Processor::gpu, "the caller requested the GPU");
  if (!cpu) return chosen(std::move(choice), Processor::cpu, "not measured on the CPU yet");
  if (!gpu && copies >= cpu->seconds)
    return chosen(std::move(choice), Processor::cpu,
                  fmt::format("{} expected; copying to and from the GPU alone takes {}",
                              shown(cpu->seconds), shown(copies)));
  if (!gpu) return chosen(std::move(choice), Processor::gpu, "not measured on the GPU yet");
  return by_time(std::move(choice), cpu->runs, gpu->runs);
}

}  // namespace sluice::compute
