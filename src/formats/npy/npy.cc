#include "formats/npy/npy.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/new_file.h"
#include "base/utf8.h"
#include "formats/map.h"
#include "formats/npy/npy_header.h"
#include "tensor/byte_size.h"

namespace sluice::npy {
namespace {

namespace fs = std::filesystem;

// ---- reading ---------------------------------------------------------------------

// Calls body(to, from) for each element of a column-major file, in row-major order.
template <class Body>
void from_fortran(const Shape& shape, Body&& body) {
  const int rank = shape.rank();
  if (shape.size() == 0) return;
  std::array<std::int64_t, kMaxDims> step{}, at{};
  std::int64_t stride = 1;
  for (int axis = 0; axis < rank; ++axis) {
    step[static_cast<std::size_t>(axis)] = stride;
    stride *= shape[axis];
  }
  std::int64_t from = 0;
  for (std::int64_t to = 0; to < shape.size(); ++to) {
    body(static_cast<std::size_t>(to), static_cast<std::size_t>(from));
    for (int axis = rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      from += step[a];
      if (++at[a] < shape[axis]) break;
      from -= at[a] * step[a];
      at[a] = 0;
    }
  }
}

template <class Body>
void each_element(const Header& header, const Shape& shape, Body&& body) {
  if (header.fortran && shape.rank() > 1) return from_fortran(shape, body);
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.size()); ++i) body(i, i);
}

std::uint32_t code_point_at(const char* at, bool big) {
  std::uint32_t code_point = 0;
  for (std::size_t i = 0; i < 4; ++i)
    code_point |= std::uint32_t{static_cast<unsigned char>(at[i])} << (8 * (big ? 3 - i : i));
  return code_point;
}

// NumPy pads strings with zeros to their width.
std::string text_at(const char* at, const Header& header) {
  std::string text;
  if (header.kind == 'S') {
    text.assign(at, header.width);
  } else {
    for (std::size_t i = 0; i < header.width; ++i) {
      const std::uint32_t code_point = code_point_at(at + 4 * i, header.order == '>');
      if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000))
        refuse("a string in it has an invalid code point");
      append_utf8(text, code_point);
    }
  }
  const std::size_t last = text.find_last_not_of('\0');
  text.resize(last == std::string::npos ? 0 : last + 1);
  return text;
}

Tensor copied(const Header& header, const Shape& shape, const char* from) {
  Tensor tensor(dtype_of(header), shape);
  const std::size_t width = header.element_bytes();
  if (tensor.dtype() == DType::string) {
    const auto texts = tensor.values<std::string>();
    each_element(header, shape, [&](std::size_t to, std::size_t i) {
      texts[to] = text_at(from + i * width, header);
    });
    return tensor;
  }
  auto* const out = static_cast<char*>(tensor.data());
  each_element(header, shape, [&](std::size_t to, std::size_t i) {
    std::memcpy(out + to * width, from + i * width, width);
  });
  if (header.order == '>') {
    const std::size_t part = header.kind == 'c' ? width / 2 : width;
    for (std::size_t i = 0; i < tensor.bytes(); i += part) std::reverse(out + i, out + i + part);
  }
  if (header.kind == 'b')  // any byte may stand there; a bool is 0 or 1
    for (std::size_t i = 0; i < tensor.bytes(); ++i) out[i] = out[i] != 0 ? 1 : 0;
  return tensor;
}

// ---- writing ---------------------------------------------------------------------

template <class From, class To>
Tensor widened(const Tensor& tensor) {
  Tensor wide(kDTypeOf<To>, tensor.shape());
  std::transform(tensor.values<From>().begin(), tensor.values<From>().end(),
                 wide.values<To>().begin(), [](From x) { return static_cast<To>(x); });
  return wide;
}

