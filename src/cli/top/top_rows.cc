// The title, the CPU, troubles, processes and the last two lines.
#include "cli/top/top_rows.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <tuple>

#include "base/printable.h"
#include "base/units.h"
#include "cli/common/report.h"
#include "cli/top/top_cells.h"

namespace sluice::cli {

namespace {

using device::HealthState;
using device::Metric;

struct Verdict {
  std::string text;
  Ink ink;
};

Verdict verdict(const watch::Snapshot& snapshot) {
  const auto total = snapshot.gpus.size();
  if (total == 0 && !snapshot.sampler.driver_trouble.empty())
    return {"the NVIDIA driver does not start, working on the CPU", Ink::bad};
  if (total == 0) return {"no GPU, working on the CPU", Ink::warn};
  std::string bad;
  auto ink = Ink::good;
  for (const auto state : {HealthState::lost, HealthState::probation, HealthState::degraded}) {
    const auto n = std::ranges::count_if(
        snapshot.gpus, [&](const watch::GpuView& g) { return g.health.state == state; });
    if (n == 0) continue;
    bad += fmt::format("{}{} {}", bad.empty() ? "" : ", ", n, to_string(state));
    if (ink != Ink::bad) ink = ink_of(state);
  }
  if (!snapshot.sampler.driver_trouble.empty()) {
    bad += fmt::format("{}the NVIDIA driver does not start", bad.empty() ? "" : ", ");
    ink = Ink::bad;
  }
  const auto gpus = fmt::format("{} GPU{}", total, total == 1 ? "" : "s");
  return {bad.empty() ? gpus + ", all healthy" : fmt::format("{}: {}", gpus, bad), ink};
}

// `first` at the left edge and `last` at the right one; `last` gives way.
std::string spread_out(const std::string& first, const std::string& last, int width) {
  const int gap = width - columns(first) - columns(last);
  if (gap < 1) return first;
  return first + std::string(static_cast<std::size_t>(gap), ' ') + last;
}

struct Running {
  const device::Process* process;
  const watch::GpuView* gpu;
};

std::vector<Running> sorted_processes(const Scene& scene) {
  std::vector<Running> all;
  for (const auto& gpu : scene.snapshot.gpus)
    for (const auto& process : gpu.readings.processes) all.push_back({&process, &gpu});
  const auto before = [&](const Running& a, const Running& b) {
    const auto pids =
        std::tie(a.process->pid, a.gpu->gpu.bus) < std::tie(b.process->pid, b.gpu->gpu.bus);
    switch (scene.state.order) {
      case ProcessOrder::memory:
        if (a.process->memory != b.process->memory) return a.process->memory > b.process->memory;
        return pids;
      case ProcessOrder::utilization:
        if (a.process->utilization != b.process->utilization)
          return a.process->utilization > b.process->utilization;
        return pids;
      case ProcessOrder::pid: return pids;
    }
    return pids;
  };
  std::ranges::sort(all, before);
  return all;
}

std::string order_name(ProcessOrder order) {
  switch (order) {
    case ProcessOrder::memory: return "memory";
    case ProcessOrder::utilization: return "utilisation";
    case ProcessOrder::pid: return "pid";
  }
  return "";
}

std::string process_line(const Running& running, Pen pen) {
  const auto& p = *running.process;
  const auto memory = p.memory ? human_bytes(*p.memory) : "-";
  const auto share = p.utilization ? fmt::format("{:.0f} %", *p.utilization) : "-";
  return fmt::format("{} {} {} {} {}  {} {}", right(std::to_string(p.pid), 8, pen),
                     left(printable(p.user), 10, pen),
                     left(short_bus(running.gpu->gpu.bus), 9, pen), right(memory, 10, pen),
                     right(share, 6, pen), left(p.kind, 8, pen),
                     p.name.empty() ? "(gone)" : printable(p.name));
}

std::string process_heading(const Scene& scene, std::size_t first, std::size_t shown,
                            std::size_t total) {
  const auto pen = scene.frame.pen;
  const auto titles = fmt::format(
      "{} {} {} {} {}  {} {}", right("PID", 8, pen), left("USER", 10, pen), left("GPU", 9, pen),
      right("MEMORY", 10, pen), right("UTIL", 6, pen), left("KIND", 8, pen), "COMMAND");
  const auto range =
      shown < total ? fmt::format("{}-{} of {}", first + 1, first + shown, total) : std::string();
  return paint(left(spread_out(titles, range, scene.frame.width), scene.frame.width, pen),
               Ink::reverse, pen);
}

struct Trouble {
  int rank;  // 0 is worst
  std::string text, fix;
  Ink ink;
};

// An alert about a GPU's health says the same as the GPU itself, only later.
bool said_already(const watch::Alert& alert, const std::vector<Trouble>& found) {
  return !alert.cause.empty() && std::ranges::any_of(found, [&](const Trouble& t) {
    return t.text.find(alert.cause) != std::string::npos;
  });
}

std::vector<Trouble> troubles(const Scene& scene) {
  std::vector<Trouble> found;
  for (const auto& gpu : scene.snapshot.gpus) {
    const auto& health = gpu.health;
    if (health.state == HealthState::healthy) continue;
    const bool lost = health.state == HealthState::lost;
    found.push_back(
        {lost ? 0 : 2,
         fmt::format("{} {} for {}: {}", short_bus(gpu.gpu.bus), to_string(health.state),
                     age_text(health.since, scene.now), health.cause),
         health.fix, ink_of(health.state)});
  }
  for (const auto& alert : scene.snapshot.alerts) {
    if (said_already(alert, found)) continue;
    const bool silenced = alert.silenced_until && *alert.silenced_until > scene.snapshot.wall;
    const bool critical = alert.severity == watch::Severity::critical;
    found.push_back({silenced   ? 5
                     : critical ? 1
                                : 3,
                     (silenced ? "(silenced) " : "") + alert.summary, alert.fix,
                     silenced   ? Ink::dim
                     : critical ? Ink::bad
                                : Ink::warn});
  }
  std::ranges::stable_sort(found, {}, &Trouble::rank);
  return found;
}

}  // namespace

std::string short_bus(const std::string& bus) {
  return bus.starts_with("0000:")       ? bus.substr(5)
         : bus.starts_with("00000000:") ? bus.substr(9)
                                        : bus;
}

std::string title_line(const Scene& scene) {
  const auto pen = scene.frame.pen;
  const auto& snapshot = scene.snapshot;
  const auto v = verdict(snapshot);
  auto first = paint("sluice top", Ink::bold, pen) + "  " + paint(v.text, v.ink, pen);
  if (scene.state.paused) first += fmt::format("  {}", paint(" PAUSED ", Ink::reverse, pen));
  std::string last =
      snapshot.demo.empty() ? scene.state.host : fmt::format("demo {}", snapshot.demo);
  last += fmt::format("  {:%H:%M:%S}", fmt::localtime(WallTime::clock::to_time_t(snapshot.wall)));
  return spread_out(first, last, scene.frame.width);
}

std::string cpu_line(const Scene& scene) {
  const auto pen = scene.frame.pen;
  const auto& host = scene.snapshot.host;
  const bool wide = scene.frame.width >= 110;
  const auto share = fresh(host, Metric::cpu_utilization, scene);
  const auto load = host.value(Metric::cpu_load);
  const auto used = host.value(Metric::host_memory_used),
             total = host.value(Metric::host_memory_total);
  auto line = fmt::format("CPU {} {}", gauge(share, 100, wide ? 16 : 8, pen), percent(share));
  line += fmt::format("  {:.3g} cores", scene.snapshot.cpu.usable_cores);
  if (load) line += fmt::format("  load {:.2f}", *load);
  if (used && total && *total > 0)
    line +=
        fmt::format("  mem {} {}", gauge(used, *total, wide ? 16 : 8, pen), of_gib(*used, *total));
  if (const auto heat = host.value(Metric::cpu_temperature))
    line += fmt::format("  {:.0f} °C", *heat);
  const int rest = scene.frame.width - columns(line) - 2;
  if (const auto past = past_of(scene, "cpu"); rest >= 8)
    line += fmt::format("  {}",
                        paint(sparkline(past, std::min(rest, 60), 0, 100, pen), Ink::accent, pen));
  return line;
}

Lines no_gpus(const Scene& scene) {
  Lines lines;
  for (const auto& note : scene.snapshot.notes)
    for (const auto& line : wrapped(note, scene.frame.width))
      lines.push_back(paint(line, Ink::dim, scene.frame.pen));
  if (lines.empty()) lines.push_back(paint("No GPU was found.", Ink::dim, scene.frame.pen));
  return lines;
}

Lines trouble(const Scene& scene, int max_lines) {
  const auto all = troubles(scene);
  const auto pen = scene.frame.pen;
  const bool with_fix = static_cast<int>(all.size()) * 2 <= max_lines;
  const auto each = with_fix ? 2u : 1u;
  const auto shown = std::min(all.size(), static_cast<std::size_t>(std::max(max_lines, 1)) / each);
  Lines lines;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == shown && shown < all.size();
    const auto more = last ? fmt::format("  (and {} more)", all.size() - shown) : std::string();
    const int width = scene.frame.width - columns(more);
    auto text = fmt::format("{} {}", pen.utf8 ? "▲" : "!", all[i].text);
    if (columns(text) > width) text = left(text, width, pen);
    lines.push_back(paint(text + more, all[i].ink, pen));
    if (with_fix && !all[i].fix.empty())
      lines.push_back(paint(fmt::format("  fix: {}", all[i].fix), Ink::dim, pen));
  }
  return lines;
}

