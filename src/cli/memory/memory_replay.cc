#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/bytes.h"
#include "base/units.h"
#include "cli/common/report.h"
#include "cli/memory/memory_report.h"

namespace sluice::cli {

namespace {

using memory::ReplayFigures;
using memory::ReplayResult;
using memory::ReplayTimes;

constexpr int kName = 10, kBytes = 10, kShare = 8, kTime = 8;  // 78 columns in all

// Formats with at least three digits, because strategies differ by a few MiB of several GiB.
std::string memory_text(std::uint64_t bytes) {
  const auto gib = static_cast<double>(bytes) / kGiB;
  return gib < 1 ? human_bytes(bytes) : fmt::format("{:.2f} GiB", gib);
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string time_text(double ns) {
  if (ns < 9999.5) return fmt::format("{:.0f} ns", ns);
  return ns < 999.5e3 ? fmt::format("{:.0f} us", ns / 1e3) : fmt::format("{:.1f} ms", ns / 1e6);
}

// The memory that PyTorch reserved without a limit; empty when that cannot be compared.
std::optional<double> peer_efficiency(const memory::TraceHeader& header) {
  if (!header.peer || header.peer->peak_reserved == 0) return std::nullopt;
  if (header.peer->reserved_before > header.peer->peak_reserved / 20) return std::nullopt;
  return static_cast<double>(header.peak_live_bytes) /
         static_cast<double>(header.peer->peak_reserved);
}

// ---- tables ----------------------------------------------------------------------------

class Table {
 public:
  explicit Table(Report& report) : report_(report), pen_(report.pen()) {}

  void head(std::string_view memory) {
    std::string line = left("  strategy", kName + 2, pen_) + right(memory, kBytes, pen_);
    for (const auto* title : {"effic.", "intern.", "extern."}) line += right(title, kShare, pen_);
    line += right("alloc", kTime, pen_) + right("p99", kTime, pen_) + right("free", kTime, pen_) +
            right("p99", kTime, pen_);
    report_.line(paint(line, Ink::dim, pen_));
  }

  void row(const ReplayResult& result, const ReplayFigures& figures, const ReplayTimes& times,
           bool recommended) {
    auto line = begin(to_string(result.strategy), figures.peak_committed, figures.efficiency);
    for (const double share : {figures.internal, figures.external})
      line += right(percent(share), kShare, pen_);
    for (const double ns : {times.allocate_p50, times.allocate_p99, times.free_p50, times.free_p99})
      line += right(time_text(ns), kTime, pen_);
    if (figures.failures > 0)
      line += "  " + paint(grouped(figures.failures) + " refused", Ink::bad, pen_);
    report_.line(recommended ? paint(line, Ink::good, pen_) : line);
  }

  void peer(const memory::TraceHeader& header) {
    const auto efficiency = peer_efficiency(header);
    if (!efficiency) return;
    report_.line(begin(header.peer->name, header.peer->peak_reserved, *efficiency));
  }

 private:
  std::string begin(std::string_view name, std::uint64_t bytes, double efficiency) const {
    return "  " + left(name, kName, pen_) + right(memory_text(bytes), kBytes, pen_) +
           right(percent(efficiency), kShare, pen_);
  }

  Report& report_;
  Pen pen_;
};

const ReplayResult& chosen_of(const ReplayReport& report, memory::StrategyKind strategy) {
  return *std::ranges::find(report.results, strategy, &ReplayResult::strategy);
}

void print_chosen_details(const ReplayResult& chosen, Report& out) {
  const auto& figures = chosen.figures;
  auto text = fmt::format("{}: {} remapped, memory mapped {} times", to_string(chosen.strategy),
                          human_bytes(figures.remapped_bytes), grouped(figures.commits));
  if (const auto& spare = chosen.spare)
    text += fmt::format("; with {} ({} efficient), {} and {}", memory_text(spare->ceiling),
                        percent(spare->efficiency), human_bytes(spare->remapped_bytes),
                        grouped(spare->commits));
  text += fmt::format(
      ". Over time {} of what is free lies outside the largest hole, {} in pieces too small to "
      "remap.",
      percent(figures.scattered), percent(figures.stranded));
  out.item("  ", 2, text, Ink::dim);
}

void print_peer_note(const memory::TraceHeader& header, Report& out) {
  if (!header.peer || peer_efficiency(header)) return;
  out.item(
      "  ", 2,
      fmt::format("{} held {} at its peak, {} of it from before the recording: not comparable.",
                  header.peer->name, human_bytes(header.peer->peak_reserved),
                  human_bytes(header.peer->reserved_before)),
      Ink::dim);
}

// ---- JSON --------------------------------------------------------------------------------

Json to_json(const ReplayFigures& figures) {
  return {{"peak_used_bytes", figures.peak_used},
          {"peak_taken_bytes", figures.peak_taken},
          {"peak_committed_bytes", figures.peak_committed},
          {"efficiency", figures.efficiency},
          {"internal_fragmentation", figures.internal},
          {"external_fragmentation", figures.external},
          {"scattered", figures.scattered},
          {"stranded", figures.stranded},
          {"commits", figures.commits},
          {"remapped_bytes", figures.remapped_bytes},
          {"failures", figures.failures}};
}

Json to_json(const ReplayFigures& figures, const ReplayTimes& times) {
  auto json = to_json(figures);
  json["allocate_ns"] = {{"p50", times.allocate_p50}, {"p99", times.allocate_p99}};
  json["free_ns"] = {{"p50", times.free_p50}, {"p99", times.free_p99}};
  return json;
}

Json peer_json(const memory::TraceHeader& header) {
  if (!header.peer) return nullptr;
  const auto efficiency = peer_efficiency(header);
  return {{"name", header.peer->name},
          {"peak_reserved_bytes", header.peer->peak_reserved},
          {"reserved_before_bytes", header.peer->reserved_before},
          {"efficiency", efficiency ? Json(*efficiency) : Json(nullptr)}};
}

}  // namespace

void print_replay(const ReplayReport& report, std::ostream& out, const Terminal& terminal) {
  const auto& header = report.trace.header;
  Report page(out, terminal);
  page.heading("trace", header.name);
  page.row("from", header.source);
  page.row(
      "asks",
      fmt::format("{} allocations, {} frees in {}; {} live at the peak",
                  grouped(header.allocations), grouped(header.frees),
                  human_duration(static_cast<double>(report.trace.events.back().time_us) / 1e6),
                  human_bytes(header.peak_live_bytes)));
  const auto advice = memory::recommend(report.results);
  Table table(page);
  page.line("");
  page.line(report.options.ceiling
                ? "In " + human_bytes(*report.options.ceiling) + " of memory"
                : "In the minimum memory that serves every request, remapping holes");
  table.head(report.options.ceiling ? "held" : "needs");
  for (const auto& result : report.results)
    table.row(result, result.figures, result.times, result.strategy == advice.strategy);
  print_chosen_details(chosen_of(report, advice.strategy), page);
  if (!report.options.ceiling) {
    page.line("");
    page.line("Left to grow by " + human_bytes(report.options.growth) +
              " at a time, never remapping");
    table.head("held");
    for (const auto& result : report.results)
      table.row(result, *result.roomy, *result.roomy_times, false);
    table.peer(header);
  }
  print_peer_note(header, page);
  page.line("");
  if (report.results.size() > 1)
    page.item("", 0,
              fmt::format("Recommended: {}: {}.", to_string(advice.strategy), advice.reason));
}

Json replay_json(const ReplayReport& report) {
  auto json = trace_json(report.trace);
  for (const auto* key :
       {"sizes", "lifetimes", "largest", "most_frequent", "over_time", "live_at_end_sizes"})
    json.erase(key);
  json["peer"] = peer_json(report.trace.header);
  json["ceiling_bytes"] = report.options.ceiling ? Json(*report.options.ceiling) : Json(nullptr);
  json["growth_bytes"] = report.options.growth;
  json["strategies"] = Json::array();
  for (const auto& result : report.results) {
    Json strategy{{"strategy", to_string(result.strategy)}};
    strategy.update(to_json(result.figures, result.times));
    strategy["left_to_grow"] =
        result.roomy ? to_json(*result.roomy, *result.roomy_times) : Json(nullptr);
    strategy["at_95_percent"] = result.spare ? to_json(*result.spare) : Json(nullptr);
    json["strategies"].push_back(std::move(strategy));
  }
  const auto advice = memory::recommend(report.results);
  json["recommended"] = {{"strategy", to_string(advice.strategy)}, {"reason", advice.reason}};
  return json;
}

}  // namespace sluice::cli
