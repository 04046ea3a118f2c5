#include "engine/shapes/batch_split.h"

#include <algorithm>
#include <cstring>

namespace sluice::engine {
namespace {

Tensor some_rows(const Tensor& all, std::int64_t begin, std::int64_t end) {
  Shape shape = all.shape();
  shape[0] = end - begin;
  const std::size_t row = all.bytes() / static_cast<std::size_t>(all.shape()[0]);
  auto* const at = static_cast<std::byte*>(all.data()) + row * static_cast<std::size_t>(begin);
  return Tensor::view(all.dtype(), shape, at, std::make_shared<Tensor>(all));
}

std::vector<Datum> cut(std::span<const Datum> inputs, const Rows& rows, std::int64_t begin,
                       std::int64_t end) {
  std::vector<Datum> part(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < part.size(); ++i)
    if (rows.inputs[i]) part[i] = some_rows(part[i].tensor, begin, end);
  return part;
}

// Tensors for all rows, by the results for some. Memory that was kept goes first where there is
// not enough.
std::vector<Datum> room_for(const std::vector<Datum>& part, std::int64_t rows, std::int64_t count,
                            const PartRunner& runner) {
  std::vector<Datum> all;
  for (const Datum& some : part) {
    Shape shape = some.tensor.shape();
    shape[0] = shape[0] / rows * count;
    try {
      all.emplace_back(Tensor(some.tensor.dtype(), shape));
    } catch (const Error& error) {
      if (error.code() != Code::exhausted || runner.trim() == 0) throw;
      all.emplace_back(Tensor(some.tensor.dtype(), shape));
    }
  }
  return all;
}

void put(const std::vector<Datum>& all, const std::vector<Datum>& part, std::int64_t begin,
         std::int64_t end) {
  for (std::size_t i = 0; i < part.size(); ++i) {
    const Tensor& from = part[i].tensor;
    const std::size_t row = from.bytes() / static_cast<std::size_t>(end - begin);
    if (row > 0)
      std::memcpy(
          static_cast<std::byte*>(all[i].tensor.data()) + row * static_cast<std::size_t>(begin),
          from.data(), from.bytes());
  }
}

}  // namespace

InParts run_in_parts(std::span<const Datum> inputs, const Rows& rows, std::int64_t part,
                     const PartRunner& runner) {
  InParts made{{}, 0};
  bool trimmed = false;  // since the last part that fitted
  const auto part_at = [&](std::int64_t begin, std::int64_t end) {
    return end - begin == rows.count ? runner.run(inputs)
                                     : runner.run(cut(inputs, rows, begin, end));
  };
  for (std::int64_t done = 0; done < rows.count;) {
    const std::int64_t end = std::min(done + part, rows.count);
    try {
      std::vector<Datum> results = part_at(done, end);
      if (end - done == rows.count) return {std::move(results), rows.count};
      if (made.results.empty()) made.results = room_for(results, end - done, rows.count, runner);
      put(made.results, results, done, end);
      made.part = std::max(made.part, end - done);
      done = end;
      trimmed = false;
    } catch (const Error& error) {
      if (error.code() != Code::exhausted) throw;
      if (!std::exchange(trimmed, true) && runner.trim() > 0) continue;
      part = runner.smaller(end - done);
      if (part == 0) throw;
    }
  }
  return made;
}

}  // namespace sluice::engine
