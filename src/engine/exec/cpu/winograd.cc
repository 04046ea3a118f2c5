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

constexpr std::int64_t kMinChannels = 32;      // below, the transforms cost more than the GEMMs
constexpr std::int64_t kMinResults = 144;      // of an image: below, filters are too large for it
constexpr std::int64_t kMaxFilters = 1 << 16;  // filters * channels for tiles of 4 x 4
// Sizes of transformed tiles and sums at a time. Small filters stay in the L2 cache with them;
// larger filters are read once for as many tiles as possible.
constexpr std::int64_t kCacheValues = 288 << 10, kSmallFilters = 160 << 10;
constexpr std::int64_t kSlotValues = 400 << 10;
constexpr std::int64_t kMinTiles = 6, kMaxTiles = 64;
constexpr std::int64_t kPadding = 16;  // between tile elements, against cache line conflicts

std::int64_t up(std::int64_t x, std::int64_t by) { return (x + by - 1) / by; }

// The side m of the output tile of F(m x m, 3 x 3); 0 if another algorithm is faster. It depends
// only on the layer and the size of one image, so that rounding does too.
int side_for(const ConvNode& conv) {
  const kernels::Window::Axis &high = conv.window.high, &wide = conv.window.wide;
  const auto fits = [](const kernels::Window::Axis& axis) {
    return axis.kernel == 3 && axis.stride == 1 && axis.dilation == 1;
  };
  const auto is_enough = [](std::int64_t channels) {
    return channels >= kMinChannels && channels % 16 == 0;
  };
  if (!fits(high) || !fits(wide) || conv.groups != 1 || !is_enough(conv.window.channels) ||
      !is_enough(conv.filters) || high.out * wide.out < kMinResults)
    return 0;
  const auto multiplications = [&](std::int64_t side) {
    return up(high.out, side) * up(wide.out, side) * tile_pixels(static_cast<int>(side));
  };
  const bool has_small_filters = conv.window.channels * conv.filters <= kMaxFilters;
  return has_small_filters && 3 * multiplications(4) < 2 * multiplications(2) ? 4 : 2;
}

// How tiles and filters are split into tasks. Filters are split if there are too few tiles: each
// thread then transforms all tiles but reads only its part of the filters.
struct TaskSplit {
  std::int64_t tiles, chunks;  // of a task; along the tiles
  std::int64_t filters, filter_chunks;

  TaskSplit(std::int64_t all, std::int64_t elements, std::int64_t channels,
            std::int64_t all_filters, std::int64_t threads) {
    const std::int64_t weights = elements * channels * all_filters;
    const bool has_small_filters = weights <= kSmallFilters;
    const std::int64_t budget = has_small_filters ? kCacheValues - weights : kSlotValues;
    const auto chunks_for = [&](std::int64_t wide) {
      const std::int64_t fit = budget / (elements * (channels + wide));
      return up(all, std::clamp(fit, kMinTiles, kMaxTiles));
    };
    filters = all_filters, filter_chunks = 1, chunks = chunks_for(filters);
    if (!has_small_filters && chunks < 2 * threads && threads > 1) {
      const std::int64_t panel = tile_shape().columns;
      filters = up(up(all_filters, threads), panel) * panel;
      filter_chunks = up(all_filters, filters), chunks = chunks_for(filters);
    }
    const std::int64_t each = up(threads, filter_chunks);
    tiles = up(all, up(chunks, each) * each);  // balances the threads
    tiles = std::max(tiles, std::min(all, kMinTiles));
    chunks = up(all, tiles);
  }
};

using Line = std::array<double, 3>;

