// A short, repeatable run of a fuzz target without a fuzzing engine: seeds, every beginning
// of them, and variants with bytes changed, cut out, doubled and put where others were.
#pragma once

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sluice::fuzz {

struct Smoke {
  int variants = 1000;             // of each seed
  std::string_view alphabet = "";  // bytes that matter to the parser; zero is used too
  std::vector<std::string_view> fragments = {};  // replacements of the input
  int edits = 4;                                 // at most, in one variant
  std::size_t runs = 8;                          // a symbol may be repeated so many times length²
  std::size_t kept = 0;                          // bytes at the beginning that stay
};

inline void feed(std::string_view text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

inline std::string damaged(std::string text, const Smoke& smoke, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return random() % n; };
  std::size_t edits = 1 + below(static_cast<std::size_t>(smoke.edits));
  for (; edits > 0 && text.size() > smoke.kept; --edits) {
    const std::size_t at = smoke.kept + below(text.size() - smoke.kept), length = 1 + below(16);
    switch (below(smoke.fragments.empty() ? 5 : 6)) {
      case 0: text[at] = static_cast<char>(random()); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, length * length * smoke.runs, text[at]); break;
      case 3: text.insert(at, text.substr(at, length)); break;
      case 4: {
        const std::size_t symbol = below(smoke.alphabet.size() + 1);
        text[at] = symbol < smoke.alphabet.size() ? smoke.alphabet[symbol] : '\0';
        break;
      }
      default: text.replace(at, below(length), smoke.fragments[below(smoke.fragments.size())]);
    }
  }
  return text;
}

// The inputs of a corpus folder: they reach every part of the reader, or once made it fail.
inline std::vector<std::string> corpus(const std::filesystem::path& folder) {
  std::vector<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    kept.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return kept;
}

// The seed of the numbers is fixed, so a failure repeats.
template <class Seeds>
int run(std::string_view name, const Seeds& seeds, const Smoke& smoke) {
  std::mt19937 random(1);
  int fed = 0;
  for (const std::string& seed : seeds) {
    const std::size_t step = 1 + seed.size() / 2000;
    for (std::size_t cut = 0; cut < seed.size(); cut += step, ++fed) feed(seed.substr(0, cut));
    feed(seed);
    for (int i = 0; i < smoke.variants; ++i, ++fed) feed(damaged(seed, smoke, random));
  }
  std::printf("%.*s: %d damaged inputs, none of them fatal\n", static_cast<int>(name.size()),
              name.data(), fed);
  return fed > 0 ? 0 : 1;
}

}  // namespace sluice::fuzz
