#include "memory/alloc/growth.h"

#include <algorithm>

namespace sluice::memory {
namespace {

constexpr double kExplained = 0.8;
constexpr double kStillGrows = 1.0 / 3;  // the newest part, against the whole

}  // namespace

void GrowthWindow::add(double t, double value) {
  if (!samples_.empty() && t - samples_.back().t < window_s_ / 120) return;
  samples_.push_back({t, value});
  while (t - samples_.front().t > window_s_) samples_.pop_front();
}

Line GrowthWindow::fit(std::size_t from) const {
  const auto begin = samples_.begin() + static_cast<std::ptrdiff_t>(from);
  const auto n = static_cast<double>(samples_.size() - from);
  double mean_t = 0, mean_value = 0;
  for (auto s = begin; s != samples_.end(); ++s) mean_t += s->t / n, mean_value += s->value / n;
  double tt = 0, tv = 0, vv = 0;
  for (auto s = begin; s != samples_.end(); ++s) {
    const double dt = s->t - mean_t, dv = s->value - mean_value;
    tt += dt * dt, tv += dt * dv, vv += dv * dv;
  }
  return {tv / tt, vv == 0 ? 0 : tv * tv / (tt * vv), samples_.back().t - begin->t};
}

std::optional<Line> GrowthWindow::line() const {
  if (samples_.size() < 8 || samples_.back().t - samples_.front().t < window_s_ / 2)
    return std::nullopt;
  return fit(0);
}

std::optional<double> GrowthWindow::growth_per_s(bool known) const {
  const auto window = line();
  if (!window || window->per_s <= 0) return window ? std::optional(window->per_s) : std::nullopt;
  const std::size_t newest = samples_.size() / (known ? 2 : 4);
  const bool goes_on = fit(samples_.size() - newest).per_s >= kStillGrows * window->per_s;
  return window->explained >= kExplained && goes_on ? window->per_s : 0;
}

double GrowthWindow::since() const {
  const double min_value = samples_.front().value;
  const auto last = std::find_if(samples_.rbegin(), samples_.rend(),
                                 [&](const Sample& s) { return s.value <= min_value; });
  return last->t;
}

}  // namespace sluice::memory
