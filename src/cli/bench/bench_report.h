// The result of a benchmark run, as people and as programs read it. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "cli/common/draw.h"
#include "device/bench/bench.h"

namespace sluice::cli {

struct BenchSubject {
  std::string kind;                           // "gpu" or "cpu"
  std::string name, uuid, bus, driver, cuda;  // empty where there is none
  std::vector<device::BenchRow> rows;
};

struct BenchReport {
  std::string suite;    // "device", "memory"
  std::string command;  // as it was typed
  std::string version, commit;
  std::string host, system;  // "gpu-1", "Linux 6.8.0 x86_64"
  WallTime started{};
  double seconds = 0;
  bool quick = false;
  std::vector<BenchSubject> subjects;
  std::vector<std::string> notes;  // what was not measured, and why
};

// "4.31 TB/s", "790 TFLOP/s", "2.31 us".
std::string shown(double value, const std::string& unit);

// Prints one table per device: benchmark, value, share of the peak as a bar, spread.
std::string table(const BenchReport& report, int width, Pen pen);

Json to_json(const BenchReport& report);

// True when at least one figure has a value.
bool measured(const BenchReport& report);

}  // namespace sluice::cli
