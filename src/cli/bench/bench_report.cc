#include "cli/bench/bench_report.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace sluice::cli {

namespace {

constexpr int kTitle = 31, kValue = 13, kSpread = 9;

std::string heading(const BenchSubject& subject) {
  std::string line = subject.name;
  for (const auto& part : {subject.bus, subject.uuid})
    if (!part.empty()) line.append("  ").append(part);
  if (!subject.driver.empty()) line += "  driver " + subject.driver;
  if (!subject.cuda.empty()) line += "  CUDA " + subject.cuda;
  return line;
}

std::string peak_cell(const device::BenchRow& row, int width, Pen pen) {
  const auto percent = row.percent();
  if (!percent) return left("", width, pen);
  constexpr int kBar = 12;
  auto text = fmt::format(" {:3.0f} %", *percent);
  const auto of_peak = " of " + shown(*row.peak, row.unit);
  if (kBar + static_cast<int>(text.size() + of_peak.size()) <= width) text += of_peak;
  return left(bar(*percent / 100, kBar, pen, Ink::accent) + text, width, pen);
}

std::string line_of(const device::BenchRow& row, int width, Pen pen) {
  const auto title = fmt::format("  {}", left(row.title, kTitle, pen));
  if (!row.value)
    return title + paint(displayable("not measured: " + row.detail, pen), Ink::warn, pen);
  const int rest = std::clamp(width - 2 - kTitle - kValue - kSpread - 4, 20, 34);
  const auto spread = fmt::format("{} {:.1f} %", pen.utf8 ? "±" : "+-", row.spread * 50);
  return title + right(shown(*row.value, row.unit), kValue, pen) + "  " +
         peak_cell(row, rest, pen) + paint(right(spread, kSpread, pen), Ink::dim, pen);
}

// "5.1 x TA-Lib 0.8.2 (317 Mpt/s)" for each peer, under its row.
std::string peer_lines(const device::BenchRow& row, Pen pen) {
  std::string lines;
  if (!row.value) return lines;
  for (const auto& peer : row.peers)
    lines += paint(fmt::format("    {:.3g} x {} ({})\n", *row.value / peer.value, peer.name,
                               shown(peer.value, row.unit)),
                   Ink::dim, pen);
  return lines;
}

std::string utc(WallTime t) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(WallTime::clock::to_time_t(t)));
}

Json to_json(const BenchSubject& subject) {
  Json json{{"kind", subject.kind}, {"name", subject.name}};
  if (!subject.uuid.empty()) json["uuid"] = subject.uuid;
  if (!subject.bus.empty()) json["bus"] = subject.bus;
  if (!subject.driver.empty()) json["driver"] = subject.driver;
  if (!subject.cuda.empty()) json["cuda"] = subject.cuda;
  json["results"] = Json::array();
  for (const auto& row : subject.rows) json["results"].push_back(device::to_json(row));
  return json;
}

}  // namespace

std::string shown(double value, const std::string& unit) {
  if (unit == "s")
    return value < 1e-4 ? fmt::format("{:.2f} us", value * 1e6) : human_duration(value);
  return human_rate(value, unit.substr(0, unit.find('/')).c_str());
}

std::string table(const BenchReport& report, int width, Pen pen) {
  std::string text;
  for (const auto& subject : report.subjects) {
    if (!text.empty()) text += '\n';
    text += paint(heading(subject), Ink::bold, pen) + "\n";
    for (const auto& row : subject.rows)
      text += line_of(row, width, pen) + "\n" + peer_lines(row, pen);
  }
  for (const auto& note : report.notes) text += fmt::format("\n{}\n", paint(note, Ink::dim, pen));
  const auto data =
      report.suite == "tokenizer" ? "the texts given" : "random data, results checked";
  text += paint(fmt::format("\nMedians of repeats on {}; {} in all{}.\n", data,
                            human_duration(report.seconds),
                            report.quick ? ", --quick: a look, not a result" : ""),
                Ink::dim, pen);
  return text;
}

Json to_json(const BenchReport& report) {
  Json json{
      {"suite", report.suite},     {"date", utc(report.started)},
      {"command", report.command}, {"version", report.version},
      {"commit", report.commit},   {"host", {{"name", report.host}, {"system", report.system}}},
      {"quick", report.quick},     {"seconds", report.seconds}};
  json["devices"] = Json::array();
  for (const auto& subject : report.subjects) json["devices"].push_back(to_json(subject));
  json["notes"] = report.notes;
  return json;
}

bool measured(const BenchReport& report) {
  return std::ranges::any_of(report.subjects, [](const BenchSubject& subject) {
    return std::ranges::any_of(subject.rows, [](const auto& row) { return row.value.has_value(); });
  });
}

}  // namespace sluice::cli
