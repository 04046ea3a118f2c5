// Range, EyeLike, Trilu, OneHot.
#include <cmath>

#include "engine/ops/axes.h"
#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

template <class T>
T scalar(const OpCall& call, std::size_t input) {
  const Tensor& tensor = call.input(input);
  require(tensor.dtype() == kDTypeOf<T> && tensor.size() == 1,
          "input " + std::to_string(input) + " must be one " + std::string(to_string(kDTypeOf<T>)));
  return tensor.values<T>()[0];
}

constexpr std::int64_t kMaxRangeSize = std::int64_t{1} << 40;

// The number of elements from start to limit, exclusive.
template <class T>
std::int64_t count_between(T start, T limit, T delta) {
  if constexpr (std::is_integral_v<T>) {
    require(delta != 0, "a range in steps of 0");
    if ((delta > 0) != (limit > start) || limit == start) return 0;
    const auto low = static_cast<std::uint64_t>(std::min(start, limit));
    const std::uint64_t apart = static_cast<std::uint64_t>(std::max(start, limit)) - low;
    const auto wide = static_cast<std::uint64_t>(delta);
    const std::uint64_t count = (apart - 1) / (delta > 0 ? wide : 0 - wide) + 1;
    require(count < static_cast<std::uint64_t>(kMaxRangeSize), "a range that is too long");
    return static_cast<std::int64_t>(count);
  } else {
    const double count = std::ceil((static_cast<double>(limit) - static_cast<double>(start)) /
                                   static_cast<double>(delta));
    require(count < static_cast<double>(kMaxRangeSize) && count == count,
            "a range from " + std::to_string(static_cast<double>(start)) + " to " +
                std::to_string(static_cast<double>(limit)) + " in steps of " +
                std::to_string(static_cast<double>(delta)));
    return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::max(count, 0.0)));
  }
}

void range(OpCall& call) {
  visit_types<float, double, Half, BFloat16, std::int16_t, std::int32_t, std::int64_t>(
      call.input(0).dtype(), [&]<class T>() {
        using W = Wide<T>;
        const auto start = static_cast<W>(scalar<T>(call, 0));
        const auto delta = static_cast<W>(scalar<T>(call, 2));
        const auto limit = static_cast<W>(scalar<T>(call, 1));
        const Shape shape{count_between(start, limit, delta)};
        const auto out = call.output(0, kDTypeOf<T>, shape).template values<T>();
        for (std::size_t i = 0; i < out.size(); ++i)
          out[i] = static_cast<T>(static_cast<W>(start + static_cast<W>(i) * delta));
      });
}

void eye_like(OpCall& call) {
  const Tensor& like = call.input(0);
  require(like.rank() == 2, "a matrix, not " + to_string(like.shape()));
  const std::int64_t rows = like.shape()[0], columns = like.shape()[1];
  const std::int64_t shift = call.attributes().integer("k", 0);
  const Tensor out = call.output(0, call.attributes().dtype("dtype", like.dtype()), like.shape());
  fill_zero(out);
  if (shift >= columns || shift <= -rows) return;
  visit_types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool>(
      out.dtype(), [&]<class T>() {
        for (std::int64_t row = std::max<std::int64_t>(0, -shift);
             row < rows && row + shift < columns; ++row)
          out.values<T>()[static_cast<std::size_t>(row * columns + row + shift)] = T(1);
      });
}

void trilu(OpCall& call) {
  const Tensor& data = call.input(0);
  const int rank = data.rank();
  require(rank >= 2, "matrices, not " + to_string(data.shape()));
  const std::int64_t rows = data.shape()[rank - 2], columns = data.shape()[rank - 1];
  const bool upper = call.attributes().flag("upper", true);
  const std::int64_t k = std::clamp(call.has(1) ? integer_of(call, 1) : 0, -rows - 1, columns + 1);
  const Tensor out = call.output(0, data.dtype(), data.shape());
  fill_zero(out);
  const std::int64_t all_rows = columns == 0 ? 0 : data.size() / columns;
  visit_widths(data.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < all_rows; ++i) {
      const std::int64_t row = i % rows;
      const std::int64_t cut = std::clamp<std::int64_t>(row + k + (upper ? 0 : 1), 0, columns);
      const std::int64_t begin = upper ? cut : 0, count = upper ? columns - cut : cut;
      std::copy_n(as<T>(data).data() + i * columns + begin, count,
                  as<T>(out).data() + i * columns + begin);
    }
  });
}

// An integer from a tensor of any numeric type, truncated toward zero.
std::vector<std::int64_t> integers_of(const Tensor& tensor) {
  std::vector<std::int64_t> out;
  visit_numbers(tensor.dtype(), [&]<class T>() {
    for (const T& value : tensor.values<T>()) {
      if constexpr (!std::is_integral_v<T>)
        require(std::abs(static_cast<double>(value)) < 9e18, "an index that is no number");
      out.push_back(static_cast<std::int64_t>(static_cast<Wide<T>>(value)));
    }
  });
  return out;
}

void one_hot(OpCall& call) {
  const Tensor& indices = call.input(0);
  const std::vector<std::int64_t> depths = integers_of(call.input(1));
  require(depths.size() == 1 && depths[0] >= 0, "the depth is one number, not below 0");
  const std::int64_t depth = depths[0];
  const Tensor& values = call.input(2);
  require(values.size() == 2, "the values are two: off and on");
  const int axis = resolve_axis(call.attributes().integer("axis", -1), indices.rank() + 1);
  Shape shape = indices.shape();
  shape.insert(axis, depth);
  const Tensor out = call.output(0, values.dtype(), checked_shape(shape.dims()));
  const std::int64_t inner = shape.size(axis + 1, shape.rank());
  const std::vector<std::int64_t> numbers = integers_of(indices);
  if (values.dtype() == DType::string)
    out.reserve_string_bytes(static_cast<std::size_t>(out.size()),
                             string_bytes(as<std::string>(values)));
  visit_widths(values.dtype(), [&]<class T>() {
    const auto to = as<T>(out);
    std::fill(to.begin(), to.end(), as<T>(values)[0]);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::int64_t index = numbers[i] < 0 ? numbers[i] + depth : numbers[i];
      if (index < 0 || index >= depth) continue;  // no hot element
      const auto position = static_cast<std::int64_t>(i);
      to[static_cast<std::size_t>((position / inner * depth + index) * inner + position % inner)] =
          as<T>(values)[1];
    }
  });
}

constexpr Op kGenerateOps[] = {
    {"Range", 11, kReals | Types{DType::i16, DType::i32, DType::i64}, range},
    {"EyeLike", 9, kNumbers | Types{DType::boolean}, eye_like},
    {"Trilu", 14, kAnyType, trilu},
    {"OneHot", 9, kNumbers, one_hot},
};

}  // namespace

std::span<const Op> generate_ops() { return kGenerateOps; }

}  // namespace sluice::engine
