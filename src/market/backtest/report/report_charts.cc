#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "market/backtest/report/report_parts.h"

namespace sluice::market::page {
namespace {

constexpr std::size_t kPoints = 800;

// Returns the bars to draw: about kPoints of them, always with the last.
std::vector<std::size_t> drawn(std::size_t bars) {
  std::vector<std::size_t> at;
  const std::size_t step = std::max<std::size_t>(1, (bars + kPoints - 1) / kPoints);
  for (std::size_t i = 0; i < bars; i += step) at.push_back(std::min(i + step - 1, bars - 1));
  return at;
}

struct Scale {
  double low, high;
  bool logarithmic = false;

  // Returns the position from the top, in percent of the height.
  double y(double value) const {
    if (logarithmic) return 100 * (1 - std::log(value / low) / std::log(high / low));
    return 100 * (1 - (value - low) / (high - low));
  }
};

std::string path(const std::vector<double>& values, const std::vector<std::size_t>& at,
                 const Scale& scale) {
  std::string d;
  for (std::size_t i = 0; i < at.size(); ++i)
    d += fmt::format("{}{:.2f} {:.2f}", i == 0 ? "M" : "L",
                     1000.0 * static_cast<double>(i) / static_cast<double>(at.size() - 1),
                     scale.y(values[at[i]]));
  return d;
}

// Returns round numbers between low and high.
std::vector<double> ticks(const Scale& s) {
  std::vector<double> all;
  if (s.logarithmic) {
    const bool fine = s.high / s.low < 60;
    for (double power = std::pow(10, std::floor(std::log10(s.low))); power < s.high; power *= 10)
      for (const double digit : {1.0, 2.0, 5.0})
        if ((fine || digit == 1) && power * digit >= s.low && power * digit <= s.high)
          all.push_back(power * digit);
    return all;
  }
  const double rough = (s.high - s.low) / 4, power = std::pow(10, std::floor(std::log10(rough)));
  const double step = power * (rough / power < 1.5   ? 1
                               : rough / power < 3.5 ? 2
                               : rough / power < 7.5 ? 5
                                                     : 10);
  for (double v = std::ceil(s.low / step) * step; v <= s.high + step * 1e-9; v += step)
    all.push_back(std::abs(v) < step * 1e-9 ? 0 : v);
  return all;
}

std::string x_labels(const Backtest& b, const std::vector<std::size_t>& at) {
  std::string html;
  if (b.days.empty()) return html;
  const int first = month_of(b.days.front()).year, last = month_of(b.days.back()).year;
  const int step = std::max(1, (last - first + 7) / 8);
  int seen = first;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const int year = month_of(b.days[at[i]]).year;
    if (year == seen) continue;
    seen = year;
    if ((year - first) % step != 0) continue;
    html += fmt::format("<span class=x style=\"left:{:.2f}%\">{}</span>",
                        100.0 * static_cast<double>(i) / static_cast<double>(at.size() - 1), year);
  }
  return html;
}

struct Frame {
  std::string classes, paths, rest;
  std::vector<std::string> points;
};

template <class Label>
std::string chart(const Backtest& b, const std::vector<std::size_t>& at, const Scale& scale,
                  const Frame& frame, Label label) {
  std::string grid, labels;
  for (const double v : ticks(scale)) {
    const double y = scale.y(v);
    grid += fmt::format("<path class=grid d=\"M0 {0:.2f}L1000 {0:.2f}\"/>", y);
    labels += fmt::format("<span class=y style=\"top:{:.2f}%\">{}</span>", y, label(v));
  }
  return fmt::format(
      "<p class=read>{}</p><div class=\"chart {}\" data-points=\"{}\"><svg viewBox=\"0 0 1000 "
      "100\" preserveAspectRatio=none aria-hidden=true>{}{}</svg><div class=hair></div>{}{}</div>",
      frame.rest, frame.classes, escaped(nlohmann::json(frame.points).dump()), grid, frame.paths,
      labels, x_labels(b, at));
}

std::string when(const Backtest& b, std::size_t i) {
  return b.days.empty() ? fmt::format("bar {}", i) : to_date(b.days[i]);
}

std::vector<double> falls(const std::vector<double>& equity) {
  std::vector<double> all;
  double peak = equity.front();
  for (const double value : equity) {
    peak = std::max(peak, value);
    all.push_back(value / peak - 1);
  }
  return all;
}

}  // namespace

std::string equity_chart(const Backtest& b) {
  const auto at = drawn(b.equity.size());
  const auto [low_a, high_a] = std::ranges::minmax(b.equity);
  const auto [low_b, high_b] = std::ranges::minmax(b.hold);
  Scale scale{std::min(low_a, low_b), std::max(high_a, high_b)};
  scale.logarithmic = scale.low > 0 && scale.high / scale.low > 4;
  const double margin = scale.logarithmic ? 0 : 0.04 * (scale.high - scale.low);
  if (!(scale.high > scale.low)) scale = {scale.low * 0.99, scale.high * 1.01};
  scale.low -= margin, scale.high += margin;
  Frame frame{.classes = "", .paths = {}, .rest = "Point at the chart to read it.", .points = {}};
  frame.paths = fmt::format("<path class=b d=\"{}\"/><path class=a d=\"{}\"/>",
                            path(b.hold, at, scale), path(b.equity, at, scale));
  for (const auto i : at)
    frame.points.push_back(fmt::format("{}: {} by the strategy, {} held", when(b, i),
                                       money(b.equity[i]), money(b.hold[i])));
  return fmt::format(
             "<div class=key><span><i></i>the strategy</span><span><i class=o></i>buy and "
             "hold</span>{}</div>",
             scale.logarithmic ? "<span>logarithmic</span>" : "") +
         chart(b, at, scale, frame, [](double v) { return money(v); });
}

std::string drawdown_chart(const Backtest& b) {
  const auto at = drawn(b.equity.size());
  const auto mine = falls(b.equity), held = falls(b.hold);
  std::vector<double> worst = mine, worst_held = held;  // within what a point stands for
  for (std::size_t k = 0, from = 0; k < at.size(); from = at[k++] + 1)
    for (std::size_t i = from; i < at[k]; ++i) {
      worst[at[k]] = std::min(worst[at[k]], mine[i]);
      worst_held[at[k]] = std::min(worst_held[at[k]], held[i]);
    }
  Scale scale{std::min({std::ranges::min(mine), std::ranges::min(held), -0.01}), 0};
  Frame frame{
      .classes = "low", .paths = {}, .rest = "Point at the chart to read it.", .points = {}};
  frame.paths = fmt::format("<path class=fall d=\"{}L1000 0L0 0Z\"/><path class=b d=\"{}\"/>",
                            path(worst, at, scale), path(worst_held, at, scale));
  for (const auto i : at)
    frame.points.push_back(fmt::format("{}: {} by the strategy, {} held", when(b, i),
                                       percent(worst[i]), percent(worst_held[i])));
  return chart(b, at, scale, frame, [](double v) { return percent(v, 0); });
}

}  // namespace sluice::market::page
