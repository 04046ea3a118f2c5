#include "engine/ops/convert.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

namespace sluice::engine {
namespace {

constexpr std::size_t kChunk = 512;

template <class T>
inline constexpr bool kIsWholeNumber =
    std::is_integral_v<T> || std::is_same_v<T, Int4> || std::is_same_v<T, UInt4> ||
    std::is_same_v<T, Int2> || std::is_same_v<T, UInt2>;

// The intermediate type of a conversion, which represents every value of T.
template <class T>
using Between = std::conditional_t<std::is_same_v<T, std::uint64_t>, std::uint64_t,
                                   std::conditional_t<kIsWholeNumber<T>, std::int64_t, double>>;

template <class Body>
void visit_elements(DType type, Body&& body) {
  visit_types<float, double, Half, BFloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t,
              std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, bool, Int4, UInt4, Int2,
              UInt2, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float4E2M1,
              Float8E8M0>(type, std::forward<Body>(body));
}

Float8E8M0 power_of_two(double value, const CastRules& rules) {
  const auto narrow = static_cast<float>(std::fabs(value));
  Float8E8M0 result(narrow);  // up
  if (std::isnan(value)) return result;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(narrow);
  if (std::isinf(narrow) || (rules.round == CastRules::Round::up && narrow > 0x1p127f)) {
    result.bits = rules.saturate ? 0xfe : 0xff;
  } else if (rules.round == CastRules::Round::down) {
    result.bits = static_cast<std::uint8_t>(bits >> 23);
  } else if (rules.round == CastRules::Round::nearest) {
    const std::uint32_t exponent = bits >> 23;
    const bool up = exponent > 0 ? (bits & 0x400000u) != 0 : (bits & 0x7fffffu) > 0x400000u;
    const std::uint32_t rounded = exponent + (up ? 1u : 0u);
    result.bits = static_cast<std::uint8_t>(rounded == 255 && rules.saturate ? 254 : rounded);
  }
  return result;
}

template <class T, class B>
T narrowed(B value, const CastRules& rules) {
  if constexpr (std::is_same_v<T, bool>) {
    return value != B(0);
  } else if constexpr (std::is_same_v<T, std::uint64_t> && std::is_same_v<B, double>) {
    if (value >= 0x1p63 && value < 0x1p64) return static_cast<T>(value);
    return static_cast<T>(to_integer(value));
  } else if constexpr (kIsWholeNumber<T>) {
    if constexpr (std::is_same_v<B, double>)
      return narrowed<T>(to_integer(value), rules);
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(value);
    else
      return T(static_cast<int>(value & 0xff));
  } else if constexpr (std::is_same_v<T, Float8E8M0>) {
    return power_of_two(static_cast<double>(value), rules);
  } else if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else if constexpr (sizeof(T) == 2) {
    return T(to_odd(static_cast<double>(value)));
  } else {
    return T(to_odd(static_cast<double>(value)),
             rules.saturate ? Overflow::saturate : Overflow::infinity);
  }
}

// Elements [begin, end) of `from` as B.
template <class B>
void load(const Tensor& from, std::size_t begin, std::size_t end, B* to) {
  visit_elements(from.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<Between<T>, B>) {
      const T* const x = as<T>(from).data();
      for (std::size_t i = begin; i < end; ++i) {
        if constexpr (std::is_same_v<T, bool>)
          to[i - begin] = x[i] ? B(1) : B(0);
        else if constexpr (kIsWholeNumber<T> && !std::is_integral_v<T>)
          to[i - begin] = static_cast<int>(x[i]);
        else
          to[i - begin] = static_cast<B>(static_cast<Wide<T>>(x[i]));
      }
    }
  });
}

template <class B>
void convert_by(const Tensor& from, const Tensor& to, const CastRules& rules) {
  B chunk[kChunk];
  const auto size = static_cast<std::size_t>(from.size());
  for (std::size_t begin = 0; begin < size; begin += kChunk) {
    const std::size_t end = std::min(size, begin + kChunk);
    load(from, begin, end, chunk);
    visit_elements(to.dtype(), [&]<class T>() {
      T* const y = as<T>(to).data();
      for (std::size_t i = begin; i < end; ++i) y[i] = narrowed<T>(chunk[i - begin], rules);
    });
  }
}

