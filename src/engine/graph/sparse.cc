#include "engine/graph/sparse.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace sluice::engine {

Tensor dense(const onnx::SparseTensor& sparse) {
  const std::int64_t count = checked_size(sparse.dims);
  require(count <= (std::int64_t{1} << 31), "a sparse tensor of more than 2^31 elements");
  Tensor full(sparse.values.dtype(), Shape{std::span<const std::int64_t>(sparse.dims)});
  require(sparse.values.dtype() != DType::string, "a sparse tensor of strings");
  require(sparse.indices.dtype() == DType::i64, "indices of a sparse tensor are i64");
  const std::size_t width = bytes(full.dtype());
  std::fill_n(static_cast<std::byte*>(full.data()), full.bytes(), std::byte{0});
  const auto indices = sparse.indices.values<std::int64_t>();
  const int rank = full.rank();
  const bool flat = sparse.indices.rank() == 1;
  const std::int64_t stored = sparse.values.size();
  require(sparse.indices.size() == stored * (flat ? 1 : rank),
          "indices of a sparse tensor do not fit its values");
  for (std::int64_t i = 0; i < stored; ++i) {
    std::int64_t at = flat ? indices[static_cast<std::size_t>(i)] : 0;
    for (int d = 0; !flat && d < rank; ++d) {
      const std::int64_t index = indices[static_cast<std::size_t>(i * rank + d)];
      require(index >= 0 && index < full.shape()[d], "a sparse tensor's index is outside of it");
      at = at * full.shape()[d] + index;
    }
    require(at >= 0 && at < count, "a sparse tensor's index is outside of it");
    std::copy_n(
        static_cast<const std::byte*>(sparse.values.data()) + static_cast<std::size_t>(i) * width,
        width, static_cast<std::byte*>(full.data()) + static_cast<std::size_t>(at) * width);
  }
  return full;
}

}  // namespace sluice::engine
