// Any bytes as a safetensors file: tensors whose elements can all be read, or an Error.
#include <cstdlib>
#include <numeric>

#include "base/error.h"
#include "formats/safetensors/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const auto keep = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  try {
    const auto file = safetensors::parse(*keep, keep);
    std::size_t total = 0;
    unsigned sum = 0;
    for (const auto& [name, tensor] : file.tensors) {
      const auto* const at = static_cast<const unsigned char*>(tensor.data());
      sum = std::accumulate(at, at + tensor.bytes(), sum);
      total += tensor.bytes();
    }
    if (total > size || sum > 255 * total) std::abort();
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
