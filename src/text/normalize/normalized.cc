#include "text/normalize/normalized.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "text/unicode/unicode.h"

namespace sluice::text {
namespace {

constexpr std::size_t kMadeTimes = 64, kMadeAlways = std::size_t{1} << 20;
constexpr std::size_t kMostMade = std::size_t{1} << 30;  // positions have 32 bits

}  // namespace

std::size_t most_made_of(std::size_t bytes) {
  return bytes > kMostMade / kMadeTimes ? kMostMade
                                        : std::min(kMostMade, kMadeTimes * bytes + kMadeAlways);
}

void require_made(std::size_t bytes, std::size_t most) {
  if (bytes <= most) return;
  throw Error(
      Code::invalid_argument,
      fmt::format("the tokenizer file makes more than {} bytes of a text, which is too much "
                  "for its length; correct the file's normalizer, vocabulary or decoder",
                  most));
}

void Normalized::assign(std::string_view original, bool tracks) {
  clear(tracks);
  most = most_made_of(original.size());
  text.assign(original);
  if (!tracks) return;
  spans.reserve(original.size());
  for_each_code_point(original, [&](char32_t, std::size_t begin, std::size_t end) {
    const Span span{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
    spans.insert(spans.end(), end - begin, span);
  });
}

void Normalized::assign(const Normalized& from, std::size_t begin, std::size_t end) {
  clear(from.tracked);
  most = from.most;
  text.assign(from.text, begin, end - begin);
  if (tracked)
    spans.assign(from.spans.begin() + static_cast<std::ptrdiff_t>(begin),
                 from.spans.begin() + static_cast<std::ptrdiff_t>(end));
}

void Normalized::append(const Normalized& from) {
  require_made(text.size() + from.text.size(), most);
  text += from.text;
  spans.insert(spans.end(), from.spans.begin(), from.spans.end());
}

void Normalized::clear(bool tracks) {
  text.clear();
  spans.clear();
  tracked = tracks;
}

Rewriter::Rewriter(Normalized& of, std::size_t skipped) : of_(of) {
  next_.tracked = of.tracked;
  next_.text.reserve(of.text.size() + of.text.size() / 8);
  if (!of.tracked) return;
  next_.spans.reserve(of.spans.size());
  if (!of.spans.empty()) base_ = of.spans.front().begin;
  skip(skipped);
}

void Rewriter::skip(std::size_t code_points) {
  for (; code_points > 0 && at_ < of_.text.size(); --code_points) at_ += utf8_length(of_.text[at_]);
}

void Rewriter::keep_span(std::size_t dropped) {
  const auto& spans = of_.spans;
  const Span span = at_ < spans.size() ? spans[at_] : spans.empty() ? Span{} : spans.back();
  next_.spans.resize(next_.text.size(), span);
  skip(1 + dropped);
}

void Rewriter::repeat_span() {
  const Span span = at_ > 0 ? of_.spans[at_ - 1] : Span{base_, base_};
  next_.spans.resize(next_.text.size(), span);
}

void Rewriter::exchange(std::u32string_view by, std::size_t count) {
  const std::size_t replaced = std::min(by.size(), count);
  const std::size_t dropped = count - replaced;
  for (std::size_t i = 0; i < by.size(); ++i) {
    if (i >= replaced)
      add(by[i]);
    else
      replace(by[i], i + 1 == by.size() ? dropped : 0);
  }
}

void Rewriter::finish() {
  require_made(next_.text.size(), of_.most);
  of_.text.swap(next_.text);
  of_.spans.swap(next_.spans);
}

void prepend(Normalized& to, std::string_view text) {
  if (to.text.empty()) return;
  require_made(to.text.size() + text.size(), to.most);
  to.text.insert(0, text);
  if (to.tracked) to.spans.insert(to.spans.begin(), text.size(), Span(to.spans.front()));
}

void replace_all(Normalized& text, const std::vector<Match>& matches, std::string_view by) {
  if (matches.empty()) return;
  Normalized next;
  next.tracked = text.tracked;
  next.most = text.most;
  std::size_t copied = 0;
  const auto copy_to = [&](std::size_t end) {
    next.text.append(text.text, copied, end - copied);
    if (text.tracked)
      next.spans.insert(next.spans.end(), text.spans.begin() + static_cast<std::ptrdiff_t>(copied),
                        text.spans.begin() + static_cast<std::ptrdiff_t>(end));
    copied = end;
  };
  for (const auto& match : matches) {
    copy_to(match.begin);
    require_made(next.text.size() + by.size(), text.most);
    next.text += by;
    const std::uint32_t base = text.spans.empty() ? 0 : text.spans.front().begin;
    if (text.tracked)
      next.spans.resize(next.text.size(),
                        match.end > 0 ? text.spans[match.end - 1] : Span{base, base});
    copied = match.end;
  }
  copy_to(text.text.size());
  text = std::move(next);
}

void strip(Normalized& text, bool left, bool right) {
  std::size_t begin = 0, end = text.text.size();
  for_each_code_point(text.text, [&](char32_t c, std::size_t from, std::size_t to) {
    if (left && begin == from && is(c, kWhitespace)) begin = to;
  });
  for (std::size_t at = end; right && at > begin; end = at) {
    do --at;
    while (is_tail_byte(text.text[at]));
    std::size_t behind = at;
    if (!is(next_code_point(text.text, behind), kWhitespace)) break;
  }
  text.text = text.text.substr(begin, end - begin);
  if (!text.tracked) return;
  text.spans.erase(text.spans.begin() + static_cast<std::ptrdiff_t>(end), text.spans.end());
  text.spans.erase(text.spans.begin(), text.spans.begin() + static_cast<std::ptrdiff_t>(begin));
}

}  // namespace sluice::text
