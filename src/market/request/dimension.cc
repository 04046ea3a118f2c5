#include "market/request/dimension.h"

#include <fmt/format.h>

#include "base/error.h"

namespace sluice::market {

void Dimension::agree(std::string_view field, std::size_t size) {
  if (!known()) {
    field_ = field;
    size_ = size;
  }
  if (size == size_) return;
  throw Error(Code::invalid_argument,
              fmt::format("'{}' has {} {}; '{}' has {}", field, size, unit_, field_, size_));
}

}  // namespace sluice::market