// The filter transform G: one row for each element of a transformed line.
std::vector<Line> filter_transform(int side) {
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

// Panels [channels, filters] for each element of the transformed tile.
Tensor transformed_filters(const ConvNode& conv, int side) {
  const std::int64_t channels = conv.depth(), filters = conv.filters;
  const std::int64_t size = channels * filters;
  const std::vector<Line> lines = filter_transform(side);
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
        tile_elements_(tile_pixels(side)),
        filters_(conv.filters),
        down_(up(conv.window.high.out, side)),
        across_(up(conv.window.wide.out, side)),
        residual_(conv.residual),
        activation_(conv.activation),
        split_(tiles(), tile_elements_, window_.channels, filters_, workers_.threads()),
        bias_(packed_bias(conv.filters, conv.bias ? as<float>(conv.bias).data() : nullptr)),
        zeros_(packed_bias(std::max(conv.filters, conv.window.channels), nullptr)) {
    const std::string of = std::to_string(side) + " x " + std::to_string(side);
    panels_ =
        context.packed(conv.weights, panel_format("winograd " + of),
                       {DType::f32, {tile_elements_ * panel_values(window_.channels, filters_)}},
                       [&] { return transformed_filters(conv, side); });
    name_ = conv.name_with_epilogue("Winograd F(" + of + ", 3 x 3)");
  }

  void run(const KernelArgs& args) const override {
    each_task(workers_, static_cast<std::size_t>(split_.chunks * split_.filter_chunks),
              [&](std::size_t task, std::size_t slot) {
                run_task(args, static_cast<std::int64_t>(task),
                         static_cast<float*>(args.scratch) +
                             static_cast<std::int64_t>(slot) * slot_values());
              });
  }
  std::string_view name() const override { return name_; }
  std::size_t scratch() const override {
    return byte_size(Shape{workers_.threads(), slot_values()}, DType::f32);
  }
  int in_place() const override { return residual_ ? 3 : -1; }
  bool reads_constant(std::size_t input) const override { return input != 1 && input != 2; }

 private:
  std::int64_t tiles() const { return window_.batch * down_ * across_; }
  // Strides between elements of transformed tiles and of sums.
  std::int64_t tile_step() const { return split_.tiles * window_.channels + kPadding; }
  std::int64_t sum_step() const { return split_.tiles * split_.filters + kPadding; }
  std::int64_t slot_values() const { return tile_elements_ * (tile_step() + sum_step()); }

  // The position of a tile.
  struct At {
    std::int64_t image, row, column;  // of results
  };
  At at(std::int64_t tile) const {
    return {tile / (down_ * across_), tile / across_ % down_ * side_, tile % across_ * side_};
  }

  // The input pixels of a tile; zeros for padding.
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
    const std::int64_t first = task % split_.chunks * split_.tiles;
    const std::int64_t count = std::min(split_.tiles, tiles() - first);
    const std::int64_t filter = task / split_.chunks * split_.filters;
    float* const sums = memory + tile_elements_ * tile_step();
    std::vector<const float*> rows(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) {
      std::array<const float*, tile_pixels(4)> pixels;
      point(at(first + i), floats(args, 0), pixels.data());
      float* const to = memory + i * window_.channels;
      winograd_input_transform(side_, pixels.data(), window_.channels, to, tile_step());
      rows[static_cast<std::size_t>(i)] = to;
    }
    for (std::int64_t element = 0; element < tile_elements_; ++element)
      multiply_element(element, filter, rows, sums + element * sum_step());
    for (std::int64_t i = 0; i < count; ++i)
      store_tile(args, at(first + i), filter, sums + i * split_.filters);
  }

  void multiply_element(std::int64_t element, std::int64_t filter,
                        const std::vector<const float*>& rows, float* to) const {
    const std::int64_t values = panel_values(window_.channels, filters_);
    const float* const panels =
        as<float>(panels_).data() + element * values + filter * window_.channels;
    const TileBlock block{.rows = rows.data(),
                          .count = static_cast<std::int64_t>(rows.size()),
                          .segments = 1,
                          .depth = window_.channels,
                          .offset = element * tile_step(),
                          .panels = panels,
                          .panel_step = tile_shape().columns * window_.channels,
                          .columns = std::min(split_.filters, filters_ - filter),
                          .c = to,
                          .c_row = split_.filters,
                          .bias = zeros_.get(),
                          .ahead = element + 1 < tile_elements_ ? panels + values : nullptr,
                          .ahead_values = panel_values(window_.channels, split_.filters)};
    cpu::run(block);
  }

  void store_tile(const KernelArgs& args, const At& at, std::int64_t filter,
                  const float* sums) const {
    const std::int64_t result =
        ((at.image * window_.high.out + at.row) * window_.wide.out + at.column) * filters_ + filter;
    const auto size_at = [&](std::int64_t out, std::int64_t first) {
      return static_cast<int>(std::min<std::int64_t>(side_, out - first));
    };
    winograd_output_transform(side_, {.from = sums,
                                      .stride = sum_step(),
                                      .channels = std::min(split_.filters, filters_ - filter),
                                      .bias = bias_.get() + filter,
                                      .residual = residual_ ? floats(args, 3) + result : nullptr,
                                      .y = static_cast<float*>(args.outputs[0]) + result,
                                      .row = window_.wide.out * filters_,
                                      .pixel = filters_,
                                      .rows = size_at(window_.high.out, at.row),
                                      .columns = size_at(window_.wide.out, at.column),
                                      .activation = activation_});
  }

  compute::Workers& workers_;
  ImageWindow window_;
  int side_;
  std::int64_t tile_elements_, filters_;
  std::int64_t down_, across_;  // tiles of an image
  bool residual_;
  ActivationParams activation_;
  TaskSplit split_;
  Floats bias_, zeros_;
  Tensor panels_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Kernel> make_winograd(const ConvNode& conv, Context& context) {
  const int side = side_for(conv);
  return side == 0 ? nullptr : std::make_unique<WinogradKernel>(conv, side, context);
}

}  // namespace sluice::engine::cpu
