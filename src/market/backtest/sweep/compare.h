// Comparisons of rows to bit masks: bar t is bit t % 64 of word t / 64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::market {

// Sets the bits of a[t] > b[t] for 64 x words bars; a comparison with a NaN is false.
void above_bits(const double* a, const double* b, std::uint64_t* out, std::size_t words);
// Compares with kRowsAtOnce rows in place of b: a is read once for all of them.
inline constexpr std::size_t kRowsAtOnce = 4;
void above_bits(const double* a, const double* const* b, std::uint64_t* const* out,
                std::size_t words);
void above_bits(const double* a, double b, std::uint64_t* out, std::size_t words);
void below_bits(const double* a, double b, std::uint64_t* out, std::size_t words);

// Writes the bars in [begin, end) whose bit differs from that of the bar before (0 before
// `begin`), plus 1, to `out` and returns their number. `out` has space for kPadding more than
// there can be.
inline constexpr std::size_t kPadding = 4;
std::size_t transition_bars(const std::uint64_t* bits, std::int64_t begin, std::int64_t end,
                            std::int32_t* out);

}  // namespace sluice::market
