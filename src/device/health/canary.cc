#include "device/health/canary.h"

#include <algorithm>

#include "base/error.h"
#include "device/demo/demo.h"
#include "device/detect/detect_amd.h"
#include "device/detect/detect_intel.h"
#include "device/sampler/sampler_probe.h"

namespace sluice::device {

namespace {

// Runs every query of every tier; none may report that the GPU is gone.
CanaryReport read_everything(Probe& probe) {
  Sample sample;
  for (const auto tier : kTiers)
    if (const auto outcome = probe.read(tier, sample, 1); !outcome.answered)
      return {false, "the driver does not answer for it: " + outcome.why};
  return {true, "the driver answers " + std::to_string(sample.values.size()) + " queries"};
}

CanaryReport nvidia_canary(const Nvml& nvml, const std::string& uuid) {
  const auto device = nvml.by_uuid(uuid);
  if (!device) return {false, std::string("not found: ") + nvml::describe(device.code)};
  const auto probe = make_nvidia_probe(nvml, device.value, [](Process&) {});
  return read_everything(*probe);
}

CanaryReport demo_canary(const CanaryOptions& options) {
  const auto nvml = open_demo(options.demo, {options.demo_epoch_ns, ""});
  auto report = nvidia_canary(*nvml, options.uuid);
  if (!report.passed) return report;
  const auto computed = device::demo_canary(*nvml, options.uuid);
  if (!computed) return {false, "the demo has no such GPU"};
  return {*computed, *computed ? "computed the right result (demo)" : "wrong result (demo)"};
}

CanaryReport real_nvidia_canary(const std::string& uuid) {
  auto report = nvidia_canary(*Nvml::open(), uuid);
  if (!report.passed) return report;
  std::string why_not;
  if (auto computed = compute_canary(why_not)) return *computed;
  report.note += "; nothing was computed: " + why_not;
  return report;
}

CanaryReport sysfs_canary(const CanaryOptions& options) {
  for (const unsigned vendor : {0x1002U, 0x8086U}) {
    auto found = vendor == 0x1002U ? detect_amd() : detect_intel();
    const auto gpu = std::ranges::find(found.gpus, options.uuid, &Gpu::uuid);
    if (gpu == found.gpus.end()) continue;
    const auto cards = drm_cards("/", vendor);
    const auto card = std::ranges::find(cards, gpu->bus, &DrmCard::bus);
    if (card == cards.end()) continue;
    auto report = read_everything(*make_sysfs_probe(*gpu, *card));
    report.note += "; nothing was computed: not an NVIDIA GPU";
    return report;
  }
  return {false, "not found"};
}

}  // namespace

CanaryReport run_canary(const CanaryOptions& options) {
  try {
    if (!options.demo.empty()) return demo_canary(options);
    if (options.uuid.starts_with("GPU-")) return real_nvidia_canary(options.uuid);
    return sysfs_canary(options);
  } catch (const Error& e) {
    return {false, e.what()};
  }
}

}  // namespace sluice::device
