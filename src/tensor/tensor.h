// A tensor in row-major order. Copies share the elements; only the creator of a tensor writes to
// it, before it is shared.
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

// Scoped allocator: while it lives, tensors created by this thread allocate from `from`, which they
// keep alive. The default allocator is limited to four fifths of the memory of the machine or of
// the control group, because the system overcommits.
class TensorMemory {
 public:
  explicit TensorMemory(std::shared_ptr<memory::Allocator> from);
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

 private:
  std::shared_ptr<memory::Allocator> before_;
};

// An allocator of system memory, limited to `max_bytes`.
std::shared_ptr<memory::Allocator> limited_memory(std::size_t max_bytes);

class Tensor {
 public:
  Tensor() = default;  // no value: dtype none

  // Host memory, uninitialized (strings are empty).
  Tensor(DType dtype, const Shape& shape);

  // A view of external memory, which `keep` owns.
  static Tensor view(DType dtype, const Shape& shape, void* data, std::shared_ptr<const void> keep);

  // A scalar, or a 1-D tensor.
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
  // The number of tensors sharing the memory, including this one; more if it is a view of a larger
  // block.
  long holders() const noexcept { return keep_.use_count(); }

  // Requires T to be the C++ type of dtype().
  template <class T>
  std::span<T> values() const;

  // Accounts for `count` times `each` bytes of string contents that are about to be written here.
  // Call it before repeating strings. Throws exhausted if memory is not sufficient. No effect for
  // views and other types.
  void reserve_string_bytes(std::size_t count, std::size_t each) const;

  // The same elements with another shape of equal size.
  Tensor reshaped(const Shape& shape) const;

 private:
  struct Strings;

  std::shared_ptr<const void> keep_;
  void* data_ = nullptr;
  Strings* strings_ = nullptr;  // for strings created here; owned by `keep_`
  Shape shape_;
  DType dtype_ = DType::none;
};

// Heap bytes of the contents, besides the string objects.
std::size_t string_bytes(std::span<const std::string> strings) noexcept;

// Maps between each DType and the C++ type of its elements.
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
