#include "engine/ops/text/regex.h"

#include <algorithm>

#include "engine/ops/text/regex_parse.h"
#include "engine/ops/text/unicode.h"

namespace sluice::engine {
namespace {

bool is_word(std::uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

bool holds(Regex::Assertion what, const std::vector<std::uint32_t>& text, std::size_t at) {
  const bool begin = at == 0, end = at == text.size();
  const bool edge = (!begin && is_word(text[at - 1])) != (!end && is_word(text[at]));
  switch (what) {
    case Regex::Assertion::text_begin: return begin;
    case Regex::Assertion::text_end: return end;
    case Regex::Assertion::line_begin: return begin || text[at - 1] == '\n';
    case Regex::Assertion::line_end: return end || text[at] == '\n';
    case Regex::Assertion::word_edge: return edge;
    case Regex::Assertion::no_word_edge: return !edge;
  }
  return false;
}

}  // namespace

// The steps a match may be at, all at once.
class Regex::Threads {
 public:
  Threads(const std::vector<Step>& steps, const std::vector<std::uint32_t>& text)
      : steps_(steps), text_(text), seen_(steps.size(), 0) {}

  // Begins the next letter.
  void clear() {
    ++round_;
    list_.clear();
  }

  // `step`, and all that follow without a letter.
  void add(std::size_t step, std::size_t at) {
    waiting_.push_back(step);
    while (!waiting_.empty()) {
      const std::size_t i = waiting_.back();
      waiting_.pop_back();
      if (seen_[i] == round_) continue;
      seen_[i] = round_;
      const Step& now = steps_[i];
      if (now.kind == Step::Kind::letter || now.kind == Step::Kind::matched) {
        list_.push_back(i);
        continue;
      }
      if (now.kind == Step::Kind::assertion && !holds(now.assertion, text_, at)) continue;
      waiting_.push_back(now.next);
      if (now.kind == Step::Kind::split) waiting_.push_back(now.other);
    }
  }

  const std::vector<std::size_t>& list() const { return list_; }

 private:
  const std::vector<Step>& steps_;
  const std::vector<std::uint32_t>& text_;
  std::vector<std::size_t> seen_;  // the round a step was added in
  std::size_t round_ = 0;
  std::vector<std::size_t> list_, waiting_;
};

Regex::Regex(std::string_view pattern) { start_ = RegexParser(pattern, steps_).run(); }

bool Regex::matches_all(std::string_view text) const {
  const std::vector<std::uint32_t> points = code_points(text);
  Threads one(steps_, points), two(steps_, points);
  Threads *now = &one, *next = &two;
  now->clear();
  now->add(start_, 0);
  for (std::size_t at = 0; at < points.size() && !now->list().empty(); ++at) {
    next->clear();
    for (const std::size_t i : now->list()) {
      const auto& letters = steps_[i].letters;
      const bool fits = std::any_of(letters.begin(), letters.end(), [&](const Range& range) {
        return points[at] >= range.first && points[at] <= range.last;
      });
      if (fits) next->add(steps_[i].next, at + 1);
    }
    std::swap(now, next);
  }
  return std::any_of(now->list().begin(), now->list().end(),
                     [&](std::size_t i) { return steps_[i].kind == Step::Kind::matched; });
}

}  // namespace sluice::engine
