#include "engine/ops/text/unicode.h"

#include "base/error.h"
#include "base/utf8.h"

namespace sluice::engine {
namespace {

// Capitals first to last; the small letter lies `apart` higher, and where that is 1 capitals
// and small letters take turns.
struct Alphabet {
  std::uint32_t first, last, apart;
};

constexpr Alphabet kAlphabets[] = {
    {'A', 'Z', 32},         {0xC0, 0xD6, 32},    {0xD8, 0xDE, 32},    {0x100, 0x12E, 1},
    {0x132, 0x136, 1},      {0x139, 0x147, 1},   {0x14A, 0x176, 1},   {0x179, 0x17D, 1},
    {0x1CD, 0x1DB, 1},      {0x1DE, 0x1EE, 1},   {0x1F8, 0x21E, 1},   {0x222, 0x232, 1},
    {0x386, 0x386, 38},     {0x388, 0x38A, 37},  {0x38C, 0x38C, 64},  {0x38E, 0x38F, 63},
    {0x391, 0x3A1, 32},     {0x3A3, 0x3AB, 32},  {0x400, 0x40F, 80},  {0x410, 0x42F, 32},
    {0x460, 0x480, 1},      {0x48A, 0x4BE, 1},   {0x4C1, 0x4CD, 1},   {0x4D0, 0x52E, 1},
    {0x531, 0x556, 48},     {0x1E00, 0x1E94, 1}, {0x1EA0, 0x1EFE, 1}, {0xFF21, 0xFF3A, 32},
    {0x10400, 0x10427, 40},
};

constexpr std::uint32_t kCapitalY = 0x178, kSmallY = 0xFF;  // with a diaeresis, far apart

bool in_alphabet(const Alphabet& alphabet, std::uint32_t capital) {
  return capital >= alphabet.first && capital <= alphabet.last &&
         (alphabet.apart != 1 || (capital - alphabet.first) % 2 == 0);
}

template <class Change>
std::string changed(std::string_view text, Change&& change) {
  std::string out;
  out.reserve(text.size());
  for (const std::uint32_t letter : code_points(text)) append_utf8(out, change(letter));
  return out;
}

}  // namespace

std::vector<std::uint32_t> code_points(std::string_view text) {
  require(!first_invalid_utf8(text), "text that is not UTF-8");
  std::vector<std::uint32_t> points;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    std::uint32_t point = length == 1 ? lead : lead & (0x7Fu >> length);
    for (std::size_t k = 1; k < length; ++k)
      point = point << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3Fu);
    points.push_back(point);
    i += length;
  }
  return points;
}

std::uint32_t to_lower(std::uint32_t letter) noexcept {
  if (letter == kCapitalY) return kSmallY;
  for (const Alphabet& alphabet : kAlphabets)
    if (in_alphabet(alphabet, letter)) return letter + alphabet.apart;
  return letter;
}

std::uint32_t to_upper(std::uint32_t letter) noexcept {
  if (letter == kSmallY) return kCapitalY;
  if (letter == 0x3C2) return 0x3A3;  // a sigma at the end of a word
  for (const Alphabet& alphabet : kAlphabets)
    if (letter >= alphabet.apart && in_alphabet(alphabet, letter - alphabet.apart))
      return letter - alphabet.apart;
  return letter;
}

std::string lower(std::string_view text) { return changed(text, to_lower); }
std::string upper(std::string_view text) { return changed(text, to_upper); }

}  // namespace sluice::engine
