// Compiled for several instruction sets; dispatched at run time.
#include "kernels/gemm/int8_tile_cpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

// As targets.h, but with VNNI (AVX3_DL).
#define HWY_WANT_AVX3_DL 1
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm/int8_tile_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/common/math-inl.h"
#include "kernels/gemm/panel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::kernels::cpu::HWY_NAMESPACE {
namespace {

using DI = hn::RebindToSigned<D>;
using VI = hn::Vec<DI>;
static_assert(kRows <= kMaxInt8Rows && kColumns <= kMaxInt8Columns);

// Adds the dot product of two words to the sum.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
constexpr int kBytes = 1;
// No intrinsic: some versions of Highway do not enable the instruction.
HWY_INLINE VI dot(VI sum, VI a, VI b) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}
#else
constexpr int kBytes = 2;
HWY_INLINE VI dot(VI sum, VI a, VI b) {
#if HWY_TARGET == HWY_AVX3
  return hn::Add(sum, VI{_mm512_madd_epi16(a.raw, b.raw)});
#elif HWY_TARGET == HWY_AVX2
  return hn::Add(sum, VI{_mm256_madd_epi16(a.raw, b.raw)});
#else
  const VI low =
      hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(a)), hn::ShiftRight<16>(hn::ShiftLeft<16>(b)));
  return hn::Add(sum, hn::Add(low, hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b))));
#endif
}
#endif

HWY_INLINE VI word_at(const std::uint8_t* from) {
  std::int32_t word;
  std::memcpy(&word, from, sizeof word);
  return hn::Set(DI(), word);
}
HWY_INLINE VI words_at(const std::uint8_t* from) {
  return hn::LoadU(DI(), reinterpret_cast<const std::int32_t*>(from));
}

template <int... W>
HWY_INLINE void multiply_row(VI* HWY_RESTRICT sums, const VI* HWY_RESTRICT b, VI a,
                             std::integer_sequence<int, W...>) {
  ((sums[W] = dot(sums[W], a, b[W])), ...);
}

// One word of each row times one row of the panel.
template <int... R, int... W>
HWY_INLINE void step(VI* HWY_RESTRICT sums, const std::uint8_t* const (&a)[sizeof...(R)],
                     std::int64_t at, const std::uint8_t* HWY_RESTRICT b,
                     std::integer_sequence<int, R...>, std::integer_sequence<int, W...> wide) {
  const VI columns[] = {words_at(b + W * 4 * kLanes)...};
  (multiply_row(sums + R * static_cast<int>(sizeof...(W)), columns, word_at(a[R] + at), wide), ...);
}

// Constant indices keep the accumulators in registers.
template <int kWide, int... I>
HWY_INLINE void begin(VI* HWY_RESTRICT sums, const std::int32_t* compensation,
                      std::integer_sequence<int, I...>) {
  ((sums[I] = hn::LoadU(DI(), compensation + I % kWide * kLanes)), ...);
}
template <int kWide, int... I>
HWY_INLINE void store(const VI* HWY_RESTRICT sums, std::int32_t* to,
                      std::integer_sequence<int, I...>) {
  (hn::Store(sums[I], DI(), to + I / kWide * kColumns + I % kWide * kLanes), ...);
}

// The first `kWide` vectors of a panel. Limit: two dots a cycle.
template <int kHigh, int kWide, int... R>
HWY_NOINLINE void sum_tile(const Int8Block& block, const std::uint8_t* const* rows,
                           const std::uint8_t* HWY_RESTRICT b, const std::int32_t* compensation,
                           std::int32_t* to, std::integer_sequence<int, R...> high) {
  const Upto<kWide> wide;
  VI sums[kHigh * kWide];
  begin<kWide>(sums, compensation, Upto<kHigh * kWide>());
  for (std::int64_t s = 0; s < block.segments; ++s, rows += block.count) {
    const std::uint8_t* const a[] = {rows[R]...};
    std::int64_t at = 0;
    const std::int64_t end = 4 * block.words;
    for (; at + 8 <= end; at += 8, b += 8 * kColumns) {
      step(sums, a, at, b, high, wide);
      step(sums, a, at + 4, b + 4 * kColumns, high, wide);
    }
    for (; at < end; at += 4, b += 4 * kColumns) step(sums, a, at, b, high, wide);
  }
  store<kWide>(sums, to, Upto<kHigh * kWide>());
}

