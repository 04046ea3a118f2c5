// Each rule checks every GPU and names those that break it.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/units.h"
#include "device/doctor/doctor_checks.h"
#include "device/reading.h"

namespace sluice::device {

namespace {

constexpr std::pair<int, int> kOldestCompute{6, 0};
// 4 GB on the box; drivers keep some of it back, so the line is a little lower.
constexpr std::uint64_t kMinMemory = 3'800'000'000;

// Checks of one GPU.
struct Complaint {
  std::string bus, text;  // text: "NVIDIA H200 at 0000:04:00.0: what"
};

using Judge = std::function<std::string(const GpuFacts&)>;  // "" for nothing wrong
std::vector<Complaint> complaints(const Facts& f, const Judge& judge) {
  std::vector<Complaint> found;
  for (const auto& gpu : f.gpus)
    if (gpu.silence.empty())
      if (auto what = judge(gpu); !what.empty())
        found.push_back({gpu.bus, gpu.name + " at " + gpu.bus + ": " + what});
  return found;
}

std::string reset_command(const std::vector<Complaint>& found) {
  return "sudo nvidia-smi --gpu-reset -i " + found.front().bus;
}

template <class Known>
std::size_t count_known(const Facts& f, Known known) {
  return static_cast<std::size_t>(std::ranges::count_if(
      f.gpus, [&](const GpuFacts& gpu) { return gpu.silence.empty() && known(gpu); }));
}

std::string joined(const std::vector<Complaint>& found) {
  std::string all;
  for (const auto& complaint : found) all += (all.empty() ? "" : "; ") + complaint.text;
  return all;
}

// A card that is too small is no obstacle while another is fit.
Verdict unless_others(std::size_t bad, std::size_t known) {
  return bad < known ? Verdict::warn : Verdict::fail;
}

int number_of(std::pair<int, int> compute) { return 10 * compute.first + compute.second; }

}  // namespace

MaybeCheck check_answers(const Facts& f) {
  if (f.gpus.empty()) return std::nullopt;
  Check c{"gpu-answers", "every GPU answers", Verdict::pass, {}, {}};
  std::vector<Complaint> silent;
  for (const auto& gpu : f.gpus)
    if (!gpu.silence.empty())
      silent.push_back({gpu.bus, (gpu.bus.empty() ? gpu.uuid : gpu.bus) + ": " + gpu.silence});
  // A container may have been given some of the cards; only outside of one is a card
  // that the bus shows and the driver does not a sign of trouble.
  if (f.container && f.container->empty())
    for (const auto& bus : f.nvidia_cards)
      if (std::ranges::find(f.gpus, bus, &GpuFacts::bus) == f.gpus.end())
        silent.push_back({bus, bus + ": on the bus, but the driver does not show it"});
  if (silent.empty()) {
    c.detail = fmt::format("{} of {}", f.gpus.size(), f.gpus.size());
    return c;
  }
  c.status = Verdict::fail;
  c.detail = joined(silent);
  c.fix = silent.front().bus.empty() ? "dmesg | grep NVRM says which and why"
                                     : "stop what uses it and try " + reset_command(silent);
  c.fix += "; if it stays silent, reboot and look at power, cooling and seating";
  return c;
}

MaybeCheck check_compute(const Facts& f) {
  const auto known = count_known(f, [](const GpuFacts& g) { return g.compute.has_value(); });
  if (known == 0) return std::nullopt;
  const auto bad = complaints(f, [](const GpuFacts& g) {
    return g.compute && *g.compute < kOldestCompute
               ? fmt::format("{}.{}", g.compute->first, g.compute->second)
               : std::string();
  });
  Check c{"compute-capability", "compute capability", Verdict::pass, {}, {}};
  if (bad.empty()) {
    auto min_compute = std::pair{99, 0};
    for (const auto& gpu : f.gpus)
      if (gpu.compute) min_compute = std::min(min_compute, *gpu.compute);
    c.detail = fmt::format("{}.{}, at least 6.0 needed", min_compute.first, min_compute.second);
    return c;
  }
  c.status = unless_others(bad.size(), known);
  c.detail = joined(bad) + "; at least 6.0 needed";
  c.fix = "Sluice will not use it: a Pascal card or newer is needed (P4, GTX 1060, T4, ...)";
  return c;
}

// Without code for the card CUDA fails at the first kernel, and everything runs on the CPU.
MaybeCheck check_gpu_code(const Facts& f) {
  const auto known = count_known(f, [](const GpuFacts& g) { return g.compute.has_value(); });
  if (known == 0 || !f.code) return std::nullopt;
  const auto bad = complaints(f, [&](const GpuFacts& g) {
    return g.compute && code_for(*f.code, number_of(*g.compute)) == 0
               ? fmt::format("compute capability {}.{}", g.compute->first, g.compute->second)
               : std::string();
  });
  Check c{"gpu-code", "code for every card", Verdict::pass, {}, {}};
  c.detail = "this binary has " + (f.code->machine.empty() && f.code->ptx.empty()
                                       ? std::string("no GPU code")
                                       : "code for " + describe(*f.code));
  if (bad.empty()) {
    if (std::ranges::any_of(f.gpus, [&](const GpuFacts& g) {
          return g.compute && needs_jit(*f.code, number_of(*g.compute));
        }))
      c.detail += ": the driver compiles it when it is first used";
    return c;
  }
  c.status = unless_others(bad.size(), known);
  c.detail += ", none for " + joined(bad);
  c.fix =
      "build here with ./run, which asks the cards, or with -DSLUICE_CUDA_ARCHS=all (CUDA 13 "
      "builds for 7.5 and later); until then these cards are not computed on";
  return c;
}

// Within a major version of CUDA, machine code runs on older drivers; PTX does not.
MaybeCheck check_cuda_version(const Facts& f) {
  if (!f.cuda || !f.code || f.code->empty() || f.code->toolkit == 0) return std::nullopt;
  const int built_major = f.code->toolkit / 100, built_minor = f.code->toolkit % 100;
  Check c{"cuda-version",
          "driver supports this binary's CUDA",
          Verdict::pass,
          fmt::format("built with CUDA {}.{}, the driver supports up to {}.{}", built_major,
                      built_minor, f.cuda->first, f.cuda->second),
          {}};
  const bool too_old = f.cuda->first < built_major;
  const bool no_jit = f.cuda->first == built_major && f.cuda->second < built_minor &&
                      std::ranges::any_of(f.gpus, [&](const GpuFacts& g) {
                        return g.compute && needs_jit(*f.code, number_of(*g.compute));
                      });
  if (!too_old && !no_jit) return c;
  c.status = Verdict::fail;
  if (no_jit) c.detail += ", which cannot compile this binary's PTX";
  c.fix = fmt::format("install a newer driver ({}) and reboot{}",
                      built_major >= 13 ? "branch 580 for CUDA 13" : "branch 525 for CUDA 12",
                      too_old ? ", or build with an older CUDA toolkit" : "");
  return c;
}

MaybeCheck check_gpu_memory(const Facts& f) {
  const auto known = count_known(f, [](const GpuFacts& g) { return g.memory_total.has_value(); });
  if (known == 0) return std::nullopt;
  const auto bad = complaints(f, [](const GpuFacts& g) {
    return g.memory_total && *g.memory_total < kMinMemory ? human_bytes(*g.memory_total)
                                                          : std::string();
  });
  Check c{"gpu-memory", "GPU memory", Verdict::pass, {}, {}};
  if (bad.empty()) {
    std::uint64_t min_bytes = UINT64_MAX;
    for (const auto& gpu : f.gpus)
      min_bytes = std::min(min_bytes, gpu.memory_total.value_or(UINT64_MAX));
    c.detail = human_bytes(min_bytes) + ", at least 4 GB needed";
    return c;
  }
  c.status = unless_others(bad.size(), known);
  c.detail = joined(bad) + "; at least 4 GB needed";
  c.fix = "Sluice will not place models on it; use a card with 4 GB or more";
  return c;
}

MaybeCheck check_persistence(const Facts& f) {
  const auto known = count_known(f, [](const GpuFacts& g) { return g.persistence.has_value(); });
  if (known == 0) return std::nullopt;
  const auto off = known - count_known(f, [](const GpuFacts& g) { return g.persistence == true; });
  Check c{"persistence", "persistence mode", Verdict::pass, "on", {}};
  if (off > 0) {
    c.status = Verdict::warn;
    c.detail =
        fmt::format("off on {} of {} GPUs: the first use after idling takes seconds", off, known);
    c.fix = "sudo sluice tune --persistence on --yes (until reboot), or enable nvidia-persistenced";
  }
  return c;
}

MaybeCheck check_ecc(const Facts& f) {
  const auto known = count_known(f, [](const GpuFacts& g) { return g.ecc_enabled.has_value(); });
  if (known == 0) return std::nullopt;
  Check c{"ecc", "ECC memory", Verdict::pass, {}, {}};
  const auto errors = complaints(f, [](const GpuFacts& g) {
    return g.ecc_uncorrected.value_or(0) > 0
               ? fmt::format("{} uncorrected error{} since the driver was loaded",
                             *g.ecc_uncorrected, *g.ecc_uncorrected == 1 ? "" : "s")
               : std::string();
  });
  const auto pending = complaints(f, [](const GpuFacts& g) {
    return g.ecc_enabled && g.ecc_pending && *g.ecc_enabled != *g.ecc_pending
               ? fmt::format("turns {} at the next reset", *g.ecc_pending ? "on" : "off")
               : std::string();
  });
  if (!errors.empty()) {
    c.status = Verdict::fail;
    c.detail = joined(errors);
    c.fix = "work on it may be wrong: drain it, then " + reset_command(errors) +
            "; if they come back, have the card replaced";
  } else if (!pending.empty()) {
    c.status = Verdict::warn;
    c.detail = joined(pending);
    c.fix = reset_command(pending) + ", or reboot";
  } else {
    const auto on = count_known(f, [](const GpuFacts& g) { return g.ecc_enabled == true; });
    c.detail = on == known ? "on, no uncorrected errors"
               : on == 0   ? "off"
                           : fmt::format("on for {} of {} GPUs, no uncorrected errors", on, known);
  }
  return c;
}

MaybeCheck check_rows(const Facts& f) {
  if (count_known(f, [](const GpuFacts& g) { return g.rows_pending.has_value(); }) == 0)
    return std::nullopt;
  Check c{"row-remap", "row remapping", Verdict::pass, "none pending, none failed", {}};
  const auto failed = complaints(f, [](const GpuFacts& g) {
    return g.rows_failed == true ? std::string("a row could not be remapped") : std::string();
  });
  const auto pending = complaints(f, [](const GpuFacts& g) {
    return g.rows_pending == true ? std::string("a remapping waits for a reset") : std::string();
  });
  if (!failed.empty()) {
    c.status = Verdict::fail;
    c.detail = joined(failed);
    c.fix = "the memory has run out of spare rows: have the card replaced";
  } else if (!pending.empty()) {
    c.status = Verdict::warn;
    c.detail = joined(pending);
    c.fix = "drain the GPU, then " + reset_command(pending) + ", or reboot";
  }
  return c;
}

MaybeCheck check_throttle(const Facts& f) {
  if (count_known(f, [](const GpuFacts& g) { return g.throttle.has_value(); }) == 0)
    return std::nullopt;
  Check c{"throttling", "throttling now", Verdict::pass, "none", {}};
  const auto capped = complaints(f, [](const GpuFacts& g) {
    auto what = fmt::format("{}", fmt::join(throttle_names(g.throttle.value_or(0)), ", "));
    if (!what.empty() && g.temperature) what += fmt::format(" at {:.0f} C", *g.temperature);
    return what;
  });
  const bool severe = std::ranges::any_of(f.gpus, [](const GpuFacts& g) {
    return g.throttle && is_thermal_or_power_throttle(*g.throttle);
  });
  if (capped.empty()) return c;
  c.detail = joined(capped);
  if (severe) {
    c.status = Verdict::warn;
    c.fix =
        "look at fans, air flow and power supply; sudo sluice tune --power-limit W --yes lowers "
        "the heat";
  } else {
    c.detail += " (usual under full load)";
  }
  return c;
}

MaybeCheck check_recovery(const Facts& f) {
  if (count_known(f, [](const GpuFacts& g) { return g.recovery_action.has_value(); }) == 0)
    return std::nullopt;
  static constexpr const char* kActions[] = {
      "", "a GPU reset", "a reboot", "draining peer-to-peer traffic", "draining and a reset"};
  const auto requested = complaints(f, [](const GpuFacts& g) {
    const auto action = g.recovery_action.value_or(0);
    if (action == 0) return std::string();
    const bool known = action > 0 && action < static_cast<int>(std::size(kActions));
    return "the driver requests " + (known ? kActions[action] : fmt::format("action {}", action));
  });
  Check c{"recovery", "recovery action", Verdict::pass, "none requested", {}};
  if (requested.empty()) return c;
  c.status = Verdict::fail;
  c.detail = joined(requested);
  c.fix = "stop what uses the GPU, then " + reset_command(requested) + ", or reboot";
  return c;
}

}  // namespace sluice::device
