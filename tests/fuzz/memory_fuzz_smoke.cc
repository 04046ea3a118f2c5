// A short run of memory_fuzz without a fuzzing engine: random programs, and the same with
// pieces repeated and cut out. The seed is fixed, so a failure repeats.
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main() {
  std::mt19937 random(4);
  int fed = 0;
  for (int form = 0; form < 8; ++form) {
    for (int program = 0; program < 20; ++program) {
      std::vector<std::uint8_t> bytes(1 + random() % 1200);
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
      for (int variant = 0; variant < 5; ++variant, ++fed) {
        bytes[0] = static_cast<std::uint8_t>(form);
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        const std::size_t from = 1 + random() % bytes.size() / 2, n = random() % 40;
        const std::vector<std::uint8_t> piece(
            bytes.begin() + static_cast<std::ptrdiff_t>(std::min(from, bytes.size())),
            bytes.begin() + static_cast<std::ptrdiff_t>(std::min(from + n, bytes.size())));
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      }
    }
  }
  std::printf("%d programs of allocations, none of them wrong\n", fed);
  return 0;
}
