// The dimensions of a tensor, outermost first. Stored inline without allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace sluice {

inline constexpr int kMaxDims = 16;

class Shape {
 public:
  Shape() = default;  // a scalar
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);  // throws invalid_argument above kMaxDims

  int rank() const noexcept { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return dims_[static_cast<std::size_t>(axis)]; }
  const std::int64_t* begin() const noexcept { return dims_.data(); }
  const std::int64_t* end() const noexcept { return dims_.data() + rank_; }
  std::span<const std::int64_t> dims() const noexcept { return {begin(), end()}; }

  void push_back(std::int64_t dim);
  void insert(int axis, std::int64_t dim);
  void erase(int axis);

  // The number of elements (1 for a scalar), or the product of dimensions [from, to).
  std::int64_t size() const noexcept { return size(0, rank_); }
  std::int64_t size(int from, int to) const noexcept;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, kMaxDims> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[2, 3]"

// Resolves a negative axis from the end; throws invalid_argument if it is out of range.
int resolve_axis(std::int64_t axis, int rank);

// The NumPy broadcast of both shapes; throws invalid_argument if they do not match.
Shape broadcast(const Shape& a, const Shape& b);

// The number of elements, for untrusted dimensions; throws invalid_argument on overflow or negative
// dimensions.
std::int64_t checked_size(std::span<const std::int64_t> dims);

}  // namespace sluice
