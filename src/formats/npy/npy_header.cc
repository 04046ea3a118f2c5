#include "formats/npy/npy_header.h"

#include <charconv>
#include <utility>

#include "base/error.h"

namespace sluice::npy {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxNpyHeaderBytes = 64 * 1024;  // NumPy writes about a hundred

// Parses the Python literals that headers contain.
class Literals {
 public:
  explicit Literals(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void need(char c) {
    if (!take(c)) refuse(std::string("its header lacks a '") + c + "' where one belongs");
  }
  bool at_end() {
    skip_space();
    return rest_.empty();
  }

  std::string_view text() {
    skip_space();
    const char quote = rest_.empty() ? '\0' : rest_[0];
    if (quote != '\'' && quote != '"')
      refuse(quote == '[' ? "its elements are records: save each field as an array of its own"
                          : "its header has no text where one belongs");
    const std::size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) refuse("a text in its header has no end");
    const std::string_view found = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return found;
  }

  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair<std::string_view, bool>("True", true),
                                      std::pair<std::string_view, bool>("False", false)})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    refuse("fortran_order in its header is neither True nor False");
  }

  std::int64_t size() {
    skip_space();
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) refuse("its shape holds something else than a size");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    take('L');  // Python 2 long integers
    return value;
  }

 private:
  void skip_space() {
    const std::size_t at = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at);
  }

  std::string_view rest_;
};

std::vector<std::int64_t> shape_in(Literals& literals) {
  std::vector<std::int64_t> shape;
  literals.need('(');
  while (!literals.take(')')) {
    if (shape.size() == 64) refuse("its shape has more than 64 dimensions");
    shape.push_back(literals.size());
    if (!literals.take(',')) {
      literals.need(')');
      break;
    }
  }
  return shape;
}

void read_descr(std::string_view descr, Header& header) {
  const std::string shown = "'" + std::string(descr.substr(0, 20)) + "'";
  if (descr.size() < 2) refuse("its element type is " + shown);
  header.order = descr[0] == '=' ? '<' : descr[0];
  if (std::string_view("<>|").find(header.order) == std::string_view::npos)
    refuse("its element type is " + shown);
  header.kind = descr[1];
  if (header.kind == 'O')
    refuse("its elements are Python objects: save numbers, x.astype('float32'), or texts");
  const char* const end = descr.data() + descr.size();
  const auto [stop, error] = std::from_chars(descr.data() + 2, end, header.width);
  const bool text = header.kind == 'S' || header.kind == 'U';
  if (error != std::errc() || stop != end || header.width > (1u << 24) ||
      (!text && dtype_of(header) == DType::none))
    refuse("its element type " + shown +
           " has no counterpart here: save it as another, x.astype('float32')");
}

// Returns the text of the dictionary, and sets `begin` to the offset of the elements.
std::string_view dictionary(std::string_view file, std::size_t& begin) {
  if (!file.starts_with(kMagic)) refuse("this is no .npy file: numpy.save writes them");
  if (file.size() < 10) refuse("it is cut off in its header");
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(file[i]); };
  const int version = byte(6);
  if (version < 1 || version > 3)
    refuse("it is of version " + std::to_string(version) + "; 1 to 3 are known");
  const std::size_t bytes = version == 1 ? 2 : 4;
  if (file.size() < 8 + bytes) refuse("it is cut off in its header");
  std::size_t length = 0;
  for (std::size_t i = 0; i < bytes; ++i) length |= std::size_t{byte(8 + i)} << (8 * i);
  if (length > kMaxNpyHeaderBytes) refuse("its header claims " + std::to_string(length) + " bytes");
  begin = 8 + bytes + length;
  if (begin > file.size()) refuse("it is cut off in its header");
  return file.substr(8 + bytes, length);
}

}  // namespace

void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

Header read_header(std::string_view file) {
  Header header;
  Literals literals(dictionary(file, header.begin));
  bool descr = false, order = false, shape = false;
  literals.need('{');
  while (!literals.take('}')) {
    const std::string_view key = literals.text();
    literals.need(':');
    if (key == "descr" && !std::exchange(descr, true))
      read_descr(literals.text(), header);
    else if (key == "fortran_order" && !std::exchange(order, true))
      header.fortran = literals.boolean();
    else if (key == "shape" && !std::exchange(shape, true))
      header.shape = shape_in(literals);
    else
      refuse("its header has the key '" + std::string(key.substr(0, 40)) + "' too many");
    if (!literals.take(',')) {
      literals.need('}');
      break;
    }
  }
  if (!descr || !order || !shape || !literals.at_end())
    refuse("its header is not the one of an array: descr, fortran_order and shape");
  return header;
}

std::string write_header(std::string_view descr, std::span<const std::int64_t> shape) {
  std::string text = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': (";
  for (const std::int64_t dim : shape) text += std::to_string(dim) + ", ";
  if (shape.size() == 1)
    text.pop_back();  // "(3,)"
  else if (!shape.empty())
    text.erase(text.size() - 2);
  text += "), }";
  constexpr std::size_t kBefore = 10;
  text.append((64 - (kBefore + text.size() + 1) % 64) % 64, ' ');
  text += '\n';
  std::string all(kMagic);
  for (const std::size_t byte :
       {std::size_t{1}, std::size_t{0}, text.size() & 0xff, text.size() >> 8})
    all += static_cast<char>(byte);
  return all + text;
}

DType dtype_of(const Header& header) noexcept {
  if (header.kind == 'S' || header.kind == 'U') return DType::string;
  for (int i = 1; i < kDTypes; ++i) {
    const auto type = static_cast<DType>(i);
    const std::string_view descr = descr_of(type);
    if (!descr.empty() && descr[1] == header.kind && bytes(type) == header.width) return type;
  }
  return DType::none;
}

std::string_view descr_of(DType type) noexcept {
  switch (type) {
    case DType::boolean: return "|b1";
    case DType::i8: return "|i1";
    case DType::u8: return "|u1";
    case DType::i16: return "<i2";
    case DType::u16: return "<u2";
    case DType::i32: return "<i4";
    case DType::u32: return "<u4";
    case DType::i64: return "<i8";
    case DType::u64: return "<u8";
    case DType::f16: return "<f2";
    case DType::f32: return "<f4";
    case DType::f64: return "<f8";
    case DType::c64: return "<c8";
    case DType::c128: return "<c16";
    default: return {};
  }
}

}  // namespace sluice::npy
