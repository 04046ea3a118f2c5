// Compiled for each instruction set that Highway knows; picked at run time.
#include "market/backtest/sweep/compare.h"

#include <algorithm>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/backtest/sweep/compare.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "market/backtest/sweep/set_code.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<double, 8>;  // at most 8, so that bits are aligned bytes of a word
using U = hn::RebindToUnsigned<D>;
constexpr std::size_t kWordBits = 64;

// Stores the bits of 64 bars. A vector with fewer than 8 lanes gathers them in its lanes: the
// comparison of a lane is all ones or zeros, of which each vector of the word keeps another bit.
template <std::size_t kCount, class Compare>
HWY_INLINE void compare_word(std::uint64_t* const* out, std::size_t w, const Compare& compare) {
  const D d;
  const U u;
  constexpr std::size_t kLanes = hn::MaxLanes(d);
  const std::size_t t = w * kWordBits;
  if constexpr (kLanes == 8) {
    for (std::size_t i = 0; i < 8; ++i)
      compare(t + 8 * i, [&](std::size_t k, auto mask) {
        hn::StoreMaskBits(d, mask, reinterpret_cast<std::uint8_t*>(out[k] + w) + i);
      });
  } else {
    hn::Vec<U> all[kCount], keep = hn::Shl(hn::Set(u, 1), hn::Iota(u, 0));
    for (auto& bits : all) bits = hn::Zero(u);
    for (std::size_t i = 0; i < kWordBits; i += kLanes) {
      compare(t + i, [&](std::size_t k, auto mask) {
        all[k] = hn::Or(all[k], hn::And(hn::BitCast(u, hn::VecFromMask(d, mask)), keep));
      });
      keep = hn::ShiftLeft<static_cast<int>(kLanes)>(keep);
    }
    for (std::size_t k = 0; k < kCount; ++k) out[k][w] = hn::GetLane(hn::SumOfLanes(u, all[k]));
  }
}

// Limit: the loads; rows come from the L2 cache.
template <std::size_t kCount>
HWY_INLINE void compare_rows(const double* a, const double* const* b, std::uint64_t* const* out,
                             std::size_t words) {
  const D d;
  for (std::size_t w = 0; w < words; ++w)
    compare_word<kCount>(out, w, [&](std::size_t t, const auto& keep) {
      const auto x = hn::LoadU(d, a + t);
      for (std::size_t k = 0; k < kCount; ++k) keep(k, hn::Gt(x, hn::LoadU(d, b[k] + t)));
    });
}

void above_row(const double* a, const double* b, std::uint64_t* out, std::size_t words) {
  compare_rows<1>(a, &b, &out, words);
}
void above_rows(const double* a, const double* const* b, std::uint64_t* const* out,
                std::size_t words) {
  const double* rows[kRowsAtOnce];
  std::uint64_t* bits[kRowsAtOnce];
  std::copy_n(b, kRowsAtOnce, rows);  // so that the compiler knows they stay
  std::copy_n(out, kRowsAtOnce, bits);
  compare_rows<kRowsAtOnce>(a, rows, bits, words);
}
void above_value(const double* a, double b, std::uint64_t* out, std::size_t words) {
  const D d;
  const auto bound = hn::Set(d, b);
  for (std::size_t w = 0; w < words; ++w)
    compare_word<1>(&out, w, [&](std::size_t t, const auto& keep) {
      keep(0, hn::Gt(hn::LoadU(d, a + t), bound));
    });
}
void below_value(const double* a, double b, std::uint64_t* out, std::size_t words) {
  const D d;
  const auto bound = hn::Set(d, b);
  for (std::size_t w = 0; w < words; ++w)
    compare_word<1>(&out, w, [&](std::size_t t, const auto& keep) {
      keep(0, hn::Lt(hn::LoadU(d, a + t), bound));
    });
}

// Each word has a few transitions. kPadding are written at once whether there are as many or not:
// a loop with an exact count would mispredict in each word.
std::size_t transitions(const std::uint64_t* bits, std::int64_t begin, std::int64_t end,
                        std::int32_t* out) {
  std::int32_t* next = out;
  std::uint64_t before = 0;
  for (std::int64_t base = begin & -64; base < end; base += 64) {
    const std::uint64_t valid = bits_between<std::uint64_t>(base, begin, end);
    const std::uint64_t now = bits[base / 64] & valid;
    std::uint64_t changed = (now ^ (now << 1 | before)) & valid;
    before = now >> 63;
    const auto count = static_cast<std::size_t>(std::popcount(changed));
    for (std::size_t i = 0; i < count; i += kPadding)
      for (std::size_t k = i; k < i + kPadding; ++k) {
        next[k] = static_cast<std::int32_t>(base) + 1 + std::countr_zero(changed);
        changed &= changed - 1;
      }
    next += count;
  }
  return static_cast<std::size_t>(next - out);
}

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {

HWY_EXPORT(above_row);
HWY_EXPORT(above_rows);
HWY_EXPORT(above_value);
HWY_EXPORT(below_value);
HWY_EXPORT(transitions);

void above_bits(const double* a, const double* b, std::uint64_t* out, std::size_t words) {
  HWY_DYNAMIC_DISPATCH(above_row)(a, b, out, words);
}
void above_bits(const double* a, const double* const* b, std::uint64_t* const* out,
                std::size_t words) {
  HWY_DYNAMIC_DISPATCH(above_rows)(a, b, out, words);
}
void above_bits(const double* a, double b, std::uint64_t* out, std::size_t words) {
  HWY_DYNAMIC_DISPATCH(above_value)(a, b, out, words);
}
void below_bits(const double* a, double b, std::uint64_t* out, std::size_t words) {
  HWY_DYNAMIC_DISPATCH(below_value)(a, b, out, words);
}

std::size_t transition_bars(const std::uint64_t* bits, std::int64_t begin, std::int64_t end,
                            std::int32_t* out) {
  return HWY_DYNAMIC_DISPATCH(transitions)(bits, begin, end, out);
}

}  // namespace sluice::market
#endif  // HWY_ONCE
