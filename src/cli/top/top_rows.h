// The parts of `sluice top`'s screen, each as lines of text. Pure.
#pragma once

#include <string>
#include <vector>

#include "cli/top/top_view.h"

namespace sluice::cli {

using Lines = std::vector<std::string>;

// One snapshot with everything a part needs to draw itself.
struct Scene {
  const watch::Snapshot& snapshot;
  const TopState& state;
  Frame frame;
  Instant now;
  bool all_old = false;  // what is known of this GPU is from before it was lost
};

// "04:00.0", with its domain only where that is not 0.
std::string short_bus(const std::string& bus);

std::string title_line(const Scene& scene);
std::string cpu_line(const Scene& scene);

// One line per GPU under a line of headings; at most `max_lines` lines.
Lines compact_gpus(const Scene& scene, int max_lines);
// Two lines per GPU, `gap` empty lines between them.
Lines two_line_gpus(const Scene& scene, int gap);
// The reasons why there is no GPU.
Lines no_gpus(const Scene& scene);

// Unhealthy GPUs and active alerts, worst first; at most `max_lines` lines.
Lines trouble(const Scene& scene, int max_lines);

// Headings and as many processes as fit; empty when there are none.
Lines processes(const Scene& scene, int max_lines);
int process_count(const watch::Snapshot& snapshot);

std::string sampler_line(const Scene& scene);
std::string key_line(const Scene& scene);
Lines help_lines();

}  // namespace sluice::cli