template <int kHigh, int kWide>
void sum_rows(const Int8Block& block, const std::uint8_t* const* rows, const std::uint8_t* b,
              const std::int32_t* compensation, std::int32_t* to) {
  sum_tile<kHigh, kWide>(block, rows, b, compensation, to, Upto<kHigh>());
}

struct SumTiles {
  using Tile = void (*)(const Int8Block&, const std::uint8_t* const*, const std::uint8_t*,
                        const std::int32_t*, std::int32_t*);
  template <int kHigh, int kWide>
  static constexpr Tile kTile = sum_rows<kHigh, kWide>;
};

// A vector of bytes as floats.
HWY_INLINE V bytes_at(const std::uint8_t* from, bool has_sign) {
  if (has_sign) {
    const hn::Rebind<std::int8_t, D> d8;
    return hn::ConvertTo(
        D(), hn::PromoteTo(DI(), hn::LoadU(d8, reinterpret_cast<const std::int8_t*>(from))));
  }
  const hn::Rebind<std::uint8_t, D> d8;
  return hn::ConvertTo(D(), hn::PromoteTo(DI(), hn::LoadU(d8, from)));
}

// Quantizes vectors of floats, ties to even.
struct Quantizer {
  V by, low, high;
  VI zero;
  bool has_sign;

  explicit Quantizer(const QuantParams& r) : has_sign(r.to == DType::i8) {
    const D d;
    const float lowest = has_sign ? -128.0f : 0.0f, highest = lowest + 255.0f;
    const auto from_zero = static_cast<float>(r.to_zero);
    // A subnormal scale has no inverse; 0 times infinity would be NaN.
    by = hn::Set(d, std::min(1 / r.to_scale, hwy::HighestValue<float>()));
    low = hn::Set(d, lowest - from_zero);
    high = hn::Set(d, highest - from_zero);
    zero = hn::Set(DI(), r.to_zero);
  }

  HWY_INLINE void store(V x, std::uint8_t* to) const {
    const V clamped = hn::Min(hn::Max(hn::Mul(x, by), low), high);  // NaN gives the lowest
    const VI levels = hn::Add(hn::NearestInt(clamped), zero);
    if (has_sign) {
      const hn::Rebind<std::int8_t, D> d8;
      hn::StoreU(hn::DemoteTo(d8, levels), d8, reinterpret_cast<std::int8_t*>(to));
    } else {
      const hn::Rebind<std::uint8_t, D> d8;
      hn::StoreU(hn::DemoteTo(d8, levels), d8, to);
    }
  }
};

// The epilogue of a tile; columns are complete vectors.
class TileEpilogue {
 public:
  explicit TileEpilogue(const Int8Epilogue& f)
      : f_(f),
        quantizer_(f.quant),
        residual_scale_(hn::Set(D(), f.quant.residual_scale)),
        residual_zero_(hn::Set(D(), static_cast<float>(f.quant.residual_zero))) {}

  HWY_INLINE void row(const std::int32_t* sums, const float* scale, const float* bias,
                      const std::uint8_t* residual, std::uint8_t* c, int columns) const {
    const D d;
    for (int i = 0; i < columns; i += kLanes) {
      V x = hn::ConvertTo(d, hn::Load(DI(), sums + i));
      x = hn::MulAdd(x, hn::LoadU(d, scale + i), hn::LoadU(d, bias + i));
      if (residual != nullptr && f_.residual_first) x = hn::Add(x, residual_at(residual, i));
      x = Activate(d, f_.activation, x);
      if (residual != nullptr && !f_.residual_first) x = hn::Add(x, residual_at(residual, i));
      if (f_.quant.to == DType::f32)
        hn::StoreU(x, d, reinterpret_cast<float*>(c) + i);
      else
        quantizer_.store(x, c + i);
    }
  }

 private:
  HWY_INLINE V residual_at(const std::uint8_t* residual, int i) const {
    if (f_.residual_type == DType::f32)
      return hn::LoadU(D(), reinterpret_cast<const float*>(residual) + i);
    const V levels = bytes_at(residual + i, f_.residual_type == DType::i8);
    return hn::Mul(hn::Sub(levels, residual_zero_), residual_scale_);
  }

  const Int8Epilogue& f_;
  Quantizer quantizer_;
  V residual_scale_, residual_zero_;
};

class Walk {
 public:
  explicit Walk(const Int8Block& block)
      : block_(block),
        epilogue_(*block.epilogue),
        c_bytes_(block.epilogue->quant.to == DType::f32 ? 4 : 1),
        residual_bytes_(block.epilogue->residual_type == DType::f32 ? 4 : 1) {}

