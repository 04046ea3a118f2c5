// The Hopper Linear kernel against sums in double, and its bits across tiles, row counts and
// positions.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <ostream>

#include "kernels/gemm/linear_sm90.h"
#include "kernels/gemm/linear_sm90_for_gpu_tests.h"

namespace sluice::kernels::cuda {
namespace {

constexpr std::uint16_t kPoison = 0xffff;  // NaN in both types

struct LinearCase {
  int rows, n, k;
  RealType type = RealType::f16;
  Activation activation = Activation::none;
  bool bias = true;
  bool residual = false;
  float weight_scale = 4;  // over the root of k: keeps sums near 1
};
std::ostream& operator<<(std::ostream& to, const LinearCase& s) {
  return to << s.rows << "x" << s.n << "x" << s.k << (s.type == RealType::f16 ? " f16" : " bf16")
            << " activation " << static_cast<int>(s.activation) << " bias " << s.bias
            << (s.residual ? " residual" : "");
}

double activated(double x, Activation activation) {
  switch (activation) {
    case Activation::relu: return std::max(x, 0.0);
    case Activation::gelu: return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: return x;
  }
}

std::size_t product(int a, int b) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b);
}

// A layer with its inputs on both sides, and a y of `rows` rows on the device.
class Layer {
 public:
  explicit Layer(const LinearCase& setup)
      : s_(setup),
        x_(random_bits(product(s_.rows, s_.k), 1, s_.type, 1)),
        w_(random_bits(product(s_.k, s_.n), s_.weight_scale / std::sqrt(static_cast<float>(s_.k)),
                       s_.type, 2)),
        bias_(random_bits(product(s_.n, 1), 1, s_.type, 3)),
        residual_(random_bits(product(s_.rows, s_.n), 2, s_.type, 4)),
        stream_(device::DeviceId{0}) {
    on_x_ = on_device(x_);
    on_residual_ = on_device(residual_);
    on_bias_ = on_device(bias_);
    on_y_ = device::device_buffer(product(s_.rows, s_.n) * 2);
    on_live_ = device::device_buffer(sizeof(std::int32_t));
    const device::DeviceBuffer w = on_device(w_);
    on_packed_ = device::device_buffer(packed_linear_weight_bytes(s_.n, s_.k));
    enqueue_pack_linear_weights(w.get(), on_packed_.get(), s_.n, s_.k, stream_.get());
    stream_.wait();
  }

  LinearCall call(LinearTile tile) const {
    LinearCall made{.type = s_.type, .x = on_x_.get(), .weight = on_packed_.get()};
    if (s_.bias) made.bias = on_bias_.get();
    made.activation = s_.activation;
    if (s_.residual) made.residual = on_residual_.get();
    made.y = on_y_.get();
    made.rows = s_.rows, made.n = s_.n, made.k = s_.k;
    made.tile = tile;
    return made;
  }

  void poison() const {
    device::check(cudaMemsetAsync(on_y_.get(), 0xff, product(s_.rows, s_.n) * 2, stream_.get()));
  }
  Bits result() const {
    stream_.wait();
    Bits y(product(s_.rows, s_.n));
    device::check(cudaMemcpy(y.data(), on_y_.get(), y.size() * 2, cudaMemcpyDeviceToHost));
    return y;
  }
  Bits run(const LinearCall& call) const {
    poison();
    enqueue_linear_sm90(call, stream_.get());
    return result();
  }
  void set_live(std::int32_t live) const {
    stream_.wait();
    device::check(cudaMemcpy(on_live_.get(), &live, sizeof live, cudaMemcpyHostToDevice));
    device::check(cudaDeviceSynchronize());
  }
  void set_x(const Bits& x) {
    x_ = x;
    on_x_ = on_device(x_);
  }
  void set_residual(const Bits& residual) {
    residual_ = residual;
    on_residual_ = on_device(residual_);
  }

  double sum_of(int row, int column) const {
    const auto at = [&](const Bits& bits, int i, int j, int wide) {
      return static_cast<double>(
          float_of(bits[product(i, wide) + static_cast<std::size_t>(j)], s_.type));
    };
    double sum = 0;
    for (int i = 0; i < s_.k; ++i) sum += at(x_, row, i, s_.k) * at(w_, i, column, s_.n);
    if (s_.bias) sum += at(bias_, 0, column, 0);
    return sum;
  }
  double residual_at(int row, int column) const {
    const std::size_t at = product(row, s_.n) + static_cast<std::size_t>(column);
    return s_.residual ? static_cast<double>(float_of(residual_[at], s_.type)) : 0;
  }

