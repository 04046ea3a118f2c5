// A text under normalization, and where each of its bytes comes from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "text/pattern/pattern.h"
#include "text/unicode/utf8.h"

namespace sluice::text {

// Bytes of the original text.
struct Span {
  std::uint32_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

// The bytes that a tokenizer file may make of so many. Its parts in a row could double a text each;
// one Unicode form makes 18 bytes of one at most.
std::size_t most_made_of(std::size_t bytes);
// Throws invalid_argument when `bytes` are more than `most`.
void require_made(std::size_t bytes, std::size_t most);

// Well-formed UTF-8 of at most `most` bytes. `spans` has one element a byte, or none: then
// the way back is not kept, which is faster. All bytes of a code point have the same span, and
// spans ascend.
struct Normalized {
  std::string text;
  std::vector<Span> spans;
  bool tracked = false;
  std::size_t most = most_made_of(0);  // whoever makes the text longer keeps to it

  // Sets `most` by the size of the original.
  void assign(std::string_view original, bool tracks);
  // Bytes [begin, end) of another, with its `most`.
  void assign(const Normalized& from, std::size_t begin, std::size_t end);
  void append(const Normalized& from);
  void clear(bool tracks);
};

// Writes the next form of a text, code point by code point, and puts it in place at finish(). What
// is added has the span of what stands before it, as the reference does.
class Rewriter {
 public:
  // `skipped`: code points at the start that are dropped.
  explicit Rewriter(Normalized& of, std::size_t skipped = 0);

  // Replaces the next code point by c, and drops the `dropped` behind it.
  void replace(char32_t c, std::size_t dropped = 0) {
    append_utf8(next_.text, c);
    if (of_.tracked) keep_span(dropped);
  }
  // Inserts c.
  void add(char32_t c) {
    append_utf8(next_.text, c);
    if (of_.tracked) repeat_span();
  }
  // One of the reference's changes: above 0 adds, below drops as many behind.
  void put(char32_t c, std::ptrdiff_t change) {
    change > 0 ? add(c) : replace(c, static_cast<std::size_t>(-change));
  }
  // Several code points for `count` that follow.
  void exchange(std::u32string_view by, std::size_t count);

  void finish();

 private:
  void keep_span(std::size_t dropped);
  void repeat_span();
  void skip(std::size_t code_points);

  Normalized& of_;
  Normalized next_;
  std::uint32_t base_ = 0;  // where the text begins in the original
  std::size_t at_ = 0;      // in the old text
};

// Drops the code points for which keep(c) is false; true when there were some.
template <class Keep>
bool filter(Normalized& text, Keep&& keep) {
  std::size_t first_dropped = 0, kept = 0, all = 0;
  for_each_code_point(text.text, [&](char32_t c, std::size_t, std::size_t) {
    ++all;
    if (keep(c))
      ++kept;
    else if (kept == 0)
      ++first_dropped;
  });
  if (kept == all) return false;
  Rewriter out(text, first_dropped);
  char32_t last = 0;
  std::size_t dropped = 0;
  bool has_last = false;
  for_each_code_point(text.text, [&](char32_t c, std::size_t, std::size_t) {
    if (!keep(c)) {
      ++dropped;
      return;
    }
    if (has_last) out.replace(last, dropped);
    last = c, has_last = true, dropped = 0;
  });
  if (has_last) out.replace(last, dropped);
  out.finish();
  return true;
}

// Puts `text` before a text that is not empty.
void prepend(Normalized& to, std::string_view text);

// Puts `by` in the place of each match; matches ascend and do not overlap.
void replace_all(Normalized& text, const std::vector<Match>& matches, std::string_view by);

void strip(Normalized& text, bool left, bool right);

}  // namespace sluice::text