void convert_numbers(const Tensor& from, const Tensor& to, const CastRules& rules) {
  if (from.dtype() == DType::u64) return convert_by<std::uint64_t>(from, to, rules);
  if (is_integer(from.dtype()) || from.dtype() == DType::boolean)
    return convert_by<std::int64_t>(from, to, rules);
  convert_by<double>(from, to, rules);
}

// The shortest text that parses to the same value: "1.0", "0.47892547", "1e-07".
template <class W>
std::string text_of(W value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "INF" : "-INF";
  const W size = std::fabs(value);
  const bool plain = size == 0 || (size >= W(1e-4) && size < W(1e16));
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string result(text, end.ptr);
  if (plain && result.find('.') == std::string::npos) result += ".0";
  return result;
}

void write_text(const Tensor& from, const Tensor& to) {
  const auto words = to.values<std::string>();
  visit_elements(from.dtype(), [&]<class T>() {
    const auto values = as<T>(from);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if constexpr (std::is_same_v<T, bool>)
        words[i] = values[i] ? "True" : "False";
      else if constexpr (std::is_same_v<T, std::uint64_t>)
        words[i] = std::to_string(values[i]);
      else if constexpr (kIsWholeNumber<T>)
        words[i] = std::to_string(static_cast<std::int64_t>(values[i]));
      else
        words[i] = text_of<Wide<T>>(values[i]);
    }
  });
}

double read_number(const std::string& word) {
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(word, &used);
  } catch (const std::out_of_range&) {
    value = std::strtod(word.c_str(), nullptr);
    used = word.size();
  } catch (const std::invalid_argument&) {
    used = std::string::npos;
  }
  const bool whole =
      used != std::string::npos && word.find_first_not_of(" \t\r\n", used) == std::string::npos;
  require(whole, "'" + word.substr(0, 40) + "' is no number");
  return value;
}

void read_text(const Tensor& from, const Tensor& to, const CastRules& rules) {
  const auto words = from.values<std::string>();
  visit_elements(to.dtype(), [&]<class T>() {
    const auto values = as<T>(to);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {  // more digits than a double has
        T exact = 0;
        const char* const end = words[i].data() + words[i].size();
        const auto read = std::from_chars(words[i].data(), end, exact);
        if (read.ec == std::errc() && read.ptr == end) {
          values[i] = exact;
          continue;
        }
      }
      if constexpr (std::is_same_v<T, bool>)
        if (words[i] == "True" || words[i] == "False") {
          values[i] = words[i] == "True";
          continue;
        }
      values[i] = narrowed<T>(read_number(words[i]), rules);
    }
  });
}

}  // namespace

std::int64_t to_integer(double value) {
  if (value >= -0x1p63 && value < 0x1p63) return static_cast<std::int64_t>(value);
  return std::numeric_limits<std::int64_t>::min();
}

float to_odd(double value) {
  const auto near = static_cast<float>(value);
  if (static_cast<double>(near) == value || !std::isfinite(near)) return near;
  // Of the two neighboring floats, the one whose last bit is set.
  if ((std::bit_cast<std::uint32_t>(near) & 1u) != 0) return near;
  const float toward = value > static_cast<double>(near) ? std::numeric_limits<float>::infinity()
                                                         : -std::numeric_limits<float>::infinity();
  return std::nextafter(near, toward);
}

DType wide_number(DType type) {
  if (type == DType::u64 || type == DType::f64) return type;
  return is_float(type) ? DType::f32 : DType::i64;
}

Tensor converted(const Tensor& from, DType to, const CastRules& rules) {
  if (from.dtype() == to) return from;
  const Tensor result(to, from.shape());
  if (from.dtype() == DType::string)
    read_text(from, result, rules);
  else if (to == DType::string)
    write_text(from, result);
  else
    convert_numbers(from, result, rules);
  return result;
}

}  // namespace sluice::engine