  // Compares every 16-row strip and every group of eight columns at least once in small layers.
  void expect_reference(const Bits& y, int samples) const {
    const double unit = s_.type == RealType::f16 ? 1.0 / 2048 : 1.0 / 256;
    std::mt19937 random(7);
    int wrong = 0;
    for (int i = 0; i < samples && wrong < 5; ++i) {
      const int row = i < s_.rows ? s_.rows - 1 - i
                                  : static_cast<int>(random() % static_cast<unsigned>(s_.rows));
      const int column =
          i < s_.n ? s_.n - 1 - i : static_cast<int>(random() % static_cast<unsigned>(s_.n));
      const double sum = sum_of(row, column);
      const double wanted = activated(sum, s_.activation) + residual_at(row, column);
      const double found =
          float_of(y[product(row, s_.n) + static_cast<std::size_t>(column)], s_.type);
      // Sums are rounded before they are activated, and no activation is steeper than 1.13.
      const double before = 1.13 * unit * std::abs(sum);
      const bool near = std::abs(found - wanted) <= unit * std::abs(wanted) + before + 2e-4;
      wrong += !near;
      EXPECT_TRUE(near) << "row " << row << " column " << column << ": " << found << ", not "
                        << wanted;
    }
  }

  const LinearCase& setup() const { return s_; }
  const Bits& x() const { return x_; }
  const Bits& residual() const { return residual_; }
  const device::Stream& stream() const { return stream_; }
  const std::int32_t* live() const { return static_cast<const std::int32_t*>(on_live_.get()); }
  void* y() const { return on_y_.get(); }
  void* residual_on_device() const { return on_residual_.get(); }
  const void* x_on_device() const { return on_x_.get(); }

 private:
  LinearCase s_;
  Bits x_, w_, bias_, residual_;
  device::Stream stream_;
  device::DeviceBuffer on_x_, on_packed_, on_bias_, on_residual_, on_y_, on_live_;
};

// The first difference of `rows` rows; empty: none.
std::string difference(const Bits& a, std::size_t a_row, const Bits& b, std::size_t b_row, int rows,
                       int n) {
  const std::size_t wide = static_cast<std::size_t>(n);
  for (std::size_t i = 0; i < product(rows, n); ++i)
    if (a[a_row * wide + i] != b[b_row * wide + i])
      return "row " + std::to_string(i / wide) + " column " + std::to_string(i % wide) + ": " +
             std::to_string(a[a_row * wide + i]) + ", not " + std::to_string(b[b_row * wide + i]);
  return "";
}

class LinearSm90 : public testing::TestWithParam<LinearCase> {
 protected:
  void SetUp() override {
    if (!has_linear_sm90()) GTEST_SKIP() << "needs a Hopper GPU and code for sm_90a";
    prepare_linear_sm90();
  }
  Watchdog watchdog_{60};
};

// ---- values ----------------------------------------------------------------------------------

TEST_P(LinearSm90, MatchesSumsInDoubleWithTheSameBitsInEveryTile) {
  const Layer layer(GetParam());
  const Bits first = layer.run(layer.call(kLinearTiles[0]));
  EXPECT_EQ(std::count(first.begin(), first.end(), kPoison), 0);
  layer.expect_reference(first, 300);
  for (LinearTile tile : kLinearTiles)
    EXPECT_EQ(difference(layer.run(layer.call(tile)), 0, first, 0, GetParam().rows, GetParam().n),
              "")
        << to_string(tile);
}

// Each shape with another type, activation, bias and residual.
std::vector<LinearCase> shapes() {
  std::vector<LinearCase> made;
  unsigned i = 0;
  for (const int rows : {1, 63, 64, 128, 129, 1000, 4096 + 5})
    for (const int n : {8, 384, 768, 1152, 1000})
      for (const int k : {8, 72, 384, 3072}) {
        constexpr Activation kActivations[] = {Activation::none, Activation::gelu, Activation::relu,
                                               Activation::gelu_tanh};
        LinearCase setup{rows, n, k};
        setup.type = i % 2 == 0 ? RealType::f16 : RealType::bf16;
        setup.activation = kActivations[i / 3 % 4];
        setup.bias = i % 3 != 0;
        setup.residual = i / 5 % 2 == 0;
        made.push_back(setup);
        ++i;
      }
  return made;
}
INSTANTIATE_TEST_SUITE_P(Shapes, LinearSm90, testing::ValuesIn(shapes()));

std::vector<LinearCase> epilogues() {
  std::vector<LinearCase> made;
  for (const RealType type : {RealType::f16, RealType::bf16})
    for (const Activation activation :
         {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh})
      for (const bool bias : {false, true})
        for (const bool residual : {false, true})
          made.push_back({333, 456, 136, type, activation, bias, residual});
  return made;
}
INSTANTIATE_TEST_SUITE_P(Epilogues, LinearSm90, testing::ValuesIn(epilogues()));