Tensor as_numpy_has_it(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::bf16: return widened<BFloat16, float>(tensor);
    case DType::f8e4m3fn: return widened<Float8E4M3FN, float>(tensor);
    case DType::f8e4m3fnuz: return widened<Float8E4M3FNUZ, float>(tensor);
    case DType::f8e5m2: return widened<Float8E5M2, float>(tensor);
    case DType::f8e5m2fnuz: return widened<Float8E5M2FNUZ, float>(tensor);
    case DType::f8e8m0: return widened<Float8E8M0, float>(tensor);
    case DType::f4e2m1: return widened<Float4E2M1, float>(tensor);
    case DType::i4: return widened<Int4, std::int8_t>(tensor);
    case DType::i2: return widened<Int2, std::int8_t>(tensor);
    case DType::u4: return widened<UInt4, std::uint8_t>(tensor);
    case DType::u2: return widened<UInt2, std::uint8_t>(tensor);
    default: return tensor;
  }
}

// Decodes UTF-8, which must be well-formed, to code points.
std::u32string code_points(const std::string& text) {
  if (first_invalid_utf8(text))
    refuse("a string that is not UTF-8 cannot be stored in a .npy file");
  std::u32string list;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80)
      list += byte;
    else if (byte >= 0xc0)
      list += byte & (byte >= 0xf0 ? 0x07u : byte >= 0xe0 ? 0x0fu : 0x1fu);
    else
      list.back() = list.back() << 6 | (byte & 0x3fu);
  }
  return list;
}

// All strings are padded to the longest.
std::string format_texts(const Tensor& tensor) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
  std::size_t width = 1;
  for (const std::string& text : tensor.values<std::string>())
    width = std::max(width, code_points(text).size());
  require(byte_size(tensor.shape(), 4 * width) <= kMaxBytes,
          "strings of up to " + std::to_string(width) + " characters are too long for a .npy file");
  std::string file = write_header("<U" + std::to_string(width), tensor.shape().dims());
  for (const std::string& text : tensor.values<std::string>()) {
    std::u32string padded = code_points(text);
    padded.resize(width);
    file.append(reinterpret_cast<const char*>(padded.data()), 4 * width);
  }
  return file;
}

}  // namespace

Tensor parse(std::string_view bytes, const std::shared_ptr<const void>& keep) {
  const Header header = read_header(bytes);
  const Shape shape{std::span<const std::int64_t>(header.shape)};
  const std::size_t have = bytes.size() - header.begin, width = header.element_bytes();
  const std::size_t want = byte_size(shape, width);
  if (want != have || (width == 0 && shape.size() > 0))  // strings of width 0 may be any number
    refuse(std::to_string(have) + " bytes of data for a shape of " + to_string(shape) + " with " +
           std::to_string(width) + " bytes to an element" + (want > have ? ": it is cut off" : ""));
  const char* const from = bytes.data() + header.begin;
  const bool in_place =
      header.kind != 'S' && header.kind != 'U' && header.kind != 'b' && header.order != '>' &&
      !(header.fortran && shape.rank() > 1) &&
      reinterpret_cast<std::uintptr_t>(from) % std::min<std::size_t>(width, 8) == 0;
  if (in_place) return Tensor::view(dtype_of(header), shape, const_cast<char*>(from), keep);
  return copied(header, shape, from);
}

Tensor read(const fs::path& file) { return parse_file(file, parse); }

std::string format(const Tensor& tensor) {
  if (tensor.dtype() == DType::string) return format_texts(tensor);
  const Tensor known = as_numpy_has_it(tensor);
  require(!descr_of(known.dtype()).empty(), "a tensor without elements of a type");
  std::string file = write_header(descr_of(known.dtype()), known.shape().dims());
  if (known.bytes() > 0) file.append(static_cast<const char*>(known.data()), known.bytes());
  return file;
}

void write(const fs::path& path, const Tensor& tensor) {
  NewFile file(path);
  file.write(format(tensor));
  file.keep();
}

}  // namespace sluice::npy
