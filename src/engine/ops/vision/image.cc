// ImageDecoder: JPEG by libjpeg-turbo, PNG by libpng; BMP, PNM and uncompressed TIFF here.
#include <array>

#include "engine/ops/families.h"
#include "engine/ops/vision/pixels.h"

namespace sluice::engine {
namespace {

// Allocates the pixels of an image and writes them in row-major order.
class PixelWriter {
 public:
  explicit PixelWriter(Pixels& pixels) {
    pixels.allocate();
    next_ = pixels.row(0);
  }
  void add(std::uint8_t r, std::uint8_t g, std::uint8_t b) {
    *next_++ = r;
    *next_++ = g;
    *next_++ = b;
  }

 private:
  std::uint8_t* next_;
};

// Bounds-checked reads of integers from a file.
class File {
 public:
  File(std::span<const std::uint8_t> bytes, bool big_end) : bytes_(bytes), big_end_(big_end) {}

  std::uint32_t number(std::size_t at, std::size_t size) const {
    require(at <= bytes_.size() && size <= bytes_.size() - at, "the image ends too early");
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 | bytes_[at + (big_end_ ? i : size - 1 - i)];
    return value;
  }
  std::span<const std::uint8_t> bytes(std::size_t at, std::size_t size) const {
    require(at <= bytes_.size() && size <= bytes_.size() - at, "the image ends too early");
    return bytes_.subspan(at, size);
  }

