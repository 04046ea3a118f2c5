#include "formats/safetensors/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "formats/map.h"
#include "tensor/byte_size.h"

namespace sluice::safetensors {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 25u << 20;  // of a header, enough for 250,000 tensors

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

struct Named {
  std::string_view name;
  DType dtype;
};
constexpr Named kTypes[] = {
    {"BOOL", DType::boolean},
    {"U8", DType::u8},
    {"I8", DType::i8},
    {"U16", DType::u16},
    {"I16", DType::i16},
    {"U32", DType::u32},
    {"I32", DType::i32},
    {"U64", DType::u64},
    {"I64", DType::i64},
    {"F16", DType::f16},
    {"BF16", DType::bf16},
    {"F32", DType::f32},
    {"F64", DType::f64},
    {"C64", DType::c64},
    {"F8_E4M3", DType::f8e4m3fn},
    {"F8_E5M2", DType::f8e5m2},
    {"F8_E8M0", DType::f8e8m0},
    {"F8_E4M3FNUZ", DType::f8e4m3fnuz},
    {"F8_E5M2FNUZ", DType::f8e5m2fnuz},
};

struct Entry {
  std::string name;
  DType dtype = DType::none;
  std::optional<std::vector<std::int64_t>> shape{};
  std::vector<std::int64_t> offsets{};  // begin and end offsets in the data
};

// SAX handler of the header.
class Header final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Entry> entries;
  std::map<std::string, std::string, std::less<>> metadata;

  bool start_object(std::size_t) override {
    if (array_ || depth_ >= 2) odd();
    ++depth_;
    in_metadata_ = depth_ == 2 && key_ == "__metadata__";
    if (depth_ == 2 && !in_metadata_) {
      if (!names_.insert(key_).second) refuse("two tensors are called " + in_quotes(key_));
      entries.push_back({.name = key_});
    }
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool key(std::string& name) override {
    key_ = name;
    return true;
  }
  bool start_array(std::size_t) override {
    if (array_ || depth_ != 2 || in_metadata_) odd();
    Entry& entry = entries.back();
    if (key_ == "shape" && !entry.shape)
      array_ = &entry.shape.emplace();
    else if (key_ == "data_offsets" && entry.offsets.empty())
      array_ = &entry.offsets;
    else
      odd();
    return true;
  }
  bool end_array() override {
    array_ = nullptr;
    return true;
  }
  bool number_unsigned(std::uint64_t value) override {
    if (!array_ || array_->size() >= 64 || value > std::uint64_t{1} << 62) odd();
    array_->push_back(static_cast<std::int64_t>(value));
    return true;
  }
  bool string(std::string& text) override {
    if (array_ || depth_ != 2) odd();
    if (in_metadata_) {
      metadata[key_] = text;
      return true;
    }
    Entry& entry = entries.back();
    if (key_ != "dtype" || entry.dtype != DType::none) odd();
    const auto known = std::ranges::find(kTypes, text, &Named::name);
    if (known == std::end(kTypes))
      refuse("tensor " + in_quotes(entry.name) + " has elements of the unknown type " +
             in_quotes(text));
    entry.dtype = known->dtype;
    return true;
  }

  bool null() override { odd(); }
  bool boolean(bool) override { odd(); }
  bool number_integer(std::int64_t) override { odd(); }
  bool number_float(double, const std::string&) override { odd(); }
  bool binary(binary_t&) override { odd(); }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::json::exception&) override {
    refuse("its header is not JSON: what is wrong stands at byte " + std::to_string(at));
  }

 private:
  [[noreturn]] void odd() const {
    refuse("its header has something else than tensors, near " + in_quotes(key_));
  }

  std::set<std::string> names_;
  std::string key_;
  std::vector<std::int64_t>* array_ = nullptr;  // the array being parsed
  int depth_ = 0;
  bool in_metadata_ = false;
};

Tensor tensor_of(const Entry& entry, std::string_view data,
                 const std::shared_ptr<const void>& keep) {
  if (entry.dtype == DType::none || !entry.shape || entry.offsets.size() != 2)
    refuse("it lacks dtype, shape or data_offsets");
  const auto begin = static_cast<std::size_t>(entry.offsets[0]);
  const auto end = static_cast<std::size_t>(entry.offsets[1]);
  if (begin > end || end > data.size()) refuse("its data is outside of the file");
  const Shape shape{std::span<const std::int64_t>(*entry.shape)};
  if (byte_size(shape, entry.dtype) != end - begin)
    refuse(std::to_string(end - begin) + " bytes of data for " +
           std::string(to_string(entry.dtype)) + to_string(shape));
  const char* const from = data.data() + begin;
  if (entry.dtype != DType::boolean &&
      reinterpret_cast<std::uintptr_t>(from) % std::min<std::size_t>(bytes(entry.dtype), 8) == 0)
    return Tensor::view(entry.dtype, shape, const_cast<char*>(from), keep);
  Tensor copy(entry.dtype, shape);
  if (entry.dtype == DType::boolean)  // normalizes any byte to 0 or 1
    std::transform(from, from + copy.bytes(), copy.values<bool>().begin(),
                   [](char c) { return c != 0; });
  else if (copy.bytes() > 0)
    std::memcpy(copy.data(), from, copy.bytes());
  return copy;
}

// The format requires that every byte belongs to exactly one tensor.
void check_cover(std::vector<Entry>& entries, std::size_t size) {
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  std::int64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.offsets[0] != at)
      refuse("tensor " + in_quotes(entry.name) + " leaves a gap or lies over another");
    at = entry.offsets[1];
  }
  if (static_cast<std::size_t>(at) != size)
    refuse(std::to_string(size - static_cast<std::size_t>(at)) + " bytes belong to no tensor");
}

}  // namespace

File parse(std::string_view bytes, const std::shared_ptr<const void>& keep) {
  if (bytes.size() < 8) refuse("this is no safetensors file: it is shorter than 8 bytes");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < 8; ++i)
    length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  if (length > bytes.size() - 8 || length > kMaxHeaderBytes)
    refuse("its header claims " + std::to_string(length) +
           " bytes: it is cut off, or no such file");
  const std::string_view text = bytes.substr(8, length), data = bytes.substr(8 + length);
  if (!text.starts_with('{')) refuse("this is no safetensors file: its header is no JSON object");
  Header header;
  nlohmann::json::sax_parse(text.begin(), text.end(), &header);
  File file;
  file.metadata = std::move(header.metadata);
  for (const Entry& entry : header.entries) {
    try {
      file.tensors.emplace(entry.name, tensor_of(entry, data, keep));
    } catch (const Error& error) {
      throw Error(error.code(),
                  "tensor " + in_quotes(entry.name) + ": " + std::string(error.reason()));
    }
  }
  check_cover(header.entries, data.size());
  return file;
}

File read(const std::filesystem::path& file) { return parse_file(file, parse); }

}  // namespace sluice::safetensors
