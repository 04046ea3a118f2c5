// The GPUs of `sluice top`: two lines each, or one where there is little space.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "cli/top/top_cells.h"

namespace sluice::cli {

namespace {

using device::HealthState;
using device::Metric;
using watch::GpuView;

std::string short_name(const std::string& name) {
  std::string_view rest = name;
  for (const std::string_view prefix : {"NVIDIA ", "AMD ", "Intel(R) ", "GeForce ", "Tesla "})
    if (rest.starts_with(prefix)) rest.remove_prefix(prefix.size());
  return std::string(rest);
}

Scene seen(const GpuView& gpu, const Scene& whole) {
  return {whole.snapshot, whole.state, whole.frame, whole.now,
          gpu.health.state == HealthState::lost};
}

std::optional<double> utilization(const GpuView& gpu, const Scene& scene) {
  if (gpu.ghost_utilization) return std::nullopt;
  return fresh(gpu.readings, Metric::utilization, scene);
}

std::string utilization_text(const GpuView& gpu, const Scene& scene) {
  return gpu.ghost_utilization ? "stuck"
                               : shown_value(gpu.readings, Metric::utilization, scene, "{:.0f} %");
}

// Formats "100.2/139.8" in GiB, or the known part of it.
std::string memory_text(const GpuView& gpu, const Scene& scene) {
  constexpr double kGib = 1024.0 * 1024 * 1024;
  const auto total = gpu.readings.value(Metric::memory_total);
  const auto& used = gpu.readings.at(Metric::memory_used);
  if (!used || !total) return total ? fmt::format("-/{:.1f}", *total / kGib) : "-";
  if (!fresh(gpu.readings, Metric::memory_used, scene))
    return fmt::format("~{:.0f}/{:.1f}", used->value / kGib, *total / kGib);
  return fmt::format("{:.1f}/{:.1f}", used->value / kGib, *total / kGib);
}

std::string power_text(const GpuView& gpu, const Scene& scene) {
  const auto draw = shown_value(gpu.readings, Metric::power, scene, "{:.0f}");
  const auto limit = gpu.readings.value(Metric::power_limit);
  const bool shows_limit =
      limit && !draw.starts_with('~');  // an old one needs the space for its mark
  return shows_limit ? fmt::format("{}/{:.0f}", draw, *limit) : draw;
}

std::string health_text(const GpuView& gpu, Pen pen) {
  return paint(to_string(gpu.health.state), ink_of(gpu.health.state), pen);
}

std::string painted_past(const GpuView& gpu, const Scene& scene, int width) {
  const auto pen = scene.frame.pen;
  return paint(sparkline(past_of(scene, gpu.gpu.uuid), width, 0, 100, pen), Ink::accent, pen);
}

// "thermal slowdown", "XID 79", "no answer for 12 s": what a number cannot show.
std::string remarks(const GpuView& gpu, const Scene& scene) {
  std::string text;
  const auto add = [&](std::string_view what) {
    text += text.empty() ? "" : ", ";
    text += what;
  };
  if (gpu.health.state != HealthState::healthy && !gpu.health.cause.empty()) add(gpu.health.cause);
  if (const auto bits = fresh(gpu.readings, Metric::throttle_reasons, scene))
    for (const auto name : device::throttle_names(static_cast<std::uint64_t>(*bits))) add(name);
  if (gpu.sampled_at && seconds_between(*gpu.sampled_at, scene.now) > 5)
    add(fmt::format("no answer for {}", age_text(*gpu.sampled_at, scene.now)));
  return text;
}

// ---- compact -----------------------------------------------------------------------

// Widths of the columns that grow with the screen; at 80 columns all are least.
struct Widths {
  int name = 9, utilization = 7, memory = 5, spark = 0;
};

Widths widths_for(int width) {
  Widths w;
  int spare = width - 80;
  const auto grow = [&](int& column, int max_growth) {
    const int more = std::clamp(spare, 0, max_growth);
    column += more;
    spare -= more;
  };
  grow(w.name, 10);
  grow(w.utilization, 9);
  grow(w.memory, 9);
  if (spare >= 10) w.spark = std::min(spare - 1, 60);
  return w;
}

std::string compact_heading(const Scene& scene, const Widths& w) {
  const auto pen = scene.frame.pen;
  auto line = fmt::format("{} {} {} {} {} {} {} {}", left("BUS", 7, pen), left("GPU", w.name, pen),
                          left("UTIL", w.utilization + 6, pen),
                          left("MEMORY GiB", w.memory + 12, pen), right("TEMP", 5, pen),
                          right("POWER W", 8, pen), right("MHz", 5, pen), left("HEALTH", 9, pen));
  if (w.spark > 0) line += fmt::format(" {}", left("UTILISATION BEFORE", w.spark, pen));
  return paint(left(line, scene.frame.width, pen), Ink::reverse, pen);
}

std::string compact_line(const GpuView& gpu, const Scene& whole, const Widths& w) {
  const auto scene = seen(gpu, whole);
  const auto pen = scene.frame.pen;
  const auto& r = gpu.readings;
  auto line = fmt::format("{} {} {}{} {} {} {} {} {} {}", left(short_bus(gpu.gpu.bus), 7, pen),
                          left(short_name(gpu.gpu.name), w.name, pen),
                          gauge(utilization(gpu, scene), 100, w.utilization, pen),
                          right(utilization_text(gpu, scene), 6, pen),
                          gauge(fresh(r, Metric::memory_used, scene),
                                r.value(Metric::memory_total).value_or(0), w.memory, pen),
                          right(memory_text(gpu, scene), 11, pen),
                          right(shown_value(r, Metric::temperature, scene, "{:.0f} C"), 5, pen),
                          right(power_text(gpu, scene), 8, pen),
                          right(shown_value(r, Metric::sm_clock, scene, "{:.0f}"), 5, pen),
                          left(health_text(gpu, pen), 9, pen));
  if (w.spark > 0) line += fmt::format(" {}", painted_past(gpu, scene, w.spark));
  return line;
}

// ---- roomy -------------------------------------------------------------------------

std::string first_line(const GpuView& gpu, const Scene& scene) {
  const auto pen = scene.frame.pen;
  auto line = fmt::format("{}  {}  {}", paint(short_bus(gpu.gpu.bus), Ink::dim, pen),
                          paint(gpu.gpu.name, Ink::bold, pen), health_text(gpu, pen));
  const auto remark = remarks(gpu, scene);
  if (!remark.empty()) line += fmt::format(": {}", paint(remark, ink_of(gpu.health.state), pen));
  const int rest = scene.frame.width - columns(line) - 2;
  if (rest < 10) return line;
  const int width = std::min(rest, 60);
  return line + std::string(static_cast<std::size_t>(rest - width + 2), ' ') +
         painted_past(gpu, scene, width);
}

std::string second_line(const GpuView& gpu, const Scene& whole) {
  const auto scene = seen(gpu, whole);
  const auto pen = scene.frame.pen;
  const auto& r = gpu.readings;
  const bool wide = scene.frame.width >= 122;  // space for what comes after the clock
  const int bars = wide ? std::clamp((scene.frame.width - 106) / 2, 8, 24)
                        : std::clamp((scene.frame.width - 64) / 2, 5, 24);
  auto line = fmt::format("  util {}{}  mem {} {} GiB {} {} W {} MHz",
                          gauge(utilization(gpu, scene), 100, bars, pen),
                          right(utilization_text(gpu, scene), 6, pen),
                          gauge(fresh(r, Metric::memory_used, scene),
                                r.value(Metric::memory_total).value_or(0), bars, pen),
                          right(memory_text(gpu, scene), 11, pen),
                          right(shown_value(r, Metric::temperature, scene, "{:.0f} °C"), 6, pen),
                          right(power_text(gpu, scene), 8, pen),
                          right(shown_value(r, Metric::sm_clock, scene, "{:.0f}"), 5, pen));
  if (wide) {
    line += fmt::format("  mem bus {}", shown_value(r, Metric::memory_activity, scene, "{:.0f} %"));
    if (const auto margin = r.value(Metric::temperature_margin))
      line += fmt::format("  {:.0f} °C to slowdown", *margin);
    if (r.value(Metric::fan))
      line += fmt::format("  fan {}", shown_value(r, Metric::fan, scene, "{:.0f} %"));
  }
  return line;
}

}  // namespace

Lines compact_gpus(const Scene& scene, int max_lines) {
  const auto w = widths_for(scene.frame.width);
  const auto& gpus = scene.snapshot.gpus;
  Lines lines{compact_heading(scene, w)};
  const auto fits = static_cast<std::size_t>(std::max(max_lines - 1, 1));
  const auto shown = gpus.size() <= fits ? gpus.size() : fits - 1;
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(compact_line(gpus[i], scene, w));
  if (shown < gpus.size())
    lines.push_back(
        paint(fmt::format("… and {} more GPUs; a taller window shows them", gpus.size() - shown),
              Ink::dim, scene.frame.pen));
  return lines;
}

Lines two_line_gpus(const Scene& scene, int gap) {
  Lines lines;
  for (const auto& gpu : scene.snapshot.gpus) {
    if (!lines.empty()) lines.resize(lines.size() + static_cast<std::size_t>(gap));
    lines.push_back(first_line(gpu, scene));
    lines.push_back(second_line(gpu, scene));
  }
  return lines;
}

}  // namespace sluice::cli
