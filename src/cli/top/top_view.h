// The screen of `sluice top`, as a pure function of a snapshot, the viewer's choices
// and the size of the screen. Nothing here knows a terminal.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/common/draw.h"
#include "watch/snapshot.h"

namespace sluice::cli {

enum class ProcessOrder { memory, utilization, pid };

// The viewer's choices, and the history that only watching for a while collects.
struct TopState {
  std::string host;
  ProcessOrder order = ProcessOrder::memory;
  int scroll = 0;  // first process shown; never past the last, whatever it says
  bool paused = false;
  bool help = false;

  // Utilisation, one value a second, newest last; by UUID, and "cpu".
  std::map<std::string, std::deque<std::optional<double>>> past;
  std::optional<Instant> past_at;
};

struct Frame {
  int width = 80;
  int height = 24;  // 0: as many lines as there is to show, without the line of keys
  Pen pen;
};

enum class Key {
  other,
  quit,
  up,
  down,
  page_up,
  page_down,
  home,
  order,
  by_memory,
  by_utilization,
  by_pid,
  pause,
  help
};

// The keys in what a terminal sent; an unfinished escape sequence is dropped.
std::vector<Key> keys_of(std::string_view typed);

// False when the viewer wants to leave. `page`: lines of a page.
bool press(TopState& state, Key key, int page);

// Remembers utilisation for the sparklines; call with every snapshot shown.
void observe(TopState& state, const watch::Snapshot& snapshot);

// Lines of at most frame.width columns, each ended by '\n'; exactly frame.height
// of them unless that is 0. Compact, one line per GPU, when there is no space for
// more; what does not fit is counted, never dropped in silence.
std::string render(const watch::Snapshot& snapshot, const TopState& state, const Frame& frame,
                   Instant now);

}  // namespace sluice::cli
