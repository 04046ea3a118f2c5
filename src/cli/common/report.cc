#include "cli/common/report.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "base/printable.h"

namespace sluice::cli {

namespace {

constexpr int kLabel = 15;                // columns of a row's label with its indent
constexpr int kNarrow = 60, kWide = 100;  // text is hard to read outside these

constexpr char kGlue = '\x1f';  // a space that does not break

}  // namespace

std::string glued(std::string text) {
  std::ranges::replace(text, ' ', kGlue);
  return text;
}

std::vector<std::string> wrapped(std::string_view text, int width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    auto& line = lines.back();
    if (line.empty())
      line = word;
    else if (columns(line) + 1 + columns(word) <= width)
      line.append(" ").append(word);
    else
      lines.emplace_back(word);
  }
  for (auto& line : lines) std::ranges::replace(line, kGlue, ' ');
  return lines;
}

Report::Report(std::ostream& out, const Terminal& terminal)
    : out_(out), pen_(terminal.pen), width_(std::clamp(terminal.width, kNarrow, kWide)) {}

void Report::heading(std::string_view kind, std::string_view title) {
  if (!first_) out_ << "\n";
  first_ = false;
  out_ << paint(kind, Ink::accent, pen_);
  if (!title.empty()) out_ << "  " << paint(printable(title), Ink::bold, pen_);
  out_ << "\n";
}

void Report::row(std::string_view label, std::string_view text) {
  if (text.empty()) return;
  const auto name = left("  " + std::string(label), kLabel, pen_);
  item(paint(name, Ink::dim, pen_) + " ", kLabel + 1, text);
}

void Report::item(std::string_view mark, int columns_of_mark, std::string_view text, Ink ink) {
  const std::string indent(static_cast<std::size_t>(columns_of_mark), ' ');
  bool first = true;
  for (const auto& part : wrapped(text, width_ - columns_of_mark)) {
    out_ << (first ? mark : std::string_view(indent)) << paint(printable(part), ink, pen_) << "\n";
    first = false;
  }
}

void Report::line(std::string_view text) {
  first_ = false;
  out_ << text << "\n";
}

Terminal terminal_behind(const std::ostream& out) {
  if (&out == &std::cout) return terminal_of(STDOUT_FILENO);
  Terminal page;
  page.pen = {.colour = false, .utf8 = false};
  return page;
}

}  // namespace sluice::cli
