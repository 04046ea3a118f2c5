// Lines run side by side in the lanes of vectors, several vectors at once to hide the
// latency of each rule's chain. Series lie one behind the other in memory, so tiles are
// transposed in registers on the way in and out.
//
// Limit: in cache the shuffles of the transposes (2 x 0.4 to 0.5 cycles a point) and the
// rule itself; beyond it 8 bytes in and 16 out for each point (a store reads its line).
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "market/indicators/batch_cpu.cc"
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "market/indicators/batch.h"
#include "market/indicators/group.h"
#include "market/indicators/pack-inl.h"
#include "market/indicators/rules_signal-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sluice::market::HWY_NAMESPACE {

// Rows of one vector's lanes at bar t, into tile[bar][line].
template <class T>
HWY_INLINE void tile_in(const T* const* rows, int t, double* tile) {
  constexpr int kAhead = 512 / sizeof(T);
  Vec v[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    hwy::Prefetch(rows[i] + t + kAhead);
    v[i] = load_bars(rows[i] + t);
  }
  transpose(v);
  for (int i = 0; i < kLanes; ++i) hn::Store(v[i], D(), tile + i * kPack);
}

template <class T>
HWY_INLINE void tile_out(const double* tile, T* const* rows, int t, bool past_caches) {
  Vec v[kLanes];
  for (int i = 0; i < kLanes; ++i) v[i] = hn::Load(D(), tile + i * kPack);
  transpose(v);
  if (past_caches) {
    for (int i = 0; i < kLanes; ++i) stream_bars(v[i], rows[i] + t);
  } else {
    for (int i = 0; i < kLanes; ++i) store_bars(v[i], rows[i] + t);
  }
}

// ---- a group: up to kPack lines ----------------------------------------------------------

constexpr int kBlock = 32;  // bars between transposes: the tiles of a group stay in L1
static_assert(kBlock % kLanes == 0);

struct LineGroup {
  std::byte* in[kMostInputs][kPack];
  std::byte* out[kMostOutputs][kPack];
  std::int64_t begin[kPack], end[kPack];  // bars to store, from the line's first
  std::int64_t longest = 0;
  std::int64_t lead = 0;  // bars before the rows of the first output are aligned together
  bool past_caches[kMostOutputs] = {};
  std::int64_t inside[kVectors], latest[kVectors];  // all lanes have bars up to; store from

  LineGroup(const GroupCall& call, std::size_t element) {
    const Plan& plan = call.batch.plan;
    for (int i = 0; i < kPack; ++i) {
      const auto place = static_cast<std::size_t>(i);
      const Line& line = call.lines[std::min(place, call.count - 1)];
      const auto at = static_cast<std::size_t>(line.series * call.batch.bars + line.from) * element;
      for (int k = 0; k < plan.inputs; ++k) in[k][i] = static_cast<std::byte*>(call.in[k]) + at;
      for (int k = 0; k < plan.outputs; ++k) out[k][i] = static_cast<std::byte*>(call.out[k]) + at;
      end[i] = line.end - line.from;
      begin[i] = place < call.count ? std::max<std::int64_t>(line.first - line.from, plan.lookback)
                                    : end[i];
      longest = std::max(longest, end[i]);
    }
    for (int u = 0; u < kVectors; ++u) {
      inside[u] = *std::min_element(end + u * kLanes, end + (u + 1) * kLanes);
      latest[u] = *std::max_element(begin + u * kLanes, begin + (u + 1) * kLanes);
    }
    lead = aligned_after(out[0], static_cast<std::int64_t>(element)).value_or(0);
    for (int k = 0; k < plan.outputs; ++k)
      past_caches[k] =
          call.large && aligned_after(out[k], static_cast<std::int64_t>(element)) == lead;
  }

  // Bars until all rows are aligned to a vector; none when they never are together. A store
  // across two cache lines costs two, so the first block is cut where that helps.
  static std::optional<std::int64_t> aligned_after(std::byte* const* rows, std::int64_t element) {
    const std::int64_t width = kLanes * element;
    const auto past = [&](int i) {
      return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(rows[i])) & (width - 1);
    };
    for (int i = 1; i < kPack; ++i)
      if (past(i) != past(0)) return {};
    return (width - past(0)) % width / element;
  }
};

template <class T>
HWY_NOINLINE void load_ends(const LineGroup& group, int k, int u, std::int64_t t, double* tile) {
  for (int l = 0; l < kLanes; ++l) {
    const T* row = reinterpret_cast<const T*>(group.in[k][u * kLanes + l]);
    for (int i = 0; i < kLanes; ++i)
      tile[i * kPack + l] = t + i < group.end[u * kLanes + l] ? static_cast<double>(row[t + i]) : 0;
  }
}

