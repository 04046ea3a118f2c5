// Decoders of image files. Each throws invalid_argument if the file is malformed or truncated,
// unavailable for unsupported variants, and exhausted if there is not enough memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace sluice::engine {

// An 8-bit RGB image. Its memory is accounted as tensor memory.
class Pixels {
 public:
  // Throws invalid_argument unless both sides are from 1 to kMaxSide. Allocates nothing, so that a
  // decoder can check the size against the length of the file first.
  Pixels(std::int64_t height, std::int64_t width);

  static constexpr std::int64_t kMaxSide = 1 << 15;  // pixels

  std::int64_t height() const noexcept { return height_; }
  std::int64_t width() const noexcept { return width_; }

  void allocate() { rgb_ = Tensor(DType::u8, Shape{height_, width_, 3}); }
  std::uint8_t* row(std::int64_t y) const {
    return static_cast<std::uint8_t*>(rgb_.data()) + y * width_ * 3;
  }
  std::span<const std::uint8_t> rgb() const { return rgb_.values<std::uint8_t>(); }

 private:
  std::int64_t height_, width_;
  Tensor rgb_;
};

// Throws unavailable.
[[noreturn]] void not_decoded(const std::string& what);

// JPEG of one or three channels, with the defaults of libjpeg-turbo: accurate integer IDCT and
// fancy chroma upsampling, as ONNX specifies.
Pixels decode_jpeg(std::span<const std::uint8_t> file);

// PNG. Alpha is dropped, and 16-bit samples are truncated to their upper eight bits.
Pixels decode_png(std::span<const std::uint8_t> file);

}  // namespace sluice::engine
