// A machine with one GPU that a test moves through time.
#pragma once

#include <string>
#include <vector>

#include "watch/alerts/alert_engine.h"
#include "watch/snapshot.h"

namespace sluice::watch {

inline Rule hot() {
  Rule rule;
  rule.name = "hot", rule.metric = "temperature", rule.condition = "above";
  rule.threshold = 80, rule.clear = 75, rule.for_s = 10;
  rule.cause = "{device} at {value}", rule.fix = "cool {bus}, or stop {process}";
  return rule;
}

// "FR": fired, then resolved; U is a silence that ended.
inline std::string kinds(const std::vector<Transition>& all) {
  std::string text;
  for (const auto& t : all)
    text += t.kind == Transition::Kind::fired      ? 'F'
            : t.kind == Transition::Kind::resolved ? 'R'
                                                   : 'U';
  return text;
}

class Scene {
 public:
  Scene() {
    GpuView gpu;
    gpu.gpu.vendor = device::Vendor::nvidia;
    gpu.gpu.uuid = "GPU-1";
    gpu.gpu.bus = "0000:04:00.0";
    gpu.gpu.name = "NVIDIA H200";
    snapshot.gpus.push_back(gpu);
    snapshot.sampler.state = "running";
    snapshot.at = Instant(std::chrono::hours(1));
    snapshot.wall = WallTime(std::chrono::milliseconds(1'794'711'600'000));
  }

  GpuView& gpu() { return snapshot.gpus[0]; }

  void pass(double seconds) {
    snapshot.at += std::chrono::duration_cast<Instant::duration>(Seconds(seconds));
    snapshot.wall += std::chrono::duration_cast<WallTime::duration>(Seconds(seconds));
    ++snapshot.sequence;
  }

  void set(device::Metric metric, double value) {
    auto& readings = device::info(metric).scope == device::Scope::gpu   ? gpu().readings
                     : device::info(metric).scope == device::Scope::cpu ? snapshot.host
                                                                        : snapshot.server;
    readings.set(metric, value, snapshot.at);
  }

  // `seconds` of one reading a second; every transition on the way.
  std::vector<Transition> hold(AlertEngine& engine, device::Metric metric, double value,
                               int seconds) {
    std::vector<Transition> all;
    for (int i = 0; i < seconds; ++i) {
      pass(1);
      set(metric, value);
      for (auto& t : engine.evaluate(snapshot)) all.push_back(std::move(t));
    }
    return all;
  }

  // The same without any reading.
  std::vector<Transition> wait(AlertEngine& engine, int seconds) {
    std::vector<Transition> all;
    for (int i = 0; i < seconds; ++i) {
      pass(1);
      for (auto& t : engine.evaluate(snapshot)) all.push_back(std::move(t));
    }
    return all;
  }

  Snapshot snapshot;
};

}  // namespace sluice::watch
