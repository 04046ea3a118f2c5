// Any bytes as a .npy file: an array that writes to the same again, or an Error.
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "formats/npy/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  const auto keep = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  try {
    const Tensor tensor = npy::parse(*keep, keep);
    if (tensor.dtype() == DType::string) return 0;  // NumPy's S may hold what is no UTF-8
    const auto text = std::make_shared<std::string>(npy::format(tensor));
    const Tensor again = npy::parse(*text, text);
    if (again.shape() != tensor.shape() || again.bytes() != tensor.bytes() ||
        (tensor.bytes() > 0 && std::memcmp(again.data(), tensor.data(), tensor.bytes()) != 0))
      std::abort();
  } catch (const Error& e) {
    if (e.reason().size() < 8) std::abort();
  }
  return 0;
}