// ---- rows ------------------------------------------------------------------------------------

class LinearRows : public LinearSm90 {};

// Rows behind the live ones are NaN in x and in the residual.
TEST_P(LinearRows, ComputesLiveRowsOnly) {
  Layer layer(GetParam());
  const auto [rows, n] = std::pair(GetParam().rows, GetParam().n);
  const Bits all = layer.run(layer.call(kLinearTiles[0])), x = layer.x(),
             residual = layer.residual();
  for (const int live : {0, 1, 16, 63, 65, 128, 129, 257, rows - 1, rows, rows + 1000}) {
    const int computed = std::min(live, rows), written = std::min((computed + 15) / 16 * 16, rows);
    Bits partial_x = x, partial_residual = residual;
    std::fill(partial_x.begin() + static_cast<std::ptrdiff_t>(product(computed, GetParam().k)),
              partial_x.end(), kPoison);
    std::fill(partial_residual.begin() + static_cast<std::ptrdiff_t>(product(computed, n)),
              partial_residual.end(), kPoison);
    layer.set_x(partial_x);
    layer.set_residual(partial_residual);
    layer.set_live(live);
    for (LinearTile tile : kLinearTiles) {
      LinearCall call = layer.call(tile);
      call.live_rows = layer.live();
      const Bits y = layer.run(call);
      EXPECT_EQ(difference(y, 0, all, 0, computed, n), "") << to_string(tile) << ", live " << live;
      EXPECT_TRUE(std::all_of(y.begin() + static_cast<std::ptrdiff_t>(product(written, n)), y.end(),
                              [](std::uint16_t bits) { return bits == kPoison; }))
          << to_string(tile) << ", live " << live;
    }
  }
}

TEST_P(LinearRows, GivesARowTheSameBitsAnywhere) {
  const Layer layer(GetParam());
  const int rows = GetParam().rows, n = GetParam().n, k = GetParam().k;
  const Bits all = layer.run(layer.call(kLinearTiles[0]));
  for (LinearTile tile : kLinearTiles)
    for (const auto& [first, count] :
         {std::pair(0, 1), std::pair(37, 1), std::pair(64, 200), std::pair(rows - 130, 130)}) {
      LinearCall call = layer.call(tile);
      call.x = static_cast<const std::uint16_t*>(layer.x_on_device()) + product(first, k);
      if (call.residual != nullptr)
        call.residual = static_cast<const std::uint16_t*>(call.residual) + product(first, n);
      call.rows = count;
      EXPECT_EQ(difference(layer.run(call), 0, all, static_cast<std::size_t>(first), count, n), "")
          << to_string(tile) << ", " << count << " rows from " << first;
    }
}

// What is activated is what the same layer without activation and residual gives.
TEST_P(LinearRows, KeepsThePreActivation) {
  const Layer layer(GetParam());
  LinearCall plain = layer.call(kLinearTiles[0]);
  plain.activation = Activation::none, plain.residual = nullptr;
  const Bits wanted = layer.run(plain), result = layer.run(layer.call(kLinearTiles[0]));
  const device::DeviceBuffer kept = device::device_buffer(wanted.size() * 2);
  for (LinearTile tile : kLinearTiles) {
    device::check(cudaMemsetAsync(kept.get(), 0xff, wanted.size() * 2, layer.stream().get()));
    LinearCall call = layer.call(tile);
    call.pre_activation = kept.get();
    EXPECT_EQ(difference(layer.run(call), 0, result, 0, GetParam().rows, GetParam().n), "")
        << to_string(tile);
    Bits found(wanted.size());
    device::check(cudaMemcpy(found.data(), kept.get(), found.size() * 2, cudaMemcpyDeviceToHost));
    EXPECT_EQ(difference(found, 0, wanted, 0, GetParam().rows, GetParam().n), "")
        << to_string(tile);
  }
}

TEST_P(LinearRows, MayReplaceTheResidual) {
  Layer layer(GetParam());
  if (!GetParam().residual) GTEST_SKIP() << "has no residual";
  const Bits wanted = layer.run(layer.call(kLinearTiles[0])), residual = layer.residual();
  for (LinearTile tile : kLinearTiles) {
    layer.set_residual(residual);
    LinearCall call = layer.call(tile);
    call.y = layer.residual_on_device();
    enqueue_linear_sm90(call, layer.stream().get());
    layer.stream().wait();
    Bits found(wanted.size());
    device::check(cudaMemcpy(found.data(), call.y, found.size() * 2, cudaMemcpyDeviceToHost));
    EXPECT_EQ(difference(found, 0, wanted, 0, GetParam().rows, GetParam().n), "")
        << to_string(tile);
  }
}

