// Col2Im: sums columns of blocks into the image.
#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

// One axis of the image.
struct Axis {
  std::int64_t size, block, positions, stride, dilation, before;
};

std::vector<std::int64_t> list_or(const OpCall& call, std::string_view name, std::size_t count,
                                  std::int64_t default_value) {
  std::vector<std::int64_t> list = call.attributes().integers(name);
  if (list.empty()) list.assign(count, default_value);
  require(list.size() == count, "attribute '" + std::string(name) + "' has " +
                                    std::to_string(list.size()) + " numbers, not " +
                                    std::to_string(count));
  for (const std::int64_t number : list)
    require(number >= default_value && number < (1 << 30),
            "attribute '" + std::string(name) + "' holds " + std::to_string(number));
  return list;
}

std::vector<Axis> axes_of(const OpCall& call) {
  const auto sizes = call.integers(1), blocks = call.integers(2);
  require(sizes.size() == blocks.size() && !sizes.empty() && sizes.size() <= kMaxDims - 2,
          "image and block differ in rank");
  const std::size_t rank = sizes.size();
  const auto dilations = list_or(call, "dilations", rank, 1);
  const auto strides = list_or(call, "strides", rank, 1);
  const auto pads = list_or(call, "pads", 2 * rank, 0);
  checked_size(sizes);
  checked_size(blocks);
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < rank; ++i) {
    require(blocks[i] > 0 && blocks[i] < (1 << 30), "a block of " + std::to_string(blocks[i]));
    const std::int64_t span = sizes[i] + pads[i] + pads[i + rank] - dilations[i] * (blocks[i] - 1);
    require(span > 0, "a block that is larger than the image");
    const std::int64_t positions = (span - 1) / strides[i] + 1;
    axes.push_back({sizes[i], blocks[i], positions, strides[i], dilations[i], pads[i]});
  }
  return axes;
}

// For each block element and block position, in column order: the offset in the image, or -1 in the
// padding.
std::vector<std::int64_t> targets(const std::vector<Axis>& axes, std::int64_t blocks,
                                  std::int64_t positions) {
  std::vector<std::int64_t> list;
  list.reserve(static_cast<std::size_t>(blocks * positions));
  for (std::int64_t b = 0; b < blocks; ++b)
    for (std::int64_t p = 0; p < positions; ++p) {
      std::int64_t in_block = b, position = p, target = 0, step = 1;
      for (std::size_t i = axes.size(); i-- > 0;) {
        const Axis& axis = axes[i];
        const std::int64_t x = position % axis.positions * axis.stride +
                               in_block % axis.block * axis.dilation - axis.before;
        if (x < 0 || x >= axis.size) target = -1;
        if (target >= 0) target += x * step;
        step *= axis.size;
        position /= axis.positions;
        in_block /= axis.block;
      }
      list.push_back(target);
    }
  return list;
}

void col2im(OpCall& call) {
  const Tensor& columns = call.input(0);
  const std::vector<Axis> axes = axes_of(call);
  require(columns.rank() == 3, "columns of three dimensions, not " + to_string(columns.shape()));
  std::vector<std::int64_t> block_dims, position_dims;
  for (const Axis& axis : axes) {
    block_dims.push_back(axis.block);
    position_dims.push_back(axis.positions);
  }
  const std::int64_t blocks = checked_size(block_dims), positions = checked_size(position_dims);
  const Shape& from = columns.shape();
  require(from[1] % blocks == 0 && from[2] == positions,
          "columns of " + to_string(from) + " for " + std::to_string(positions) + " blocks of " +
              std::to_string(blocks));
  Shape shape{from[0], from[1] / blocks};
  for (const Axis& axis : axes) shape.push_back(axis.size);
  const Tensor out = call.output(0, columns.dtype(), checked_shape(shape.dims()));
  const std::int64_t image_size = shape.size(2, shape.rank()), images = shape[0] * shape[1];
  if (images == 0 || image_size == 0) return;
  const std::vector<std::int64_t> to = targets(axes, blocks, positions);
  visit_numbers(columns.dtype(), [&]<class T>() {
    using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
    std::vector<Sum> sums;
    const T* source = columns.values<T>().data();
    T* target = out.values<T>().data();
    for (std::int64_t i = 0; i < images; ++i) {
      sums.assign(static_cast<std::size_t>(image_size), Sum(0));
      for (const std::int64_t position : to) {
        const auto value = static_cast<Sum>(static_cast<Wide<T>>(*source++));
        if (position >= 0) sums[static_cast<std::size_t>(position)] += value;
      }
      for (const Sum sum : sums) *target++ = static_cast<T>(static_cast<Wide<T>>(sum));
    }
  });
}

constexpr Op kCol2imOps[] = {{"Col2Im", 18, kNumbers, col2im}};

}  // namespace

std::span<const Op> col2im_ops() { return kCol2imOps; }

}  // namespace sluice::engine
