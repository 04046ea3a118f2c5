#include "cli/memory/memory_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/units.h"
#include "cli/common/report.h"

namespace sluice::cli {

namespace {

using memory::TraceSummary;

constexpr int kBar = 24, kChartHeight = 6, kChartWidth = 60;

std::string seconds_text(std::uint64_t us) { return human_duration(static_cast<double>(us) / 1e6); }

// ---- histograms --------------------------------------------------------------------------

template <class Label>
void print_histogram(const std::vector<TraceSummary::Bucket>& buckets, Report& out, Label label) {
  std::uint64_t largest = 1;
  for (const auto& bucket : buckets) largest = std::max(largest, bucket.count);
  for (const auto& bucket : buckets) {
    const double share = static_cast<double>(bucket.count) / static_cast<double>(largest);
    out.line("  " + left("up to " + label(bucket.up_to), 16, out.pen()) +
             right(grouped(bucket.count), 12, out.pen()) + "  " +
             bar(share, kBar, out.pen(), Ink::accent));
  }
}

std::string sizes_text(const std::vector<TraceSummary::Size>& sizes, std::size_t max_sizes) {
  std::string text;
  for (std::size_t i = 0; i < std::min(max_sizes, sizes.size()); ++i)
    text += (i > 0 ? ", " : "") +
            fmt::format("{} of {}", grouped(sizes[i].count), human_bytes(sizes[i].bytes));
  return text;
}

void print_chart(const TraceSummary& summary, std::uint64_t peak, Report& out) {
  std::vector<double> values;
  for (const auto& moment : summary.over_time)
    values.push_back(peak > 0 ? static_cast<double>(moment.live_bytes) / static_cast<double>(peak)
                              : 0);
  const auto rows = area_chart(values, kChartHeight, out.pen());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto label = i == 0 ? human_bytes(peak) : i + 1 == rows.size() ? "0" : "";
    out.line("  " + right(label, 10, out.pen()) + " " + paint(rows[i], Ink::accent, out.pen()));
  }
  const auto end = seconds_text(summary.duration_us);
  out.line(std::string(13, ' ') + "0" + right(end, kChartWidth - 1, out.pen()));
}

void print_left(const memory::Trace& trace, const TraceSummary& summary, Report& out) {
  const auto& header = trace.header;
  if (header.live_at_end == 0) {
    out.item("", 0, "Every block was freed: no leak to suspect.");
    return;
  }
  out.item("", 0,
           fmt::format("Live at the end: {} blocks with {} ({}). Kept on purpose, such as weights, "
                       "or leaked: a trace cannot tell, but a second one that runs longer can.",
                       grouped(header.live_at_end), human_bytes(header.bytes_at_end),
                       sizes_text(summary.live_at_end, 4)));
}

Json to_json(const std::vector<TraceSummary::Size>& sizes) {
  Json list = Json::array();
  for (const auto& size : sizes) list.push_back({{"bytes", size.bytes}, {"count", size.count}});
  return list;
}

Json to_json(const std::vector<TraceSummary::Bucket>& buckets, const char* unit) {
  Json list = Json::array();
  for (const auto& bucket : buckets)
    list.push_back({{std::string("up_to_") + unit, bucket.up_to},
                    {"count", bucket.count},
                    {"bytes", bucket.bytes}});
  return list;
}

}  // namespace

std::string grouped(std::uint64_t number) {
  auto text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}

std::vector<std::string> area_chart(const std::vector<double>& values, int height, Pen pen) {
  static constexpr std::array<std::string_view, 9> kBlocks{" ", "▁", "▂", "▃", "▄",
                                                           "▅", "▆", "▇", "█"};
  static constexpr std::array<std::string_view, 9> kAscii{" ", ".", ".", ".", ":",
                                                          ":", ":", "#", "#"};
  const auto& levels = pen.utf8 ? kBlocks : kAscii;
  std::vector<std::string> rows;
  for (int row = height - 1; row >= 0; --row) {
    auto& line = rows.emplace_back();
    for (const double value : values) {
      const auto eighths = std::lround(std::clamp(value, 0.0, 1.0) * height * 8) - row * 8;
      line += levels[static_cast<std::size_t>(std::clamp(eighths, 0l, 8l))];
    }
  }
  return rows;
}

void print_trace(const memory::Trace& trace, std::ostream& out, const Terminal& terminal) {
  const auto& header = trace.header;
  const auto summary = memory::summarize(trace, kChartWidth);
  Report page(out, terminal);
  page.heading("trace", header.name);
  page.row("from", header.source);
  page.row("asks", fmt::format("{} allocations, {} frees in {}", grouped(header.allocations),
                               grouped(header.frees), seconds_text(summary.duration_us)));
  page.row("peak", fmt::format("{} live after {}; at most {} blocks at once",
                               human_bytes(header.peak_live_bytes),
                               seconds_text(summary.peak_time_us), grouped(summary.peak_blocks)));
  page.row("largest", sizes_text(summary.largest, 3));
  page.row("frequent", sizes_text(summary.most_frequent, 3));
  page.row("lifetime", "median " + seconds_text(summary.median_lifetime_us));
  if (header.peer)
    page.row(header.peer->name, human_bytes(header.peer->peak_reserved) + " held at its peak");
  if (header.unknown_frees > 0)
    page.row("left out", grouped(header.unknown_frees) + " frees of blocks from before the start");
  page.heading("live bytes", "over time");
  print_chart(summary, header.peak_live_bytes, page);
  page.heading("sizes", "of blocks");
  print_histogram(summary.sizes, page, [](std::uint64_t bytes) { return human_bytes(bytes); });
  page.heading("lifetimes", "of freed blocks");
  print_histogram(summary.lifetimes, page, seconds_text);
  page.line("");
  print_left(trace, summary, page);
}

Json trace_json(const memory::Trace& trace) {
  const auto& header = trace.header;
  const auto summary = memory::summarize(trace);
  Json json{{"name", header.name},
            {"source", header.source},
            {"device", header.device},
            {"allocations", header.allocations},
            {"frees", header.frees},
            {"unknown_frees", header.unknown_frees},
            {"live_at_end", header.live_at_end},
            {"live_at_end_bytes", header.bytes_at_end},
            {"peak_live_bytes", header.peak_live_bytes},
            {"peak_time_us", summary.peak_time_us},
            {"peak_blocks", summary.peak_blocks},
            {"duration_us", summary.duration_us},
            {"streams", header.streams},
            {"median_lifetime_us", summary.median_lifetime_us}};
  json["sizes"] = to_json(summary.sizes, "bytes");
  json["lifetimes"] = to_json(summary.lifetimes, "us");
  json["largest"] = to_json(summary.largest);
  json["most_frequent"] = to_json(summary.most_frequent);
  json["live_at_end_sizes"] = to_json(summary.live_at_end);
  json["over_time"] = Json::array();
  for (const auto& moment : summary.over_time)
    json["over_time"].push_back({{"time_us", moment.time_us}, {"live_bytes", moment.live_bytes}});
  return json;
}

}  // namespace sluice::cli