int process_count(const watch::Snapshot& snapshot) {
  std::size_t count = 0;
  for (const auto& gpu : snapshot.gpus) count += gpu.readings.processes.size();
  return static_cast<int>(count);
}

Lines processes(const Scene& scene, int max_lines) {
  const auto all = sorted_processes(scene);
  if (all.empty() || max_lines < 2) return {};
  const auto max_rows = std::min(all.size(), static_cast<std::size_t>(max_lines - 1));
  const auto first =
      std::min(static_cast<std::size_t>(std::max(scene.state.scroll, 0)), all.size() - max_rows);
  Lines lines{process_heading(scene, first, max_rows, all.size())};
  for (auto i = first; i < first + max_rows; ++i)
    lines.push_back(process_line(all[i], scene.frame.pen));
  return lines;
}

std::string sampler_line(const Scene& scene) {
  const auto& cost = scene.snapshot.sampler;
  const bool fine = cost.state == "running";
  if (cost.state.starts_with("not needed"))  // the notes say why
    return paint("sampler not needed", Ink::dim, scene.frame.pen);
  auto line = fmt::format("sampler {}", cost.state);
  if (cost.pid != 0)
    line += fmt::format(" · {:.3f} % of a core, {:.3f} % in the driver", cost.core_share * 100,
                        cost.driver_share * 100);
  if (cost.interval_scale > 1.05) line += fmt::format(" · intervals x{:.1f}", cost.interval_scale);
  if (cost.restarts > 0)
    line += fmt::format(" · {} restart{}", cost.restarts, cost.restarts == 1 ? "" : "s");
  if (cost.errors > 0)
    line += fmt::format(" · {} error{}", cost.errors, cost.errors == 1 ? "" : "s");
  return paint(line, fine ? Ink::dim : Ink::warn, scene.frame.pen);
}

std::string key_line(const Scene& scene) {
  const auto pen = scene.frame.pen;
  const auto text =
      fmt::format(" q quit   {} scroll   s sort: {}   p {}   ? help", pen.utf8 ? "↑↓" : "arrows",
                  order_name(scene.state.order), scene.state.paused ? "go on" : "pause");
  return paint(left(text, scene.frame.width, pen), Ink::reverse, pen);
}

Lines help_lines() {
  return {
      "  q, Ctrl-C        leave",
      "  up, down, k, j   scroll the processes by one",
      "  PgUp, PgDn, g    by a page; to the first",
      "  s                sort processes by the next column",
      "  m  u  i          sort by memory, utilisation, process id",
      "  p, space         hold the screen; press again to go on",
      "  ?                this page",
      "",
      "  A value with ~ is older than it should be; - was never read.",
      "  'stuck' is a utilisation counter that shows 100 % with no process on the GPU.",
      "  healthy    may be given work",
      "  degraded   works, with a fault that has not gone away yet",
      "  lost       does not answer; gets no work",
      "  probation  answers again; must pass a canary before it gets work",
  };
}

}  // namespace sluice::cli
