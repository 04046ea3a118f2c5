// Classical preprocessing: categories and labels as numbers, and back.
#include <cmath>
#include <map>

#include "engine/ops/families.h"
#include "engine/ops/moves.h"

namespace sluice::engine {
namespace {

// A value as a key: NaN is equal to itself, and -0 to 0.
template <class T>
T key(T value) {
  if constexpr (std::is_floating_point_v<T>) return value == 0 ? T(0) : value;
  return value;
}

struct Before {
  template <class T>
  bool operator()(const T& a, const T& b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(b) && !std::isnan(a);
    }
    return a < b;
  }
};

// The index in `keys` of each element of `data`; the number of keys if it is missing.
std::vector<std::int64_t> indices_in(const Tensor& keys, const Tensor& data) {
  require(keys.dtype() == data.dtype(), "keys of " + std::string(to_string(keys.dtype())) +
                                            " for data of " + std::string(to_string(data.dtype())));
  std::vector<std::int64_t> indices;
  visit_types<std::string, std::int64_t, float, double, std::int32_t, std::int16_t>(
      data.dtype(), [&]<class T>() {
        std::map<T, std::int64_t, Before> known;
        for (const T& value : keys.values<T>())
          known.emplace(key(value), static_cast<std::int64_t>(known.size()));
        require(static_cast<std::int64_t>(known.size()) == keys.size(), "a key that comes twice");
        for (const T& value : data.values<T>()) {
          const auto found = known.find(key(value));
          indices.push_back(found == known.end() ? keys.size() : found->second);
        }
      });
  return indices;
}

// Gathers from `values`, followed by `default_value`.
Tensor looked_up(OpCall& call, const std::vector<std::int64_t>& indices, const Tensor& values,
                 const Tensor& default_value) {
  const Tensor all = concatenated(
      {values.reshaped(Shape{values.size()}), default_value.reshaped(Shape{1})}, 0, call.workers);
  return gathered(all, 0, indices, call.workers).reshaped(call.input(0).shape());
}

template <class T>
Tensor list(const std::vector<T>& values) {
  return Tensor::of(std::span<const T>(values));
}

// keys_* or values_* of any type; none if missing.
Tensor any_list(const Attributes& a, const std::string& prefix) {
  if (a.has(prefix + "_tensor")) return a.tensor(prefix + "_tensor");
  if (a.has(prefix + "_strings")) return list(a.strings(prefix + "_strings"));
  if (a.has(prefix + "_int64s")) return list(a.integers(prefix + "_int64s"));
  if (a.has(prefix + "_floats")) return list(a.reals(prefix + "_floats"));
  return {};
}

Tensor default_of(const Attributes& a, DType dtype) {
  if (const Tensor given = a.tensor("default_tensor")) {
    require(given.dtype() == dtype && given.size() == 1,
            "the default is one element of the values' type");
    return given;
  }
  switch (dtype) {
    case DType::string: return Tensor::of(a.string("default_string", "_Unused"));
    case DType::i64: return Tensor::of(a.integer("default_int64", -1));
    case DType::f32: return Tensor::of(a.real("default_float", -0.0f));
    case DType::f64: return Tensor::of(-0.0);
    case DType::i16: return Tensor::of(std::int16_t{-1});
    case DType::i32: return Tensor::of(std::int32_t{-1});
    default: unsupported_type(dtype);
  }
}

// Maps strings to integers or integers to strings by two parallel lists.
void by_two_lists(OpCall& call, const Tensor& strings, const Tensor& numbers) {
  require(strings.size() == numbers.size(), "lists of different lengths");
  const bool from_strings = call.input(0).dtype() == DType::string;
  const Tensor& keys = from_strings ? strings : numbers;
  const Tensor& values = from_strings ? numbers : strings;
  call.set_output(0, looked_up(call, indices_in(keys, call.input(0)), values,
                               default_of(call.attributes(), values.dtype())));
}

void label_encoder_1(OpCall& call) {
  const Attributes::Strings classes = call.attributes().strings("classes_strings");
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < classes.size(); ++i) numbers.push_back(static_cast<std::int64_t>(i));
  by_two_lists(call, list(classes), list(numbers));
}

void category_mapper(OpCall& call) {
  by_two_lists(call, list(call.attributes().strings("cats_strings")),
               list(call.attributes().integers("cats_int64s")));
}

void label_encoder(OpCall& call) {
  const Attributes& a = call.attributes();
  const Tensor keys = any_list(a, "keys"), values = any_list(a, "values");
  require(keys && values && keys.size() == values.size(), "keys and values do not go together");
  call.set_output(
      0, looked_up(call, indices_in(keys, call.input(0)), values, default_of(a, values.dtype())));
}

// Integer categories are compared with numbers of any type, truncated to integers.
Tensor whole(const Tensor& data) {
  if (data.dtype() == DType::string || data.dtype() == DType::i64) return data;
  Tensor out(DType::i64, data.shape());
  visit_types<std::int32_t, float, double>(data.dtype(), [&]<class T>() {
    const auto from = data.values<T>();
    for (std::size_t i = 0; i < from.size(); ++i) {
      const auto value = static_cast<double>(from[i]);
      out.values<std::int64_t>()[i] =
          std::abs(value) < 9e18 ? static_cast<std::int64_t>(value) : INT64_MIN;
    }
  });
  return out;
}

void one_hot_encoder(OpCall& call) {
  const Tensor data = whole(call.input(0));
  const Attributes& a = call.attributes();
  const Tensor categories = data.dtype() == DType::string ? list(a.strings("cats_strings"))
                                                          : list(a.integers("cats_int64s"));
  const std::vector<std::int64_t> indices = indices_in(categories, data);
  const std::int64_t width = categories.size();
  Shape shape = data.shape();
  shape.push_back(width);
  const Tensor out = call.output(0, DType::f32, shape);
  fill_zero(out);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    require(indices[i] < width || a.flag("zeros", true), "a category that is not known");
    if (indices[i] < width)
      out.values<float>()[i * static_cast<std::size_t>(width) +
                          static_cast<std::size_t>(indices[i])] = 1;
  }
}

constexpr Types kKeys{DType::string, DType::i64, DType::f32, DType::f64, DType::i32, DType::i16};
constexpr Types kStringOrInteger{DType::string, DType::i64};
constexpr Types kCategories{DType::string, DType::i64, DType::i32, DType::f32, DType::f64};
constexpr Op kEncoderOps[] = {
    {"LabelEncoder", 1, kStringOrInteger, label_encoder_1, kMlDomain},
    {"LabelEncoder", 2, kKeys, label_encoder, kMlDomain},
    {"CategoryMapper", 1, kStringOrInteger, category_mapper, kMlDomain},
    {"OneHotEncoder", 1, kCategories, one_hot_encoder, kMlDomain},
};

}  // namespace

std::span<const Op> encoder_ops() { return kEncoderOps; }

}  // namespace sluice::engine
