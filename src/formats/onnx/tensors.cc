// Tensors of ONNX files: raw data, typed data or external data.
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "formats/map.h"
#include "formats/onnx/parts.h"
#include "formats/onnx/wire.h"
#include "tensor/byte_size.h"

namespace sluice::onnx {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

// Unpacks sub-byte elements, lowest bits first.
template <class T>
void unpack(std::string_view packed, Tensor& into, int width) {
  const auto values = into.values<T>();
  const auto per_byte = static_cast<std::size_t>(8 / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto byte = static_cast<unsigned char>(packed[i / per_byte]);
    const int low = byte >> (width * static_cast<int>(i % per_byte)) & ((1 << width) - 1);
    if constexpr (std::is_same_v<T, Float4E2M1>)
      values[i].bits = static_cast<std::uint8_t>(low);
    else
      values[i] = T(low);
  }
}

void unpack(std::string_view packed, Tensor& into) {
  switch (into.dtype()) {
    case DType::u4: return unpack<UInt4>(packed, into, 4);
    case DType::i4: return unpack<Int4>(packed, into, 4);
    case DType::f4e2m1: return unpack<Float4E2M1>(packed, into, 4);
    case DType::u2: return unpack<UInt2>(packed, into, 2);
    case DType::i2: return unpack<Int2>(packed, into, 2);
    default: break;
  }
}

// The bits of one element in an int32 or uint64 of the typed lists, truncated to its width.
template <class From>
void narrow_into(const std::vector<From>& list, Tensor& into) {
  const std::size_t width = bytes(into.dtype());
  auto* to = static_cast<std::byte*>(into.data());
  for (std::size_t i = 0; i < list.size(); ++i) std::memcpy(to + i * width, &list[i], width);
}

struct TensorFields {
  std::vector<std::int64_t> dims, integers, wide;  // int32_data; int64_data and uint64_data
  std::vector<float> reals;
  std::vector<double> doubles;
  std::vector<std::string_view> strings;
  std::string_view name;
  std::optional<std::string_view> raw;
  std::map<std::string_view, std::string_view> external;
  DType dtype = DType::none;
  bool outside = false;
};

std::pair<std::string_view, std::string_view> read_entry(std::string_view bytes) {
  std::pair<std::string_view, std::string_view> entry;
  for (Wire fields(bytes); fields.next();) {
    if (fields.number() == 1) entry.first = fields.name();
    if (fields.number() == 2) entry.second = fields.name();
  }
  return entry;
}

TensorFields read_fields(std::string_view bytes) {
  TensorFields t;
  std::int64_t type = 0;
  for (Wire fields(bytes); fields.next();) {
    switch (fields.number()) {
      case 1: fields.add_to(t.dims); break;
      case 2: type = fields.integer(); break;
      case 3: refuse("tensor in segments");
      case 4: fields.add_to(t.reals); break;
      case 5: fields.add_to(t.integers); break;
      case 6: t.strings.push_back(fields.bytes()); break;
      case 7:
      case 11: fields.add_to(t.wide); break;
      case 8: t.name = fields.name(); break;
      case 9: t.raw = fields.bytes(); break;
      case 10: fields.add_to(t.doubles); break;
      case 13: t.external.insert(read_entry(fields.bytes())); break;
      case 14: t.outside = fields.integer() == 1; break;
      default: break;
    }
  }
  if (type <= 0 || type >= kDTypes) refuse("element type " + std::to_string(type) + " is unknown");
  t.dtype = static_cast<DType>(type);
  return t;
}

std::uint64_t number(const TensorFields& t, std::string_view key, std::uint64_t default_value) {
  const auto found = t.external.find(key);
  if (found == t.external.end()) return default_value;
  std::uint64_t value = 0;
  const std::string_view text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    refuse("external data has the " + std::string(key) + " '" + std::string(text.substr(0, 40)) +
           "'");
  return value;
}

std::string_view external_bytes(const TensorFields& t, Source& source,
                                std::shared_ptr<const void>& keep) {
  const auto location = t.external.find("location");
  if (location == t.external.end()) refuse("external data without a location");
  auto found = source.beside.find(location->second);
  if (found == source.beside.end()) {
    std::shared_ptr<const void> mapping;
    const std::string_view all = map_file(external_file(source.folder, location->second), mapping);
    found = source.beside.emplace(std::string(location->second), std::pair(all, mapping)).first;
  }
  const auto& [all, mapping] = found->second;
  const std::uint64_t offset = number(t, "offset", 0);
  if (offset > all.size()) refuse("external data begins after the end of its file");
  const std::uint64_t length = number(t, "length", all.size() - offset);
  if (length > all.size() - offset) refuse("external data ends after the end of its file");
  keep = mapping;
  return all.substr(offset, length);
}

Tensor from_raw(const TensorFields& t, const Shape& shape, std::string_view raw,
                const std::shared_ptr<const void>& keep) {
  if (raw.size() != packed_byte_size(t.dims, t.dtype))
    refuse(std::to_string(raw.size()) + " bytes of data for " + std::string(to_string(t.dtype)) +
           to_string(shape));
  const std::size_t width = bytes(t.dtype);
  const auto address = reinterpret_cast<std::uintptr_t>(raw.data());
  if (bits(t.dtype) >= 8 && t.dtype != DType::boolean &&
      address % std::min<std::size_t>(width, 8) == 0)
    return Tensor::view(t.dtype, shape, const_cast<char*>(raw.data()), keep);
  Tensor tensor(t.dtype, shape);
  if (bits(t.dtype) < 8)
    unpack(raw, tensor);
  else if (t.dtype == DType::boolean)  // normalizes any byte to 0 or 1
    std::transform(raw.begin(), raw.end(), tensor.values<bool>().begin(),
                   [](char c) { return c != 0; });
  else if (!raw.empty())
    std::memcpy(tensor.data(), raw.data(), raw.size());
  return tensor;
}

void need_count(std::size_t have, std::size_t want, const TensorFields& t, const Shape& shape) {
  if (have != want)
    refuse(std::to_string(have) + " values for " + std::string(to_string(t.dtype)) +
           to_string(shape));
}

void fill_bytes(const TensorFields& t, const Shape& shape, Tensor& tensor) {
  const auto count = static_cast<std::size_t>(shape.size());
  if (bits(t.dtype) < 8) {
    need_count(t.integers.size(), packed_byte_size(t.dims, t.dtype), t, shape);
    std::string packed;
    for (const std::int64_t value : t.integers) packed.push_back(static_cast<char>(value));
    return unpack(packed, tensor);
  }
  need_count(t.integers.size(), count, t, shape);
  narrow_into(t.integers, tensor);
  if (t.dtype == DType::boolean)
    for (std::size_t i = 0; i < count; ++i) tensor.values<bool>()[i] = t.integers[i] != 0;
}

Tensor from_lists(const TensorFields& t, const Shape& shape) {
  const auto count = static_cast<std::size_t>(shape.size());
  const auto check = [&](std::size_t have, std::size_t per = 1) {
    need_count(have, count * per, t, shape);
    return Tensor(t.dtype, shape);
  };
  const auto copied = [](Tensor tensor, const auto& list) {
    if (!list.empty()) std::memcpy(tensor.data(), list.data(), list.size() * sizeof list[0]);
    return tensor;
  };
  switch (t.dtype) {
    case DType::f32: return copied(check(t.reals.size()), t.reals);
    case DType::c64: return copied(check(t.reals.size(), 2), t.reals);
    case DType::f64: return copied(check(t.doubles.size()), t.doubles);
    case DType::c128: return copied(check(t.doubles.size(), 2), t.doubles);
    case DType::i64:
    case DType::u64: return copied(check(t.wide.size()), t.wide);
    case DType::u32: {
      Tensor tensor = check(t.wide.size());
      narrow_into(t.wide, tensor);
      return tensor;
    }
    case DType::string: {
      Tensor tensor = check(t.strings.size());
      std::copy(t.strings.begin(), t.strings.end(), tensor.values<std::string>().begin());
      return tensor;
    }
    default: {
      // Checked before allocation: sizes in a file are not trusted.
      need_count(t.integers.size(), bits(t.dtype) < 8 ? packed_byte_size(t.dims, t.dtype) : count,
                 t, shape);
      Tensor tensor(t.dtype, shape);
      fill_bytes(t, shape, tensor);
      return tensor;
    }
  }
}

Tensor make_tensor(const TensorFields& t, Source& source) {
  (void)byte_size(t.dims, t.dtype);  // throws if the size overflows
  const Shape shape{std::span<const std::int64_t>(t.dims)};
  if (t.outside) {
    std::shared_ptr<const void> keep;
    const std::string_view raw = external_bytes(t, source, keep);
    if (t.dtype == DType::string) refuse("strings in external data");
    return from_raw(t, shape, raw, keep);
  }
  if (t.raw && t.dtype == DType::string) refuse("strings as raw data");
  return t.raw ? from_raw(t, shape, *t.raw, source.keep) : from_lists(t, shape);
}

}  // namespace

fs::path external_file(const fs::path& folder, std::string_view location) {
  if (folder.empty()) refuse("external data is not allowed here");
  const fs::path relative(location);
  if (relative.empty() || relative.is_absolute())
    refuse("external data outside the model's folder: '" + std::string(location) + "'");
  std::error_code error;
  const fs::path base = fs::canonical(folder, error);
  const fs::path file = fs::weakly_canonical(base / relative, error);
  const auto [end, ignored] = std::mismatch(base.begin(), base.end(), file.begin(), file.end());
  if (error || end != base.end())
    refuse("external data outside the model's folder: '" + std::string(location) + "'");
  if (!fs::is_regular_file(file, error))
    throw Error(Code::not_found, "external data file '" + file.string() + "' is not there");
  return file;
}

NamedTensor read_tensor(std::string_view bytes, Source& source) {
  std::string_view name;
  try {
    const TensorFields fields = read_fields(bytes);
    name = fields.name;
    return {name, make_tensor(fields, source)};
  } catch (const Error& error) {
    throw Error(error.code(), "tensor '" + std::string(name.substr(0, 200)) +
                                  "': " + std::string(error.reason()));
  }
}

}  // namespace sluice::onnx
