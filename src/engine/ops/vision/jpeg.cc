// JPEG with libjpeg-turbo, which reports errors by longjmp: each call to it is a function of
// JpegReader, with no object with a destructor between setjmp and longjmp.
// clang-format off
#include <cstdio>  // required by jpeglib.h
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>

#include "base/error.h"
#include "engine/ops/vision/pixels.h"

namespace sluice::engine {
namespace {

// A scan of a progressive file costs a pass over all coefficients, even if it has only a few bytes.
constexpr int kMaxScans = 100;

// Each 8 x 8 block has at least one Huffman code of at least one bit.
constexpr std::size_t kMaxPixelsPerByte = 8 * 64;

struct JpegErrors {
  jpeg_error_mgr manager;  // must be first: on_error casts a pointer to it
  std::jmp_buf back;
  char reason[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->reason);
  std::longjmp(errors->back, 1);
}

// Warnings are not printed. Missing data, for which libjpeg makes up pixels, is an error.
void on_message(j_common_ptr info, int level) {
  const bool warning = level < 0;
  const int code = info->err->msg_code;
  if (warning && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) on_error(info);
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->reason, sizeof errors->reason, "more than %d scans", kMaxScans);
  std::longjmp(errors->back, 1);
}

class JpegReader {
 public:
  JpegReader() {
    info_.err = jpeg_std_error(&errors_.manager);
    errors_.manager.error_exit = on_error;
    errors_.manager.emit_message = on_message;
    progress_.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }  // no effect if it was not created
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  void read_header(std::span<const std::uint8_t> file) {
    run([this, file] {
      jpeg_create_decompress(&info_);
      info_.progress = &progress_;
      jpeg_mem_src(&info_, file.data(), static_cast<unsigned long>(file.size()));
      jpeg_read_header(&info_, TRUE);
    });
  }

  // The memory that libjpeg allocates for the coefficients of multi-scan files.
  std::int64_t coefficient_bytes() {
    std::int64_t bytes = 0;
    if (!jpeg_has_multiple_scans(&info_)) return bytes;
    for (int i = 0; i < info_.num_components; ++i) {
      const jpeg_component_info& component = info_.comp_info[i];
      bytes += (std::int64_t{component.width_in_blocks} + component.h_samp_factor) *
               (std::int64_t{component.height_in_blocks} + component.v_samp_factor) *
               static_cast<std::int64_t>(sizeof(JBLOCK));
    }
    return bytes;
  }

  void read_pixels(const Pixels& to) {
    run([this, &to] {
      info_.out_color_space = JCS_RGB;
      jpeg_start_decompress(&info_);
      while (info_.output_scanline < info_.output_height) {
        JSAMPROW row = to.row(info_.output_scanline);
        jpeg_read_scanlines(&info_, &row, 1);
      }
    });
  }

  const jpeg_decompress_struct& info() const noexcept { return info_; }

 private:
  template <class Function>
  void run(const Function& function) {
    if (setjmp(errors_.back) != 0)
      throw Error(Code::invalid_argument, std::string("libjpeg: ") + errors_.reason);
    function();
  }

  jpeg_decompress_struct info_{};
  jpeg_progress_mgr progress_{};
  JpegErrors errors_{};
};

}  // namespace

Pixels decode_jpeg(std::span<const std::uint8_t> file) {
  JpegReader reader;
  reader.read_header(file);
  const int channels = reader.info().num_components;
  if (channels != 1 && channels != 3)
    not_decoded("a JPEG file of " + std::to_string(channels) + " channels");
  Pixels pixels(reader.info().image_height, reader.info().image_width);
  require(
      static_cast<std::size_t>(pixels.height() * pixels.width()) / kMaxPixelsPerByte <= file.size(),
      "the image ends too early");
  // Accounts for the memory of the coefficients.
  const Tensor reservation(DType::u8, Shape{reader.coefficient_bytes()});
  pixels.allocate();
  reader.read_pixels(pixels);
  return pixels;
}

}  // namespace sluice::engine
