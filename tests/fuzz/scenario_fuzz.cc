// Any bytes as a scenario of the fake NVML: a scenario, or a complaint that says
// something. Built for libFuzzer with clang, and for the smoke test beside it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int sluice_fake_nvml_load(const char* json, std::size_t size, std::int64_t epoch_ns,
                                     const char* state_file);
extern "C" const char* sluice_fake_nvml_error();

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* text = reinterpret_cast<const char*>(data);
  const bool complains = sluice_fake_nvml_load(text, size, 1, nullptr) != 0;
  if (complains != (*sluice_fake_nvml_error() != '\0')) std::abort();
  return 0;
}
