// A short, repeatable run of ledger_fuzz.cc: random histories.
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main() {
  constexpr int kHistories = 3000;
  std::mt19937 random(1);
  for (int i = 0; i < kHistories; ++i) {
    std::vector<std::uint8_t> bytes(random() % 3000);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%d random histories, every invariant kept\n", kHistories);
  return 0;
}
