// Comparisons of whole rows, as bits: bar t is bit t % 64 of word t / 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::market {

// a[t] > b[t] for 64 x words bars; a comparison with a NaN is false.
void above_bits(const double* a, const double* b, std::uint64_t* out, std::size_t words);
// The same with kRowsAtOnce rows in place of b: a is read once for all.
inline constexpr std::size_t kRowsAtOnce = 4;
void above_bits(const double* a, const double* const* b, std::uint64_t* const* out,
                std::size_t words);
void above_bits(const double* a, double b, std::uint64_t* out, std::size_t words);
void below_bits(const double* a, double b, std::uint64_t* out, std::size_t words);

// The bars from `begin` up to `end` after each of which the bits are others than before
// (before `begin` they are 0), plus 1, into `out`; how many. `out` has room for kSpare more
// than there can be.
inline constexpr std::size_t kSpare = 4;
std::size_t turning_bars(const std::uint64_t* bits, std::int64_t begin, std::int64_t end,
                         std::int32_t* out);

}  // namespace sluice::market
