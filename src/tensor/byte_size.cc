#include "tensor/byte_size.h"

#include <limits>

#include "base/error.h"

namespace sluice {
namespace {

// Pointer differences are signed.
constexpr std::size_t kMaxBytes = std::numeric_limits<std::ptrdiff_t>::max();

}  // namespace

std::size_t byte_size(std::span<const std::int64_t> dims, std::size_t element_bytes) {
  const auto count = static_cast<std::size_t>(checked_size(dims));
  if (element_bytes > 0 && count > kMaxBytes / element_bytes)
    throw Error(Code::invalid_argument, std::to_string(count) + " elements of " +
                                            std::to_string(element_bytes) +
                                            " bytes: more than memory can hold");
  return count * element_bytes;
}

std::size_t byte_size(std::span<const std::int64_t> dims, DType dtype) {
  return byte_size(dims, bytes(dtype));
}

std::size_t packed_byte_size(std::span<const std::int64_t> dims, DType dtype) {
  const int width = bits(dtype);
  if (width == 0 || width >= 8) return byte_size(dims, dtype);
  const auto count = static_cast<std::size_t>(checked_size(dims));
  const auto per_byte = static_cast<std::size_t>(8 / width);
  return count / per_byte + (count % per_byte > 0 ? 1 : 0);
}

}  // namespace sluice