TEST_P(LinearRows, OneGraphServesEveryLiveCount) {
  const Layer layer(GetParam());
  const int rows = GetParam().rows, n = GetParam().n;
  const Bits all = layer.run(layer.call(kLinearTiles[0]));
  for (LinearTile tile : kLinearTiles) {
    LinearCall call = layer.call(tile);
    call.live_rows = layer.live();
    const CapturedGraph graph(layer.stream(),
                              [&] { enqueue_linear_sm90(call, layer.stream().get()); });
    for (const int live : {rows, 1, 0, 300, 64, rows}) {
      layer.set_live(live);
      layer.poison();
      graph.launch(layer.stream());
      const Bits y = layer.result();
      EXPECT_EQ(difference(y, 0, all, 0, live, n), "") << to_string(tile) << ", live " << live;
      EXPECT_EQ(
          std::count(y.begin(), y.begin() + static_cast<std::ptrdiff_t>(product(live, n)), kPoison),
          0);
    }
  }
}

// Thirty layers, each of the one before: k and n are the same.
TEST_P(LinearRows, StartsEarlyWithoutReadingTooEarly) {
  LinearCase square = GetParam();
  square.n = square.k;
  square.residual = true;
  square.activation = Activation::none;
  square.weight_scale = 1;  // so that thirty layers stay finite
  const Layer layer(square);
  const device::DeviceBuffer between = device::device_buffer(product(square.rows, square.n) * 2);
  const auto enqueue_chain = [&](LinearTile tile, bool starts_early) {
    LinearCall call = layer.call(tile);
    call.starts_early = starts_early;
    for (int i = 0; i < 30; ++i) {
      call.y = i % 2 == 0 ? between.get() : layer.y();
      enqueue_linear_sm90(call, layer.stream().get());
      call.x = call.y;
    }
  };
  layer.poison();
  enqueue_chain(kLinearTiles[0], false);
  const Bits wanted = layer.result();
  for (LinearTile tile : kLinearTiles) {
    layer.poison();
    enqueue_chain(tile, true);
    EXPECT_EQ(difference(layer.result(), 0, wanted, 0, square.rows, square.n), "")
        << to_string(tile);
    const CapturedGraph graph(layer.stream(), [&] { enqueue_chain(tile, true); });
    layer.poison();
    graph.launch(layer.stream());
    EXPECT_EQ(difference(layer.result(), 0, wanted, 0, square.rows, square.n), "")
        << to_string(tile) << " in a graph";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, LinearRows,
    testing::Values(LinearCase{1000, 456, 136, RealType::f16, Activation::gelu, true, true},
                    LinearCase{777, 192, 384, RealType::bf16, Activation::none, true, true},
                    LinearCase{2053, 1152, 384, RealType::f16, Activation::none, true, false}));

// ---- the rules -------------------------------------------------------------------------------

TEST(LinearSm90Call, RejectsWhatTheKernelCannotDo) {
  if (!has_linear_sm90()) GTEST_SKIP() << "needs a Hopper GPU and code for sm_90a";
  const LinearCall call{.rows = 10, .n = 384, .k = 384};
  EXPECT_TRUE(linear_sm90_supports(call));
  const auto rejects = [&](auto change) {
    LinearCall changed = call;
    change(changed);
    return !linear_sm90_supports(changed);
  };
  EXPECT_TRUE(rejects([](LinearCall& c) { c.n = 12; }));
  EXPECT_TRUE(rejects([](LinearCall& c) { c.k = 20; }));
  EXPECT_TRUE(rejects([](LinearCall& c) { c.type = RealType::f32; }));
  EXPECT_TRUE(rejects([](LinearCall& c) { c.activation = Activation::tanh; }));
}

TEST(LinearTileRule, TakesLargeTilesForManyRowsAndSmallOnesForFew) {
  const auto tile = [](std::int64_t rows, int n, int k) {
    return choose_linear_tile(rows, n, k, 132);
  };
  for (const int n : {384, 768, 1152, 1536, 2304, 3072})
    EXPECT_EQ(tile(165003, n, 384), LinearTile::pingpong_m128n192) << n;
  EXPECT_EQ(tile(165003, 256, 384), LinearTile::pingpong_m128n128);
  EXPECT_EQ(tile(2048, 384, 1536), LinearTile::m128n64);
  EXPECT_EQ(tile(128, 768, 3072), LinearTile::m64n32);
}

}  // namespace
}  // namespace sluice::kernels::cuda