 private:
  std::span<const std::uint8_t> bytes_;
  bool big_end_;
};

// BMP rows are stored bottom-up unless the height is negative, padded to four bytes.
Pixels decode_bmp(std::span<const std::uint8_t> data) {
  const File file(data, false);
  const std::size_t start = file.number(10, 4);
  const auto width = static_cast<std::int32_t>(file.number(18, 4));
  const auto height = static_cast<std::int32_t>(file.number(22, 4));
  const std::size_t bits = file.number(28, 2);
  const std::uint32_t compression = file.number(30, 4);
  if (compression != 0 || (bits != 8 && bits != 24 && bits != 32))
    not_decoded("a BMP file of " + std::to_string(bits) + " bits, compression " +
                std::to_string(compression));
  Pixels pixels(std::abs(std::int64_t{height}), width);
  const std::size_t each = bits / 8, palette = 14 + file.number(14, 4);
  const auto columns = static_cast<std::size_t>(pixels.width());
  const std::size_t row = (columns * each + 3) / 4 * 4;
  file.bytes(start, row * (static_cast<std::size_t>(pixels.height()) - 1) + columns * each);
  PixelWriter to(pixels);
  for (std::int64_t y = 0; y < pixels.height(); ++y) {
    const std::int64_t line = height < 0 ? y : pixels.height() - 1 - y;
    for (std::size_t x = 0; x < columns; ++x) {
      std::size_t at = start + static_cast<std::size_t>(line) * row + x * each;
      if (each == 1) at = palette + 4 * file.number(at, 1);
      const auto bgr = file.bytes(at, 3);
      to.add(bgr[2], bgr[1], bgr[0]);
    }
  }
  return pixels;
}

// The next number of a PNM file's text; comments run from # to the end of a line.
std::uint32_t next_number(std::span<const std::uint8_t> data, std::size_t& at) {
  const auto space = [](std::uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (at < data.size() && (space(data[at]) || data[at] == '#')) {
    if (data[at] == '#')
      while (at < data.size() && data[at] != '\n') ++at;
    else
      ++at;
  }
  std::uint32_t value = 0;
  std::size_t digits = 0;
  for (; at < data.size() && data[at] >= '0' && data[at] <= '9' && digits < 8; ++at, ++digits)
    value = value * 10 + (data[at] - '0');
  require(digits > 0, "a number is missing in the image");
  return value;
}

// P2 and P3 are text, P5 and P6 binary; grey and RGB.
Pixels decode_pnm(std::span<const std::uint8_t> data) {
  const std::uint8_t kind = data[1];
  const bool text = kind == '2' || kind == '3', grey = kind == '2' || kind == '5';
  std::size_t at = 2;
  const std::int64_t width = next_number(data, at), height = next_number(data, at);
  const std::uint32_t max = next_number(data, at);
  require(max > 0 && max < 65536, "a largest value of " + std::to_string(max));
  const File file(data, true);
  ++at;  // the single whitespace after the header
  Pixels pixels(height, width);
  const std::size_t channels = grey ? 1 : 3, bytes = max > 255 ? 2 : 1;
  const auto count = static_cast<std::size_t>(height * width);
  file.bytes(at, text ? count * channels : count * channels * bytes);
  PixelWriter to(pixels);
  for (std::size_t i = 0; i < count; ++i) {
    std::array<std::uint8_t, 3> rgb{};
    for (std::size_t c = 0; c < channels; ++c) {
      const std::uint32_t value = text ? next_number(data, at) : file.number(at, bytes);
      if (!text) at += bytes;
      rgb[c] = static_cast<std::uint8_t>(std::min(value, max) * 255 / max);
    }
    to.add(rgb[0], rgb[grey ? 0 : 1], rgb[grey ? 0 : 2]);
  }
  return pixels;
}

// The first image file directory of a TIFF file.
struct Tags {
  std::uint32_t width = 0, height = 0, bits = 8, compression = 1, channels = 1, rows = 0xffffffff;
  std::uint32_t photometric = 1, planar = 1;
  std::vector<std::uint32_t> strips{};
};

std::vector<std::uint32_t> tag_values(const File& file, std::size_t entry) {
  const std::size_t size = file.number(entry + 2, 2) == 3 ? 2 : 4;  // SHORT, or LONG
  const std::size_t count = file.number(entry + 4, 4);
  const std::size_t at = count * size <= 4 ? entry + 8 : file.number(entry + 8, 4);
  file.bytes(at, count * size);
  std::vector<std::uint32_t> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(file.number(at + i * size, size));
  require(!values.empty(), "a tag of the image has no value");
  return values;
}

Tags read_tags(const File& file) {
  Tags tags;
  const std::size_t start = file.number(4, 4), count = file.number(start, 2);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = start + 2 + i * 12;
    const std::uint32_t type = file.number(entry + 2, 2);
    if (type != 3 && type != 4) continue;
    const auto first = [&] { return tag_values(file, entry)[0]; };
    switch (file.number(entry, 2)) {
      case 256: tags.width = first(); break;
      case 257: tags.height = first(); break;
      case 258: tags.bits = first(); break;
      case 259: tags.compression = first(); break;
      case 262: tags.photometric = first(); break;
      case 273: tags.strips = tag_values(file, entry); break;
      case 277: tags.channels = first(); break;
      case 278: tags.rows = first(); break;
      case 284: tags.planar = first(); break;
      default: break;
    }
  }
  return tags;
}

Pixels decode_tiff(std::span<const std::uint8_t> data) {
  const File file(data, data[0] == 'M');
  const Tags tags = read_tags(file);
  if (tags.compression != 1 || tags.bits != 8 || tags.planar != 1 || tags.photometric < 1 ||
      tags.photometric > 2)
    not_decoded("a TIFF file of compression " + std::to_string(tags.compression) + " and " +
                std::to_string(tags.bits) + " bits");
  Pixels pixels(tags.height, tags.width);
  const std::size_t row = std::size_t{tags.width} * tags.channels;
  require(tags.channels >= (tags.photometric == 2 ? 3u : 1u) && tags.channels <= 4 && tags.rows > 0,
          "an image of " + std::to_string(tags.channels) + " channels");
  // Overlapping strips would let a small file produce a large image.
  require(row <= data.size() / tags.height, "the image ends too early");
  PixelWriter to(pixels);
  for (std::size_t y = 0; y < tags.height; ++y) {
    require(y / tags.rows < tags.strips.size(), "the image ends too early");
    const auto line = file.bytes(tags.strips[y / tags.rows] + y % tags.rows * row, row);
    for (std::size_t x = 0; x < line.size(); x += tags.channels)
      to.add(line[x], line[x + (tags.photometric == 2 ? 1 : 0)],
             line[x + (tags.photometric == 2 ? 2 : 0)]);
  }
  return pixels;
}

Pixels decode(std::span<const std::uint8_t> data) {
  const auto begins = [&](std::string_view with) {
    return data.size() >= with.size() &&
           std::equal(with.begin(), with.end(), data.begin(),
                      [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
  };
  if (begins("\xff\xd8")) return decode_jpeg(data);
  if (begins("\x89PNG")) return decode_png(data);
  if (begins("BM")) return decode_bmp(data);
  if (begins("P2") || begins("P3") || begins("P5") || begins("P6")) return decode_pnm(data);
  if (begins(std::string_view("II*\0", 4)) || begins(std::string_view("MM\0*", 4)))
    return decode_tiff(data);
  if (begins("RIFF")) not_decoded("WebP");
  if (begins(std::string_view("\0\0\0\x0cjP", 6))) not_decoded("JPEG 2000");
  not_decoded("this image format");
}

void image_decoder(OpCall& call) {
  const Tensor& data = call.input(0);
  require(data.rank() == 1, "a file is one row of bytes");
  const std::string format = call.attributes().string("pixel_format", "RGB");
  require(format == "RGB" || format == "BGR" || format == "Grayscale",
          "pixel_format '" + format + "' is not known");
  const Pixels pixels = decode(as<std::uint8_t>(data));
  const bool grey = format == "Grayscale", bgr = format == "BGR";
  const Tensor out =
      call.output(0, DType::u8, Shape{pixels.height(), pixels.width(), grey ? 1 : 3});
  auto to = as<std::uint8_t>(out).begin();
  const auto all = pixels.rgb();
  for (std::size_t i = 0; i < all.size(); i += 3) {
    const std::uint8_t* const rgb = all.data() + i;
    if (grey) {  // ITU-R 601 luma weights in 16 bits
      *to++ = static_cast<std::uint8_t>(
          (rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
      continue;
    }
    *to++ = rgb[bgr ? 2 : 0];
    *to++ = rgb[1];
    *to++ = rgb[bgr ? 0 : 2];
  }
}

constexpr Op kImageOps[] = {{"ImageDecoder", 20, {DType::u8}, image_decoder}};

}  // namespace

Pixels::Pixels(std::int64_t height, std::int64_t width) : height_(height), width_(width) {
  require(height > 0 && width > 0 && height <= kMaxSide && width <= kMaxSide,
          "an image of " + std::to_string(height) + " by " + std::to_string(width));
}

void not_decoded(const std::string& what) {
  throw Error(Code::unavailable,
              what + " is not decoded: only BMP, JPEG, PNG, PNM and uncompressed TIFF are");
}

std::span<const Op> image_ops() { return kImageOps; }

}  // namespace sluice::engine
