// A short, repeatable run of sentencepiece_fuzz.cc.
#include <cstring>

#include "smoke.h"

namespace {

std::string field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (std::size_t size = bytes.size();; size >>= 7) {
    out += static_cast<char>((size & 127) | (size > 127 ? 128 : 0));
    if (size <= 127) return out + bytes;
  }
}

std::string piece(const std::string& text, float score) {
  std::string bits(4, '\0');
  std::memcpy(bits.data(), &score, 4);
  return field(1, field(1, text) + "\x15" + bits);
}

// A map of "A" to "a": a block of 256 units a byte.
std::string charsmap() {
  std::vector<std::uint32_t> units(768);
  units[0] = 256 << 10;
  units[256 ^ 'A'] = 'A' | ((256u ^ 'A') ^ 512) << 10 | 1 << 8;
  std::string bytes(4 * units.size(), '\0');
  std::memcpy(bytes.data(), units.data(), bytes.size());
  const auto size = static_cast<std::uint32_t>(bytes.size());
  std::string head(4, '\0');
  std::memcpy(head.data(), &size, 4);
  return head + bytes + "a" + std::string(1, '\0');
}

}  // namespace

int main() {
  using namespace sluice;
  const std::string pieces = piece("<unk>", 0) + piece("\xE2\x96\x81", -2) +
                             piece("\xE2\x96\x81T", -3) + piece("he", -1.5f) + piece("a", -4);
  const std::string trainer = field(2,
                                    "\x18\x01"
                                    "\xC0\x02" +
                                        std::string(1, '\0'));
  const std::vector<std::string> seeds{pieces + trainer,
                                       pieces + trainer + field(3, field(2, charsmap()))};
  return fuzz::run("sentencepiece_fuzz_smoke", seeds,
                   {.variants = 3000, .alphabet = "\x0a\x12\x15\x1a\x80\xff", .runs = 1});
}
