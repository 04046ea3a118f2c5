// Reports of `sluice memory` as text and JSON. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/common/terminal.h"
#include "memory/trace/replay.h"
#include "memory/trace/trace_summary.h"

namespace sluice::cli {

struct ReplayReport {
  memory::Trace trace;
  memory::ReplayOptions options;
  std::vector<memory::ReplayResult> results;
};

// "25,586".
std::string grouped(std::uint64_t number);

// The tables of one trace and what to choose.
void print_replay(const ReplayReport& report, std::ostream& out, const Terminal& terminal);
Json replay_json(const ReplayReport& report);

// Prints the contents of a trace.
void print_trace(const memory::Trace& trace, std::ostream& out, const Terminal& terminal);
Json trace_json(const memory::Trace& trace);

// Lines of a chart `height` rows high, highest first; one column per value.
std::vector<std::string> area_chart(const std::vector<double>& values, int height, Pen pen);

}  // namespace sluice::cli
