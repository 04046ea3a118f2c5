#include "cli/top/top_view.h"

#include <algorithm>
#include <array>

#include "cli/top/top_rows.h"

namespace sluice::cli {

namespace {

constexpr std::size_t kPast = 600;  // seconds kept for the sparklines
constexpr int kUnbounded = 10'000;

struct KeyCode {
  std::string_view typed;
  Key key;
};

constexpr KeyCode kKeyCodes[] = {
    {"\x1b[A", Key::up},       {"\x1bOA", Key::up},
    {"\x1b[B", Key::down},     {"\x1bOB", Key::down},
    {"\x1b[5~", Key::page_up}, {"\x1b[6~", Key::page_down},
    {"\x1b[H", Key::home},     {"k", Key::up},
    {"j", Key::down},          {"g", Key::home},
    {"q", Key::quit},          {"Q", Key::quit},
    {"\x03", Key::quit},       {"s", Key::order},
    {"m", Key::by_memory},     {"u", Key::by_utilization},
    {"i", Key::by_pid},        {"p", Key::pause},
    {" ", Key::pause},         {"?", Key::help},
    {"h", Key::help},
};

void remember(std::deque<std::optional<double>>& past, std::optional<double> value) {
  past.push_back(value);
  while (past.size() > kPast) past.pop_front();
}

// The parts of the screen besides GPUs, and how many lines they leave to the GPUs.
struct Plan {
  Lines gpus, trouble;
  int for_processes = 0;
};

Lines gpu_lines(const Scene& scene, int max_lines) {
  const int count = static_cast<int>(scene.snapshot.gpus.size());
  if (count == 0) return no_gpus(scene);
  if (3 * count - 1 <= max_lines) return two_line_gpus(scene, 1);
  if (2 * count <= max_lines && count <= 4) return two_line_gpus(scene, 0);  // more would be a wall
  return compact_gpus(scene, max_lines);
}

// GPUs first, then trouble, then processes; each leaves a little to the next.
Plan plan(const Scene& scene, int max_lines) {
  Plan p;
  const int running = process_count(scene.snapshot);
  const int min_processes = running > 0 ? std::min(running, 8) + 1 : 0;
  p.trouble = trouble(scene, std::max(3, max_lines / 4));
  const int below = static_cast<int>(p.trouble.size()) + (p.trouble.empty() ? 0 : 1);
  p.gpus = gpu_lines(scene, max_lines - below - min_processes - 1);
  p.for_processes = max_lines - below - static_cast<int>(p.gpus.size()) - 1;
  return p;
}

void append(Lines& lines, const Lines& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

Lines body(const Scene& scene, int max_lines) {
  if (scene.state.help) return help_lines();
  const auto p = plan(scene, max_lines);
  Lines lines = p.gpus;
  if (!p.trouble.empty()) lines.emplace_back();
  append(lines, p.trouble);
  const auto list = processes(scene, p.for_processes);
  if (!list.empty()) lines.emplace_back();
  append(lines, list);
  return lines;
}

}  // namespace

std::vector<Key> keys_of(std::string_view typed) {
  std::vector<Key> keys;
  while (!typed.empty()) {
    const auto* found = std::ranges::find_if(
        kKeyCodes, [&](const KeyCode& code) { return typed.starts_with(code.typed); });
    if (found != std::end(kKeyCodes)) {
      keys.push_back(found->key);
      typed.remove_prefix(found->typed.size());
    } else if (typed.front() == '\x1b') {
      break;  // a key we do not know, to its end
    } else {
      keys.push_back(Key::other);
      typed.remove_prefix(1);
    }
  }
  return keys;
}

bool press(TopState& state, Key key, int page) {
  switch (key) {
    case Key::quit: return false;
    case Key::up: state.scroll = std::max(0, state.scroll - 1); break;
    case Key::down: ++state.scroll; break;
    case Key::page_up: state.scroll = std::max(0, state.scroll - page); break;
    case Key::page_down: state.scroll += page; break;
    case Key::home: state.scroll = 0; break;
    case Key::order:
      state.order = static_cast<ProcessOrder>((static_cast<int>(state.order) + 1) % 3);
      break;
    case Key::by_memory: state.order = ProcessOrder::memory; break;
    case Key::by_utilization: state.order = ProcessOrder::utilization; break;
    case Key::by_pid: state.order = ProcessOrder::pid; break;
    case Key::pause: state.paused = !state.paused; break;
    case Key::help: state.help = !state.help; break;
    case Key::other: state.help = false; break;
  }
  return true;
}

void observe(TopState& state, const watch::Snapshot& snapshot) {
  const int processes_shown = std::max(process_count(snapshot) - 1, 0);
  state.scroll = std::min(state.scroll, processes_shown);
  if (state.past_at && seconds_between(*state.past_at, snapshot.at) < 0.95) return;
  state.past_at = snapshot.at;
  const auto fresh = [&](const device::Readings& readings,
                         device::Metric metric) -> std::optional<double> {
    const auto& reading = readings.at(metric);
    if (!reading || seconds_between(reading->at, snapshot.at) > 5) return std::nullopt;
    return reading->value;
  };
  for (const auto& gpu : snapshot.gpus)
    remember(state.past[gpu.gpu.uuid], gpu.ghost_utilization
                                           ? std::nullopt
                                           : fresh(gpu.readings, device::Metric::utilization));
  remember(state.past["cpu"], fresh(snapshot.host, device::Metric::cpu_utilization));
}

std::string render(const watch::Snapshot& snapshot, const TopState& state, const Frame& frame,
                   Instant now) {
  const Scene scene{snapshot, state, frame, now};
  const bool bounded = frame.height > 0;
  const int fixed = bounded ? 5 : 4;  // title, CPU, an empty line, sampler, keys
  Lines lines{title_line(scene), cpu_line(scene), ""};
  append(lines, body(scene, bounded ? std::max(frame.height - fixed, 0) : kUnbounded));
  const auto tall = static_cast<std::size_t>(std::max(frame.height, 0));
  if (bounded) lines.resize(std::max<std::size_t>(tall, 2) - 2);
  if (!bounded) lines.emplace_back();
  lines.push_back(sampler_line(scene));
  if (bounded) lines.push_back(key_line(scene));
  if (bounded) lines.resize(tall);

  std::string text;
  for (const auto& line : lines) {
    const auto shown = displayable(line, frame.pen);
    text += columns(shown) > frame.width ? left(shown, frame.width, frame.pen) : shown;
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace sluice::cli
