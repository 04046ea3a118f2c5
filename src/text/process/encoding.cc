#include "text/process/encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace sluice::text {

void truncate(Encoding& encoding, std::size_t max_length, const Truncation& truncation);

namespace {

constexpr std::size_t kAnyOverflow = std::numeric_limits<std::size_t>::max();
constexpr std::size_t kOverflowTimes = 64, kOverflowAlways = std::size_t{1} << 20;

struct TokenRange {
  std::size_t begin, end;
};

template <class T>
void copy_part(const std::vector<T>& from, const TokenRange& part, std::vector<T>& to) {
  const auto end = std::min(part.end, from.size());  // tokens may be left out
  if (part.begin < end)
    to.assign(from.begin() + static_cast<std::ptrdiff_t>(part.begin),
              from.begin() + static_cast<std::ptrdiff_t>(end));
}

Encoding part_of(const Encoding& all, const TokenRange& part) {
  Encoding out;
  copy_part(all.ids, part, out.ids);
  copy_part(all.type_ids, part, out.type_ids);
  copy_part(all.tokens, part, out.tokens);
  copy_part(all.offsets, part, out.offsets);
  copy_part(all.words, part, out.words);
  copy_part(all.special, part, out.special);
  return out;
}

std::vector<TokenRange> parts_of(std::size_t size, std::size_t max_length, std::size_t step,
                                 TruncationSide side) {
  std::vector<TokenRange> parts;
  if (side == TruncationSide::right) {
    for (std::size_t begin = 0;; begin += step) {
      parts.push_back({begin, std::min(begin + max_length, size)});
      if (parts.back().end == size) return parts;
    }
  }
  for (std::size_t end = size; end > 0; end -= std::min(end, step)) {
    parts.push_back({end - std::min(end, max_length), end});
    if (parts.back().begin == 0) break;
  }
  return parts;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

// Doubles, since products of three sizes are compared.
struct OverflowSize {
  double parts = 0, ids = 0;
  explicit OverflowSize(const Encoding& encoding) {
    parts = static_cast<double>(encoding.overflow.size());
    for (const Encoding& part : encoding.overflow) ids += static_cast<double>(part.size());
  }
};

void require_cost(double parts, double ids, std::size_t most) {
  require(ids + parts * static_cast<double>(kPartCost) <= static_cast<double>(most),
          fmt::format("the parts that overflow have more than {} ids together; truncate to a "
                      "greater length, with a smaller stride, or cut the text before",
                      most));
}

void require_merged_overflow(const Encoding& a, const Encoding& b, std::size_t most) {
  const OverflowSize of_a(a), of_b(b);
  const double a_ids = static_cast<double>(a.size()), b_ids = static_cast<double>(b.size());
  const double parts = of_a.parts + of_a.parts * of_b.parts + of_b.parts;
  const double ids = of_a.ids + of_a.parts * b_ids + of_b.ids + of_b.parts * a_ids +
                     of_a.ids * of_b.parts + of_b.ids * of_a.parts;
  require_cost(parts, ids, most);
}

Encoding merged(const Encoding& a, const Encoding& b) {
  Encoding both = a;
  merge(both, b, kAnyOverflow);  // parts have no overflow of their own
  return both;
}

// Lengths of two texts, the shorter of which is kept whole where that is possible.
std::pair<std::size_t, std::size_t> lengths(std::size_t a, std::size_t b, std::size_t limit) {
  const bool swaps = a > b;
  std::size_t least = std::min(a, b), most;
  most = least > limit ? least : std::max(least, limit - least);
  if (least + most > limit) {
    least = limit / 2;
    most = least + limit % 2;
  }
  return swaps ? std::pair{most, least} : std::pair{least, most};
}

void truncate_one(Encoding& text, std::size_t excess, const Truncation& truncation) {
  require(text.size() > excess,
          fmt::format("the text to truncate has {} tokens, and {} are to go", text.size(), excess));
  truncate(text, text.size() - excess, truncation);
}

}  // namespace

void truncate(Encoding& encoding, std::size_t max_length, const Truncation& truncation) {
  const std::size_t stride = truncation.stride;
  if (max_length >= encoding.size()) return;
  if (max_length == 0) {
    Encoding empty;
    if (truncation.keeps_overflow) empty.overflow.push_back(std::move(encoding));
    encoding = std::move(empty);
    return;
  }
  require(stride < max_length, fmt::format("the stride of {} is not less than the {} tokens that "
                                           "remain of a truncated text",
                                           stride, max_length));
  const auto parts = parts_of(encoding.size(), max_length, max_length - stride, truncation.side);
  if (truncation.keeps_overflow)
    require_cost(static_cast<double>(parts.size()),
                 static_cast<double>(parts.size()) * static_cast<double>(max_length),
                 most_overflow(encoding.size()));
  Encoding first = part_of(encoding, parts.front());
  for (std::size_t i = 1; i < parts.size() && truncation.keeps_overflow; ++i)
    first.overflow.push_back(part_of(encoding, parts[i]));
  encoding = std::move(first);
}

void truncate(std::vector<Encoding>& texts, const Truncation& truncation) {
  const auto cut = [&](Encoding& text, std::size_t length) { truncate(text, length, truncation); };
  std::size_t total = 0;
  for (const Encoding& text : texts) total += text.size();
  const std::size_t limit = truncation.max_length;
  if (limit == 0) {
    for (Encoding& text : texts) cut(text, 0);
    return;
  }
  if (total <= limit) return;
  if (truncation.strategy == TruncationStrategy::only_first)
    return truncate_one(texts[0], total - limit, truncation);
  if (truncation.strategy == TruncationStrategy::only_second) {
    require(texts.size() == 2, "truncation is to shorten the second text, and there is one only");
    return truncate_one(texts[1], total - limit, truncation);
  }
  if (texts.size() == 1) return cut(texts[0], limit);
  const auto [first, second] = lengths(texts[0].size(), texts[1].size(), limit);
  cut(texts[0], first);
  cut(texts[1], second);
}

std::size_t most_overflow(std::size_t tokens) { return kOverflowTimes * tokens + kOverflowAlways; }

void require_overflow(const Encoding& encoding, std::size_t added, std::size_t most) {
  const OverflowSize size(encoding);
  require_cost(size.parts, size.ids + size.parts * static_cast<double>(added), most);
}

void merge(Encoding& encoding, const Encoding& more, std::size_t most) {
  require_merged_overflow(encoding, more, most);
  std::vector<Encoding> overflow;
  Encoding plain = more.overflow.empty() ? Encoding{} : encoding;
  plain.overflow.clear();
  Encoding plain_more = encoding.overflow.empty() ? Encoding{} : more;
  plain_more.overflow.clear();
  for (const Encoding& part : encoding.overflow) {
    overflow.push_back(merged(part, plain_more));
    for (const Encoding& other : more.overflow) overflow.push_back(merged(part, other));
  }
  for (const Encoding& other : more.overflow) overflow.push_back(merged(plain, other));
  append(encoding.ids, more.ids);
  append(encoding.type_ids, more.type_ids);
  append(encoding.tokens, more.tokens);
  append(encoding.offsets, more.offsets);
  append(encoding.words, more.words);
  append(encoding.special, more.special);
  encoding.overflow = std::move(overflow);
}

}  // namespace sluice::text
