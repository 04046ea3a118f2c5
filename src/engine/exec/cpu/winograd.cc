#include "kernels/conv/winograd.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/exec/cpu/conv.h"
#include "engine/exec/cpu/nodes.h"
#include "kernels/common/each_task.h"
#include "kernels/gemm/packed_gemm.h"
#include "tensor/byte_size.h"

namespace sluice::engine::cpu {
namespace {

constexpr std::int64_t kLeastChannels = 32;     // for products to outweigh the turning
constexpr std::int64_t kLeastResults = 144;     // of an image, for filters to be worth their size
constexpr std::int64_t kMostFilters = 1 << 16;  // of one channel, to be four times their size
// Of tiles and sums at a time: with small filters all stay in the second cache; of others each is
// read once for as many tiles as can be.
constexpr std::int64_t kCacheValues = 288 << 10, kSmallFilters = 160 << 10;
constexpr std::int64_t kSlotValues = 400 << 10;
constexpr std::int64_t kLeastTiles = 6, kMostTiles = 64;
constexpr std::int64_t kApart = 16;  // between places, so that they do not share lines of the cache

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

// How many rows (and columns) of results a tile has; 0 where another way is faster. It depends on
// nothing but the layer and the size of one image, as rounding does.
int side_for(const ConvNode& conv) {
  const kernels::Window::Axis &high = conv.window.high, &wide = conv.window.wide;
  const auto fits = [](const kernels::Window::Axis& axis) {
    return axis.kernel == 3 && axis.stride == 1 && axis.dilation == 1;
  };
  const auto enough = [](std::int64_t channels) {
    return channels >= kLeastChannels && channels % 16 == 0;
  };
  if (!fits(high) || !fits(wide) || conv.groups != 1 || !enough(conv.window.channels) ||
      !enough(conv.filters) || high.out * wide.out < kLeastResults)
    return 0;
  const auto products = [&](std::int64_t side) {
    return up(high.out, side) * up(wide.out, side) * tile_pixels(static_cast<int>(side));
  };
  const bool small = conv.window.channels * conv.filters <= kMostFilters;
  return small && 3 * products(4) < 2 * products(2) ? 4 : 2;
}

// How tiles and filters are shared out. Filters are where there are too few tiles: each thread then
// turns all tiles for itself, but reads a part of the filters alone.
struct Cut {
  std::int64_t tiles, chunks;  // of a task; along the tiles
  std::int64_t filters, parts;

