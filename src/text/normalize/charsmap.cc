// SentencePiece's precompiled_charsmap: bytes of a double array, the array (Darts), and texts that
// end in zero. The reference maps a short grapheme by its shortest key, which drops the rest of it.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/utf8.h"
#include "text/normalize/normalizer.h"
#include "text/unicode/graphemes.h"

namespace sluice::text {
namespace {

constexpr std::size_t kLongestText = 1024;  // bytes that a character may become
constexpr std::size_t kUnitBytes = 4;
constexpr std::size_t kLongestGrapheme = 5;  // bytes; longer ones are mapped character by character

class Charsmap final : public Normalizer {
 public:
  explicit Charsmap(std::string_view blob) {
    require(blob.size() >= kUnitBytes, "the map of characters is empty");
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, blob.data(), kUnitBytes);
    blob.remove_prefix(kUnitBytes);
    require(bytes >= kUnitBytes && bytes <= blob.size(),
            "the array of the map of characters is longer than the map");
    units_.resize(bytes / kUnitBytes);
    std::memcpy(units_.data(), blob.data(), bytes / kUnitBytes * kUnitBytes);
    texts_ = blob.substr(bytes / kUnitBytes * kUnitBytes);
    require(!first_invalid_utf8(texts_), "the texts of the map of characters are not UTF-8");
    for (int byte = 0; byte < 128; ++byte) {
      const char c = static_cast<char>(byte);
      plain_[byte] = c != '\r' && !find({&c, 1});
    }
  }

  void apply(Normalized& text) const override {
    if (std::ranges::all_of(text.text, [&](char c) { return is_plain(c); })) return;
    Changes changes(text);
    for (std::size_t at = 0; at < text.text.size();) {
      const std::size_t end = grapheme_end(text.text, at);
      const auto grapheme = std::string_view(text.text).substr(at, end - at);
      if (const auto to = end - at <= kLongestGrapheme ? find(grapheme) : std::nullopt)
        changes.exchange(grapheme, *to);
      else
        each(grapheme, changes);
      at = end;
    }
    if (changes.changed) changes.write();
  }

 private:
  // The reference's list of changes: a text that becomes empty charges its length to the change
  // before it.
  struct Changes {
    explicit Changes(Normalized& of) : text(of) {}

    void keep(char32_t c) { list.push_back({c, 0}); }

    void exchange(std::string_view from, std::string_view to) {
      changed = true;
      require_made(made += to.size(), text.most);
      const auto old = static_cast<std::ptrdiff_t>(count_code_points(from));
      const auto now = static_cast<std::ptrdiff_t>(count_code_points(to));
      for_each_code_point(to, [&](char32_t c, std::size_t, std::size_t) { keep(c); });
      for (std::ptrdiff_t i = old; i < now; ++i)
        list[list.size() - 1 - static_cast<std::size_t>(i - old)].change = 1;
      if (now < old && !list.empty()) list.back().change += now - old;
    }

    void write() {
      Rewriter out(text);
      for (const auto& one : list) out.put(one.c, one.change);
      out.finish();
    }

    struct One {
      char32_t c;
      std::ptrdiff_t change;
    };
    Normalized& text;
    std::vector<One> list;
    std::size_t made = 0;  // bytes
    bool changed = false;
  };

  void each(std::string_view grapheme, Changes& changes) const {
    for_each_code_point(grapheme, [&](char32_t c, std::size_t begin, std::size_t end) {
      const auto part = grapheme.substr(begin, end - begin);
      if (const auto to = find(part))
        changes.exchange(part, *to);
      else
        changes.keep(c);
    });
  }

  // Characters of ASCII that stay as they are, whatever stands beside them in ASCII. "\r\n" is one
  // grapheme.
  bool is_plain(char c) const noexcept {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 128 && plain_[byte];
  }

  // The text of the shortest key that `key` begins with.
  std::optional<std::string_view> find(std::string_view key) const {
    std::size_t node = offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      node ^= byte;
      if (node >= units_.size() || label(units_[node]) != byte) break;
      const std::uint32_t unit = units_[node];
      node ^= offset(unit);
      if (node >= units_.size()) break;
      if (unit >> 8 & 1) return text_at(units_[node] & 0x7FFFFFFF);
    }
    return std::nullopt;
  }

  std::optional<std::string_view> text_at(std::size_t at) const {
    if (at > texts_.size() || (at < texts_.size() && is_tail_byte(texts_[at]))) return std::nullopt;
    const auto rest = std::string_view(texts_).substr(at);
    const auto end = rest.substr(0, kLongestText + 1).find('\0');
    if (end == rest.npos && rest.size() > kLongestText) return std::nullopt;
    return rest.substr(0, end);
  }

  static std::uint32_t label(std::uint32_t unit) { return unit & 0x800000FF; }
  static std::size_t offset(std::uint32_t unit) {
    return std::size_t{unit >> 10} << ((unit & 0x200) >> 6);
  }

  std::vector<std::uint32_t> units_;
  std::string texts_;
  bool plain_[128] = {};
};

}  // namespace

NormalizerPtr make_charsmap(std::string_view blob) { return std::make_shared<Charsmap>(blob); }

}  // namespace sluice::text
