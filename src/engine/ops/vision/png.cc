// PNG with libpng, which reports errors by longjmp: each call to it is a function of PngReader,
// with no object with a destructor between setjmp and longjmp.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "engine/ops/vision/pixels.h"

namespace sluice::engine {
namespace {

constexpr std::size_t kMaxInflation = 1032;  // deflate: at most 258 bytes per two bits

class PngReader {
 public:
  explicit PngReader(std::span<const std::uint8_t> file) : rest_(file) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  void read_header() {
    run([this] {
      png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
      if (png_ != nullptr) info_ = png_create_info_struct(png_);
      if (info_ == nullptr) fail("there is no memory for a decoder");
      // Texts and profiles are not inflated, because their memory would not be accounted.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_read_fn(png_, this, on_read);
      png_read_info(png_, info_);
    });
  }

  std::int64_t height() const { return png_get_image_height(png_, info_); }
  std::int64_t width() const { return png_get_image_width(png_, info_); }
  std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }

  // Converts any pixel format to 8-bit RGB.
  void convert() {
    run([this] {
      png_set_expand(png_);
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      png_set_gray_to_rgb(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
  }

  void read_rows(std::span<png_bytep> rows) {
    run([this, rows] { png_read_image(png_, rows.data()); });
  }

 private:
  [[noreturn]] void fail(const char* reason) {
    std::snprintf(reason_, sizeof reason_, "%s", reason);
    std::longjmp(back_, 1);
  }
  [[noreturn]] static void on_error(png_structp png, png_const_charp reason) {
    static_cast<PngReader*>(png_get_error_ptr(png))->fail(reason);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, std::size_t size) {
    auto* const reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > reader->rest_.size()) reader->fail("the image ends too early");
    std::memcpy(to, reader->rest_.data(), size);
    reader->rest_ = reader->rest_.subspan(size);
  }

  template <class Function>
  void run(const Function& function) {
    if (setjmp(back_) != 0) throw Error(Code::invalid_argument, std::string("libpng: ") + reason_);
    function();
  }

  std::span<const std::uint8_t> rest_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::jmp_buf back_{};
  char reason_[128]{};
};

}  // namespace

Pixels decode_png(std::span<const std::uint8_t> file) {
  PngReader reader(file);
  reader.read_header();
  Pixels pixels(reader.height(), reader.width());
  require(
      reader.row_bytes() <= kMaxInflation * file.size() / static_cast<std::size_t>(pixels.height()),
      "the image ends too early");
  reader.convert();
  require(reader.row_bytes() == static_cast<std::size_t>(pixels.width()) * 3,
          "the image has rows of another size than its header says");
  pixels.allocate();
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < pixels.height(); ++y) rows.push_back(pixels.row(y));
  reader.read_rows(rows);
  return pixels;
}

}  // namespace sluice::engine