  // The loop over rows is the inner one: a panel stays in the L2 cache for all of them.
  void run() const {
    const std::int64_t tiles = (block_.count + kRows - 1) / kRows;
    for (std::int64_t first = 0; first < block_.columns; first += kColumns)
      for (std::int64_t i = 0; i < tiles; ++i)
        tile(block_.count * i / tiles, block_.count * (i + 1) / tiles, first);
  }

 private:
  void tile(std::int64_t row, std::int64_t end, std::int64_t first) const {
    alignas(64) std::int32_t sums[kRows * kColumns];
    const auto rows = static_cast<int>(end - row);
    const auto columns = static_cast<int>(std::min<std::int64_t>(kColumns, block_.columns - first));
    const SumTiles::Tile sum =
        tile_of<SumTiles>(rows, (columns + kLanes - 1) / kLanes, Upto<kVectors>());
    sum(block_, block_.rows + row, block_.panels + first / kColumns * block_.panel_step,
        block_.compensation + first, sums);
    for (int r = 0; r < rows; ++r) {
      const std::int64_t at = (row + r) * block_.c_row + first;
      const std::uint8_t* const residual =
          block_.residual == nullptr ? nullptr : block_.residual + at * residual_bytes_;
      run_epilogue(sums + r * kColumns, first, residual, block_.c + at * c_bytes_, columns);
    }
  }

  // The last panel has padding columns, which are not stored.
  void run_epilogue(const std::int32_t* sums, std::int64_t first, const std::uint8_t* residual,
                    std::uint8_t* c, int columns) const {
    const float *scale = block_.epilogue->scale + first, *bias = block_.epilogue->bias + first;
    if (columns == kColumns) return epilogue_.row(sums, scale, bias, residual, c, columns);
    alignas(64) std::uint8_t own_residual[4 * kColumns] = {}, own[4 * kColumns];
    if (residual != nullptr) std::copy_n(residual, columns * residual_bytes_, own_residual);
    epilogue_.row(sums, scale, bias, residual == nullptr ? nullptr : own_residual, own,
                  (columns + kLanes - 1) / kLanes * kLanes);
    std::copy_n(own, columns * c_bytes_, c);
  }

  const Int8Block& block_;
  TileEpilogue epilogue_;
  std::int64_t c_bytes_, residual_bytes_;  // of an element
};

void run_block(const Int8Block& block) { Walk(block).run(); }

Int8Shape shape() { return {kRows, kColumns, kBytes}; }

void quantize_all(const float* from, std::size_t count, const QuantParams& quant,
                  std::uint8_t* to) {
  const Quantizer quantizer(quant);
  const D d;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) quantizer.store(hn::LoadU(d, from + i), to + i);
  if (i == count) return;
  float last[kLanes] = {};
  std::uint8_t levels[kLanes];
  std::copy(from + i, from + count, last);
  quantizer.store(hn::LoadU(d, last), levels);
  std::copy_n(levels, count - i, to + i);
}

void dequantize_all(const std::uint8_t* from, std::size_t count, DType type, float scale, int zero,
                    float* to) {
  const D d;
  const V by = hn::Set(d, scale), zero_point = hn::Set(d, static_cast<float>(zero));
  const bool has_sign = type == DType::i8;
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    hn::StoreU(hn::Mul(hn::Sub(bytes_at(from + i, has_sign), zero_point), by), d, to + i);
  for (; i < count; ++i) {
    const int levels = has_sign ? static_cast<std::int8_t>(from[i]) : from[i];
    to[i] = static_cast<float>(levels - zero) * scale;
  }
}

}  // namespace
}  // namespace sluice::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::kernels::cpu {

HWY_EXPORT(run_block);
HWY_EXPORT(shape);
HWY_EXPORT(quantize_all);
HWY_EXPORT(dequantize_all);

Int8Shape int8_shape() { return HWY_DYNAMIC_DISPATCH(shape)(); }
void run(const Int8Block& block) { HWY_DYNAMIC_DISPATCH(run_block)(block); }
void quantize_linear(const float* from, std::size_t count, const QuantParams& quant,
                     std::uint8_t* to) {
  HWY_DYNAMIC_DISPATCH(quantize_all)(from, count, quant, to);
}
void dequantize_linear(const std::uint8_t* from, std::size_t count, DType type, float scale,
                       int zero, float* to) {
  HWY_DYNAMIC_DISPATCH(dequantize_all)(from, count, type, scale, zero, to);
}

}  // namespace sluice::kernels::cpu
#endif
