// A short, repeatable run of scenario_fuzz.cc: every shipped scenario with bytes
// changed, cut out and doubled. Usage: scenario_fuzz_smoke SCENARIO_FOLDER
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kVariants = 150;  // of each scenario

void feed(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

std::string damaged(std::string text, std::mt19937& random) {
  const char kInteresting[] = "{}[]\":,-0e9.\\ \xff";
  const auto below = [&](std::size_t n) { return random() % n; };
  for (std::size_t edits = 1 + below(3); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = below(text.size()), length = 1 + below(12);
    switch (below(3)) {
      case 0: text[at] = kInteresting[below(sizeof kInteresting - 1)]; break;
      case 1: text.erase(at, length); break;
      default: text.insert(at, text.substr(at, length));
    }
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::mt19937 random(1);
  int fed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
    std::ifstream in(entry.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    feed(text);
    for (int i = 0; i < kVariants; ++i, ++fed) feed(damaged(text, random));
  }
  std::printf("%d damaged scenarios, none of them fatal\n", fed);
  return fed > 0 ? 0 : 1;
}