template <class T>
HWY_NOINLINE void store_ends(const LineGroup& group, int k, int u, std::int64_t t,
                             const double* tile) {
  for (int l = 0; l < kLanes; ++l) {
    T* row = reinterpret_cast<T*>(group.out[k][u * kLanes + l]);
    const std::int64_t first = std::max(group.begin[u * kLanes + l] - t, std::int64_t{0});
    const std::int64_t last = std::min(group.end[u * kLanes + l] - t, std::int64_t{kLanes});
    for (std::int64_t i = first; i < last; ++i) row[t + i] = static_cast<T>(tile[i * kPack + l]);
  }
}

// `count` bars from t on of input k, into tile[bar][line].
template <class T>
void load_tile(const LineGroup& group, int k, std::int64_t t, int count, double* tile) {
  for (int u = 0; u < kVectors; ++u) {
    const T* rows[kLanes];
    for (int l = 0; l < kLanes; ++l)
      rows[l] = reinterpret_cast<const T*>(group.in[k][u * kLanes + l]) + t;
    for (int i = 0; i < count; i += kLanes) {
      double* to = tile + i * kPack + u * kLanes;
      if (t + i + kLanes <= group.inside[u])
        tile_in(rows, i, to);
      else
        load_ends<T>(group, k, u, t + i, to);
    }
  }
}

template <class T>
void store_tile(const LineGroup& group, int k, std::int64_t t, int count, const double* tile) {
  for (int u = 0; u < kVectors; ++u) {
    T* rows[kLanes];
    for (int l = 0; l < kLanes; ++l)
      rows[l] = reinterpret_cast<T*>(group.out[k][u * kLanes + l]) + t;
    for (int i = 0; i < count; i += kLanes) {
      const double* from = tile + i * kPack + u * kLanes;
      if (t + i >= group.latest[u] && t + i + kLanes <= group.inside[u])
        tile_out(from, rows, i, group.past_caches[k]);
      else
        store_ends<T>(group, k, u, t + i, from);
    }
  }
}

// Runs a plan's rule over the tiles of a group.
struct LineSweep {
  const GroupCall& call;
  const LineGroup& group;
  decltype(&load_tile<double>) load;
  decltype(&store_tile<double>) store;

  template <class S>
  void run() {
    const Plan plan = call.batch.plan;
    Pack* const ring = reinterpret_cast<Pack*>(call.ring);
    std::fill_n(ring, plan.ring, Pack(0));
    HWY_ALIGN double in[S::kInputs][kBlock * kPack];
    HWY_ALIGN double out[S::kOutputs][kBlock * kPack];
    S state{};
    for (std::int64_t t = 0, next; t < group.longest; t = next) {
      next = std::min(t + (t == 0 && group.lead > 0 ? group.lead : kBlock), group.longest);
      const int count = static_cast<int>(next - t);
      for (int k = 0; k < S::kInputs; ++k) load(group, k, t, count, in[k]);
      for (int i = 0; i < count; ++i) {
        Pack bar[S::kInputs], value[S::kOutputs];
        for (int k = 0; k < S::kInputs; ++k) bar[k] = load_pack(in[k] + i * kPack);
        for (int k = 0; k < S::kOutputs; ++k) value[k] = Pack(0);
        state.update(plan, bar, ring, value);
        for (int k = 0; k < S::kOutputs; ++k) store_pack(value[k], out[k] + i * kPack);
      }
      for (int k = 0; k < S::kOutputs; ++k) store(group, k, t, count, out[k]);
    }
    hwy::FlushStream();
  }
};

void run_group(const GroupCall& call) {
  const bool floats = call.batch.floats != 0;
  const LineGroup group(call, floats ? sizeof(float) : sizeof(double));
  visit_rule<Pack>(call.batch.plan,
                   LineSweep{call, group, floats ? load_tile<float> : load_tile<double>,
                             floats ? store_tile<float> : store_tile<double>});
}

std::size_t group_lines() { return kPack; }

}  // namespace sluice::market::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice::market {

HWY_EXPORT(run_group);
HWY_EXPORT(group_lines);

std::size_t lines_per_group() { return HWY_DYNAMIC_DISPATCH(group_lines)(); }
void run_lines(const GroupCall& call) { HWY_DYNAMIC_DISPATCH(run_group)(call); }

}  // namespace sluice::market
#endif
