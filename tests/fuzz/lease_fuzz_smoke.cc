// A short, repeatable run of lease_fuzz.cc.
#include "smoke.h"

namespace {

const std::string kRequests[] = {
    R"({"agent": "scout", "memory_gb": 8, "priority": "high", "on_unavailable": "cpu"})",
    R"({"agent": "späher \u00e9\ud83d\ude00", "memory_gb": 0.5, "min_memory_gb": 1e-1,
        "device": "GPU-8f6d3c1e", "ttl_s": 30.5, "wait_s": 12, "on_unavailable": "wait"})",
    R"({"agent":"a","memory_gb":80,"gpus":4,"linked":true,"numa_node":1,"placement":"spread",
        "model_type":"mini","client_limits":false,"device":3})",
    "12.3.00000000000000ab",
};
constexpr std::string_view kValues[] = {"-1",    "1e999", "0",        "null",
                                        "\"8\"", "[[[[",  "true",     "{}",
                                        "1e308", "NaN",   "65536.01", "18446744073709551616"};

}  // namespace

int main() {
  return sluice::fuzz::run("lease_fuzz_smoke", kRequests,
                           {.variants = 8000,
                            .alphabet = "{}[]\",:\\u0eE+-.\t\n\x7f\xff\xc3",
                            .fragments = {std::begin(kValues), std::end(kValues)}});
}
