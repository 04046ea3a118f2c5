// The sizes of a tensor's dimensions, the outermost first. Kept in place: making and copying
// one costs no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace sluice {

inline constexpr int kMostDims = 16;

class Shape {
 public:
  Shape() = default;  // of a scalar
  Shape(std::initializer_list<std::int64_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const std::int64_t> dims);  // invalid_argument past kMostDims

  int rank() const noexcept { return rank_; }
  std::int64_t operator[](int axis) const { return dims_[static_cast<std::size_t>(axis)]; }
  std::int64_t& operator[](int axis) { return dims_[static_cast<std::size_t>(axis)]; }
  const std::int64_t* begin() const noexcept { return dims_.data(); }
  const std::int64_t* end() const noexcept { return dims_.data() + rank_; }
  std::span<const std::int64_t> dims() const noexcept { return {begin(), end()}; }

  void push_back(std::int64_t dim);
  void insert(int axis, std::int64_t dim);
  void erase(int axis);

  // The product of all dimensions (1 for a scalar), or of those in [from, to).
  std::int64_t size() const noexcept { return size(0, rank_); }
  std::int64_t size(int from, int to) const noexcept;

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<std::int64_t, kMostDims> dims_{};
  int rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[2, 3]"

// `axis` counted from the end where negative; invalid_argument where there is none such.
int resolve_axis(std::int64_t axis, int rank);

// What both stretch to by the rule of NumPy; invalid_argument where they do not match.
Shape broadcast(const Shape& a, const Shape& b);

// How many elements a tensor of these dimensions has, if no product overflows and none is
// negative; invalid_argument otherwise. For dimensions that came from outside.
std::int64_t checked_size(std::span<const std::int64_t> dims);

}  // namespace sluice
