// A block of elements in row-major order. Copies share the elements; whoever writes has just
// made the tensor and is alone with it.
#pragma once

#include <cassert>
#include <memory>
#include <span>
#include <string>

#include "memory/alloc/allocator.h"
#include "tensor/dtype.h"
#include "tensor/narrow.h"
#include "tensor/shape.h"

namespace sluice {

// While one lives, tensors made by this thread take their memory from `from`, which lives on
// for as long as they do. Otherwise it is the system's own, in all no more than the machine has or
// our control group may take, less a fifth: the system itself promises more than that.
class TensorMemory {
 public:
  explicit TensorMemory(std::shared_ptr<memory::Allocator> from);
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

 private:
  std::shared_ptr<memory::Allocator> before_;
};

// The system's own memory, `most` bytes of it at once.
std::shared_ptr<memory::Allocator> limited_memory(std::size_t most);

class Tensor {
 public:
  Tensor() = default;  // no value at all: dtype none

  // Elements are not set (strings are empty). Host memory.
  Tensor(DType dtype, const Shape& shape);

  // Elements that lie elsewhere, for as long as `keep` lives.
  static Tensor view(DType dtype, const Shape& shape, void* data, std::shared_ptr<const void> keep);

  // One element, or a list of them.
  template <class T>
  static Tensor of(T value);
  template <class T>
  static Tensor of(std::span<const T> values);

  explicit operator bool() const noexcept { return dtype_ != DType::none; }
  DType dtype() const noexcept { return dtype_; }
  const Shape& shape() const noexcept { return shape_; }
  int rank() const noexcept { return shape_.rank(); }
  std::int64_t size() const noexcept { return shape_.size(); }
  std::size_t bytes() const noexcept {
    return static_cast<std::size_t>(size()) * sluice::bytes(dtype_);
  }
  void* data() const noexcept { return data_; }
  // Tensors that hold the same memory, this one too; more where it is part of something larger.
  long holders() const noexcept { return keep_.use_count(); }

  // T must be the C++ type of dtype().
  template <class T>
  std::span<T> values() const;

  // The contents of strings, `count` times `each` bytes, that are about to be written here: counted
  // as this tensor's memory is. Whoever repeats strings says so first; exhausted where there is no
  // room for them. Nothing where these are no strings, or a view.
  void hold(std::size_t count, std::size_t each) const;

  // The same elements, otherwise arranged. `shape` has as many.
  Tensor reshaped(const Shape& shape) const;

 private:
  struct Strings;

  std::shared_ptr<const void> keep_;
  void* data_ = nullptr;
  Strings* strings_ = nullptr;  // of those made here; `keep_` holds them
  Shape shape_;
  DType dtype_ = DType::none;
};

// Bytes of their contents, besides what a string holds in itself.
std::size_t held_by(std::span<const std::string> strings) noexcept;

// The C++ type of each DType's elements in memory, and back.
template <class T>
inline constexpr DType kDTypeOf = DType::none;
template <DType>
struct Element;
#define SLUICE_ELEMENT(TYPE, NAME)                     \
  template <>                                          \
  inline constexpr DType kDTypeOf<TYPE> = DType::NAME; \
  template <>                                          \
  struct Element<DType::NAME> {                        \
    using type = TYPE;                                 \
  };
SLUICE_ELEMENT(float, f32)
SLUICE_ELEMENT(std::uint8_t, u8)
SLUICE_ELEMENT(std::int8_t, i8)
SLUICE_ELEMENT(std::uint16_t, u16)
SLUICE_ELEMENT(std::int16_t, i16)
SLUICE_ELEMENT(std::int32_t, i32)
SLUICE_ELEMENT(std::int64_t, i64)
SLUICE_ELEMENT(std::string, string)
SLUICE_ELEMENT(bool, boolean)
SLUICE_ELEMENT(Half, f16)
SLUICE_ELEMENT(double, f64)
SLUICE_ELEMENT(std::uint32_t, u32)
SLUICE_ELEMENT(std::uint64_t, u64)
SLUICE_ELEMENT(BFloat16, bf16)
SLUICE_ELEMENT(Float8E4M3FN, f8e4m3fn)
SLUICE_ELEMENT(Float8E4M3FNUZ, f8e4m3fnuz)
SLUICE_ELEMENT(Float8E5M2, f8e5m2)
SLUICE_ELEMENT(Float8E5M2FNUZ, f8e5m2fnuz)
SLUICE_ELEMENT(UInt4, u4)
SLUICE_ELEMENT(Int4, i4)
SLUICE_ELEMENT(Float4E2M1, f4e2m1)
SLUICE_ELEMENT(Float8E8M0, f8e8m0)
SLUICE_ELEMENT(UInt2, u2)
SLUICE_ELEMENT(Int2, i2)
#undef SLUICE_ELEMENT

template <class T>
std::span<T> Tensor::values() const {
  assert(kDTypeOf<T> == dtype_);
  return {static_cast<T*>(data_), static_cast<std::size_t>(size())};
}

template <class T>
Tensor Tensor::of(T value) {
  Tensor tensor(kDTypeOf<T>, Shape());
  tensor.values<T>()[0] = std::move(value);
  return tensor;
}

template <class T>
Tensor Tensor::of(std::span<const T> values) {
  Tensor tensor(kDTypeOf<T>, Shape{static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.values<T>().begin());
  return tensor;
}

}  // namespace sluice