  Cut(std::int64_t all, std::int64_t places, std::int64_t channels, std::int64_t all_filters,
      std::int64_t threads) {
    const std::int64_t weights = places * channels * all_filters;
    const bool small = weights <= kSmallFilters;
    const std::int64_t budget = small ? kCacheValues - weights : kSlotValues;
    const auto cut = [&](std::int64_t wide) {
      const std::int64_t fit = budget / (places * (channels + wide));
      return up(all, std::clamp(fit, kLeastTiles, kMostTiles));
    };
    filters = all_filters, parts = 1, chunks = cut(filters);
    if (!small && chunks < 2 * threads && threads > 1) {
      const std::int64_t panel = tile_shape().columns;
      filters = up(up(all_filters, threads), panel) * panel;
      parts = up(all_filters, filters), chunks = cut(filters);
    }
    const std::int64_t each = up(threads, parts);
    tiles = up(all, up(chunks, each) * each);  // so that all end at about the same time
    tiles = std::max(tiles, std::min(all, kLeastTiles));
    chunks = up(all, tiles);
  }
};

using Line = std::array<double, 3>;

// What turns a line of a filter, by place of the turned one.
std::vector<Line> turning(int side) {
  if (side == 2) return {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  std::vector<Line> lines{{1, 0, 0}};
  for (const auto& [at, other] : {std::pair(kNear, kFar), std::pair(kFar, kNear)})
    for (const double x : {at, -at}) {
      const double scale = 1 / (2 * at * at * (at * at - other * other));
      lines.push_back({scale, scale * x, scale * x * x});
    }
  lines.push_back({0, 0, 1});
  return lines;
}

// Panels of channels by filters, place by place.
Tensor turned_filters(const ConvNode& conv, int side) {
  const std::int64_t channels = conv.depth(), filters = conv.filters;
  const std::int64_t size = channels * filters;
  const std::vector<Line> lines = turning(side);
  const std::size_t wide = lines.size();
  std::vector<float> all(wide * wide * static_cast<std::size_t>(size));
  const float* from = as<float>(conv.weights).data();
  for (std::int64_t filter = 0; filter < filters; ++filter)
    for (std::int64_t channel = 0; channel < channels; ++channel, from += 9)
      for (std::size_t i = 0; i < wide * wide; ++i) {
        const Line &down = lines[i / wide], &across = lines[i % wide];
        double sum = 0;
        for (std::size_t k = 0; k < 9; ++k)
          sum += down[k / 3] * across[k % 3] * static_cast<double>(from[k]);
        all[i * static_cast<std::size_t>(size) +
            static_cast<std::size_t>(channel * filters + filter)] = static_cast<float>(sum);
      }
  const std::int64_t values = panel_values(channels, filters);
  const Tensor panels(DType::f32, {tile_pixels(side) * values});
  for (std::int64_t i = 0; i < tile_pixels(side); ++i)
    pack(channels, filters, {all.data() + i * size, filters, 1},
         as<float>(panels).data() + i * values);
  return panels;
}

class WinogradKernel final : public Kernel {
 public:
  WinogradKernel(const ConvNode& conv, int side, Context& context)
      : workers_(context.workers),
        window_(conv.window),
        side_(side),
        places_(tile_pixels(side)),
        filters_(conv.filters),
        down_(up(conv.window.high.out, side)),
        across_(up(conv.window.wide.out, side)),
        residual_(conv.residual),
        epilogue_(conv.epilogue),
        cut_(tiles(), places_, window_.channels, filters_, workers_.threads()),
        bias_(packed_bias(conv.filters, conv.bias ? as<float>(conv.bias).data() : nullptr)),
        zeros_(packed_bias(std::max(conv.filters, conv.window.channels), nullptr)) {
    const std::string of = std::to_string(side) + " x " + std::to_string(side);
    panels_ = context.packed(conv.weights, panel_way("winograd " + of),
                             {DType::f32, {places_ * panel_values(window_.channels, filters_)}},
                             [&] { return turned_filters(conv, side); });
    what_ = conv.named("tiles of " + of + " by winograd");
  }

  void run(const KernelArgs& args) const override {
    each_task(workers_, static_cast<std::size_t>(cut_.chunks * cut_.parts),
              [&](std::size_t task, std::size_t slot) {
                run_task(args, static_cast<std::int64_t>(task),
                         static_cast<float*>(args.scratch) +
                             static_cast<std::int64_t>(slot) * slot_values());
              });
  }
  std::string_view what() const override { return what_; }
  std::size_t scratch() const override {
    return byte_size(Shape{workers_.threads(), slot_values()}, DType::f32);
  }
  int in_place() const override { return residual_ ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1 && input != 2; }

 private:
  std::int64_t tiles() const { return window_.batch * down_ * across_; }
  // From a place to the next, of turned tiles and of their sums.
  std::int64_t tile_step() const { return cut_.tiles * window_.channels + kApart; }
  std::int64_t sum_step() const { return cut_.tiles * cut_.filters + kApart; }
  std::int64_t slot_values() const { return places_ * (tile_step() + sum_step()); }

  // Where a tile lies.
  struct At {
    std::int64_t image, row, column;  // of results
  };
  At at(std::int64_t tile) const {
    return {tile / (down_ * across_), tile / across_ % down_ * side_, tile % across_ * side_};
  }

  // The pixels it sees; zeros where those are outside the image.
  void point(const At& at, const float* x, const float** to) const {
    const std::int64_t top = at.row - window_.high.before, left = at.column - window_.wide.before;
    const auto inside = [](std::int64_t i, const kernels::Window::Axis& axis) {
      return static_cast<std::uint64_t>(i) < static_cast<std::uint64_t>(axis.in);
    };
    for (std::int64_t y = top; y < top + side_ + 2; ++y) {
      const float* const line =
          x + (at.image * window_.high.in + y) * window_.wide.in * window_.channels;
      const bool in_image = inside(y, window_.high);
      for (std::int64_t i = left; i < left + side_ + 2; ++i)
        *to++ = in_image && inside(i, window_.wide) ? line + i * window_.channels : zeros_.get();
    }
  }

  void run_task(const KernelArgs& args, std::int64_t task, float* memory) const {
    const std::int64_t first = task % cut_.chunks * cut_.tiles;
    const std::int64_t count = std::min(cut_.tiles, tiles() - first);
    const std::int64_t filter = task / cut_.chunks * cut_.filters;
    float* const sums = memory + places_ * tile_step();
    std::vector<const float*> rows(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      std::array<const float*, tile_pixels(4)> pixels;
      point(at(first + i), floats(args, 0), pixels.data());
      float* const to = memory + i * window_.channels;
      turn_tile(side_, pixels.data(), window_.channels, to, tile_step());
      rows[static_cast<std::size_t>(i)] = to;
    }
    for (std::int64_t place = 0; place < places_; ++place)
      multiply_place(place, filter, rows, sums + place * sum_step());
    for (std::int64_t i = 0; i < count; ++i)
      finish(args, at(first + i), filter, sums + i * cut_.filters);
  }

  void multiply_place(std::int64_t place, std::int64_t filter,
                      const std::vector<const float*>& rows, float* to) const {
    const std::int64_t values = panel_values(window_.channels, filters_);
    const float* const panels =
        as<float>(panels_).data() + place * values + filter * window_.channels;
    const TileBlock block{.rows = rows.data(),
                          .count = static_cast<std::int64_t>(rows.size()),
                          .segments = 1,
                          .depth = window_.channels,
                          .offset = place * tile_step(),
                          .panels = panels,
                          .panel_step = tile_shape().columns * window_.channels,
                          .columns = std::min(cut_.filters, filters_ - filter),
                          .c = to,
                          .c_row = cut_.filters,
                          .bias = zeros_.get(),
                          .ahead = place + 1 < places_ ? panels + values : nullptr,
                          .ahead_values = panel_values(window_.channels, cut_.filters)};
    cpu::run(block);
  }

  void finish(const KernelArgs& args, const At& at, std::int64_t filter, const float* sums) const {
    const std::int64_t result =
        ((at.image * window_.high.out + at.row) * window_.wide.out + at.column) * filters_ + filter;
    const auto there = [&](std::int64_t out, std::int64_t first) {
      return static_cast<int>(std::min<std::int64_t>(side_, out - first));
    };
    turn_back(side_, {.from = sums,
                      .step = sum_step(),
                      .channels = std::min(cut_.filters, filters_ - filter),
                      .bias = bias_.get() + filter,
                      .residual = residual_ ? floats(args, 3) + result : nullptr,
                      .y = static_cast<float*>(args.outputs[0]) + result,
                      .row = window_.wide.out * filters_,
                      .pixel = filters_,
                      .rows = there(window_.high.out, at.row),
                      .columns = there(window_.wide.out, at.column),
                      .epilogue = epilogue_});
  }

  compute::Workers& workers_;
  ImageWindow window_;
  int side_;
  std::int64_t places_, filters_;
  std::int64_t down_, across_;  // tiles of an image
  bool residual_;
  Epilogue epilogue_;
  Cut cut_;
  Floats bias_, zeros_;
  Tensor panels_;
  std::string what_;
};

}  // namespace

std::unique_ptr<Kernel> make_winograd(const ConvNode& conv, Context& context) {
  const int side = side_for(conv);
  return side == 0 ? nullptr : std::make_unique<WinogradKernel>(conv, side, context);
}

}  // namespace sluice::engine::cpu
