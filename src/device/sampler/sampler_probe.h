// One GPU as the sampler reads it. Every method may block for as long as the
// driver does.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "device/detect/drm.h"
#include "device/gpu.h"
#include "device/nvml/nvml.h"
#include "device/sampler/sampler_protocol.h"

namespace sluice::device {

// Sampling tiers: metrics of similar cost and rate of change.
enum class Tier {
  pulse,      // one cheap query: presence and utilization
  fast,       // memory, what holds the clock back
  slow,       // heat, power, clocks, errors, links
  processes,  // the process list: milliseconds under the driver's lock
};
inline constexpr Tier kTiers[] = {Tier::pulse, Tier::fast, Tier::slow, Tier::processes};

struct Outcome {
  bool answered = true;  // some query got an answer, be it "not supported"
  bool gone = false;     // the driver says that the GPU is not there
  std::string why;       // when not answered
};

class Probe {
 public:
  virtual ~Probe() = default;

  virtual Gpu describe() = 0;  // throws unavailable
  // Adds what `tier` covers to `sample`; stops at the first sign that the GPU is gone.
  // A slow query may be left out for a while, so that it alone takes no more than a tenth of
  // `budget`, the share of time that all queries may take.
  virtual Outcome read(Tier tier, Sample& sample, double budget) = 0;
};

// Adds the name and user of a process: from /proc, or from a demo's library.
using Enrich = std::function<void(Process& process)>;
void enrich_from_proc(Process& process);
Enrich enrich_from_demo(const Nvml& nvml);  // `nvml` must outlive it

// `nvml` must outlive the probe.
std::unique_ptr<Probe> make_nvidia_probe(const Nvml& nvml, nvml::Device device, Enrich enrich);

// AMD and Intel, through the kernel's files.
std::unique_ptr<Probe> make_sysfs_probe(Gpu gpu, DrmCard card);

}  // namespace sluice::device
