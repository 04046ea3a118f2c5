// A short, repeatable run of lease_fuzz.cc: requests with bytes changed, cut out and
// doubled, and numbers put where others were.
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kVariants = 8000;  // of each request

const std::string kRequests[] = {
    R"({"agent": "scout", "memory_gb": 8, "priority": "high", "on_unavailable": "cpu"})",
    R"({"agent": "späher \u00e9\ud83d\ude00", "memory_gb": 0.5, "min_memory_gb": 1e-1,
        "device": "GPU-8f6d3c1e", "ttl_s": 30.5, "wait_s": 12, "on_unavailable": "wait"})",
    R"({"agent":"a","memory_gb":80,"gpus":4,"linked":true,"numa_node":1,"placement":"spread",
        "model_type":"mini","client_limits":false,"device":3})",
    "12.3.00000000000000ab",
};
const std::string kValues[] = {"-1",    "1e999", "0",        "null",
                               "\"8\"", "[[[[",  "true",     "{}",
                               "1e308", "NaN",   "65536.01", "18446744073709551616"};

std::string damaged(std::string text, std::mt19937& random) {
  const char kInteresting[] = "{}[]\",:\\u0eE+-.\t\n\x7f\xff\xc3";
  const auto below = [&](std::size_t n) { return random() % n; };
  for (std::size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = below(text.size()), length = 1 + below(16);
    switch (below(5)) {
      case 0: text[at] = kInteresting[below(sizeof kInteresting)]; break;  // NUL included
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, length * length * 8, text[at]); break;
      case 3: text.replace(at, length, kValues[below(std::size(kValues))]); break;
      default: text.insert(at, text.substr(at, length));
    }
  }
  return text;
}

void feed(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

}  // namespace

int main() {
  std::mt19937 random(1);
  int fed = 0;
  for (const auto& request : kRequests) {
    for (std::size_t cut = 0; cut <= request.size(); ++cut, ++fed) feed(request.substr(0, cut));
    for (int i = 0; i < kVariants; ++i, ++fed) feed(damaged(request, random));
  }
  std::printf("lease_fuzz_smoke: %d requests\n", fed);
}
