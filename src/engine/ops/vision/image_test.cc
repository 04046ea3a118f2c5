// Decoding of image files. JPEG and PNG files are encoded here, so that their pixels are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "engine/ops/one_op_for_tests.h"

namespace sluice::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Tensor file_tensor(const std::string& file) {
  const std::vector<std::uint8_t> bytes(file.begin(), file.end());
  return tensor_of<std::uint8_t>({static_cast<std::int64_t>(bytes.size())}, bytes);
}
std::string refusal_of(const std::string& file) {
  return OneOp("ImageDecoder", 20).refusal({file_tensor(file)});
}
std::vector<int> pixels_of(const std::string& file, const std::string& format = "RGB") {
  const Tensor out =
      OneOp("ImageDecoder", 20).set("pixel_format", format).run({file_tensor(file)})[0];
  const auto bytes = list_of<std::uint8_t>(out);
  return {bytes.begin(), bytes.end()};
}

std::string big_endian(std::uint32_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
  return out;
}

// ---- PNG: chunks, with stored (uncompressed) deflate blocks ----------------------------------

std::uint32_t crc32_of(const std::string& bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<std::uint8_t>(byte);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1)));
  }
  return ~crc;
}

std::string chunk(const std::string& name, const std::string& data) {
  return big_endian(static_cast<std::uint32_t>(data.size()), 4) + name + data +
         big_endian(crc32_of(name + data), 4);
}

std::string stored(const std::string& data) {
  constexpr std::size_t kBlock = 65535;
  std::string out = "\x78\x01";
  for (std::size_t at = 0; at < data.size(); at += kBlock) {
    const std::string part = data.substr(at, kBlock);
    const auto size = static_cast<std::uint32_t>(part.size());
    out += static_cast<char>(at + kBlock >= data.size());
    for (const std::uint32_t value : {size, ~size})
      out += {static_cast<char>(value), static_cast<char>(value >> 8)};
    out += part;
  }
  std::uint32_t a = 1, b = 0;
  for (const char byte : data) {
    a = (a + static_cast<std::uint8_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return out + big_endian(b << 16 | a, 4);
}

enum Colour { kGrey = 0, kRgb = 2, kPalette = 3, kRgba = 6 };

// Each row of `rows` starts with its filter byte.
std::string png(std::uint32_t width, std::uint32_t height, int bits, Colour colour,
                const std::string& rows, const std::string& before = "", bool interlaced = false) {
  const std::string header = big_endian(width, 4) + big_endian(height, 4) +
                             static_cast<char>(bits) + static_cast<char>(colour) +
                             std::string(2, '\0') + static_cast<char>(interlaced);
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + before + chunk("IDAT", stored(rows)) +
         chunk("IEND", "");
}

std::string bytes_of(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out += static_cast<char>(value);
  return out;
}

TEST(PngTest, EveryPixelFormatIsConvertedToRgb) {
  EXPECT_THAT(pixels_of(png(2, 1, 8, kRgb, bytes_of({0, 1, 2, 3, 250, 251, 252}))),
              ElementsAre(1, 2, 3, 250, 251, 252));
  EXPECT_THAT(pixels_of(png(1, 2, 8, kGrey, bytes_of({0, 7, 0, 200}))),
              ElementsAre(7, 7, 7, 200, 200, 200));
  EXPECT_THAT(pixels_of(png(2, 1, 1, kGrey, bytes_of({0, 0x40}))),
              ElementsAre(0, 0, 0, 255, 255, 255));
  EXPECT_THAT(pixels_of(png(1, 1, 16, kRgb, bytes_of({0, 1, 255, 2, 128, 3, 127}))),
              ElementsAre(1, 2, 3));
  const std::string palette = chunk("PLTE", bytes_of({9, 8, 7, 6, 5, 4}));
  EXPECT_THAT(pixels_of(png(2, 1, 4, kPalette, bytes_of({0, 0x10}), palette)),
              ElementsAre(6, 5, 4, 9, 8, 7));
}

TEST(PngTest, AlphaIsDropped) {
  EXPECT_THAT(pixels_of(png(1, 1, 8, kRgba, bytes_of({0, 10, 20, 30, 0}))),
              ElementsAre(10, 20, 30));
  const std::string palette =
      chunk("PLTE", bytes_of({9, 8, 7})) + chunk("tRNS", std::string(1, '\0'));
  EXPECT_THAT(pixels_of(png(1, 1, 8, kPalette, bytes_of({0, 0}), palette)), ElementsAre(9, 8, 7));
}

TEST(PngTest, InterlacedPassesAreMerged) {
  // Pass 1 has (0, 0), pass 6 has (0, 1), pass 7 has the second row.
  const std::string passes = bytes_of({0, 1, 0, 2, 0, 3, 4});
  EXPECT_THAT(pixels_of(png(2, 2, 8, kGrey, passes, "", true)),
              ElementsAre(1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4));
}

TEST(PngTest, MalformedFilesAreRejected) {
  const std::string good = png(2, 1, 8, kRgb, bytes_of({0, 1, 2, 3, 4, 5, 6}));
  for (std::size_t n = 8; n + 12 < good.size(); ++n)  // IEND may be missing
    EXPECT_THAT(refusal_of(good.substr(0, n)), HasSubstr("ImageDecoder node: libpng: ")) << n;
  EXPECT_THAT(refusal_of(good.substr(0, 60)), HasSubstr("the image ends too early"));
  std::string wrong = good;
  wrong[32] ^= 1;
  EXPECT_THAT(refusal_of(wrong), HasSubstr("CRC"));
  EXPECT_THAT(refusal_of(png(2, 2, 8, kRgb, bytes_of({0, 1, 2, 3, 4, 5, 6}))),
              HasSubstr("Not enough image data"));
  EXPECT_THAT(refusal_of("\x89PNG...."), HasSubstr("libpng"));
}

TEST(PngTest, DimensionsAreCheckedAgainstTheFileSize) {
  EXPECT_THAT(refusal_of(png(30'000, 30'000, 8, kRgb, "")), HasSubstr("the image ends too early"));
  EXPECT_THAT(refusal_of(png(40'000, 1, 8, kRgb, "")), HasSubstr("an image of 1 by 40000"));
  const Tensor file = file_tensor(png(600, 600, 8, kGrey, std::string(601 * 600, '\0')));
  EXPECT_EQ(OneOp("ImageDecoder", 20).refusal({file}), "accepted");
  const TensorMemory limit(limited_memory(1 << 20));
  EXPECT_NE(OneOp("ImageDecoder", 20).refusal({file}), "accepted");
}

TEST(PngTest, CompressedTextChunksAreIgnored) {
  const std::string text = chunk("zTXt", std::string("k\0\0", 3) + stored(std::string(99, 'x')));
  EXPECT_THAT(pixels_of(png(1, 1, 8, kGrey, bytes_of({0, 5}), text + text)), ElementsAre(5, 5, 5));
}

// ---- JPEG: blocks with a DC coefficient only -------------------------------------------------

std::string segment(int marker, const std::string& data) {
  return bytes_of({0xFF, marker}) + big_endian(static_cast<std::uint32_t>(data.size() + 2), 2) +
         data;
}

class Bits {
 public:
  void add(std::uint32_t value, int count) {
    for (int i = count - 1; i >= 0; --i) bits_ += static_cast<char>('0' + (value >> i & 1));
  }
  std::string text() const {
    std::string all = bits_ + std::string((8 - bits_.size() % 8) % 8, '1'), out;
    for (std::size_t at = 0; at < all.size(); at += 8) {
      out += static_cast<char>(std::stoi(all.substr(at, 8), nullptr, 2));
      if (static_cast<std::uint8_t>(out.back()) == 0xFF) out += '\0';
    }
    return out;
  }

 private:
  std::string bits_;
};

struct Jpeg {
  std::uint32_t width = 8, height = 8;
  std::vector<int> levels{80};  // per channel, relative to 128: 0, or +-64 to +-127
  bool progressive = false;
  int scans = 1;  // AC scans, if progressive
};

std::string scan(const std::vector<int>& channels, int first, int last, const std::string& data) {
  std::string header(1, static_cast<char>(channels.size()));
  for (const int c : channels) header += bytes_of({c, 0});
  return segment(0xDA, header + bytes_of({first, last, 0})) + data;
}

// One block. The quantization step is 1, so that the DC coefficient is 8 times the level.
std::string jpeg(const Jpeg& of) {
  const auto count = static_cast<int>(of.levels.size());
  std::string out = "\xFF\xD8" + segment(0xDB, std::string(1, '\0') + std::string(64, '\1'));
  std::string frame = bytes_of({8}) + big_endian(of.height, 2) + big_endian(of.width, 2);
  frame += static_cast<char>(count);
  for (int c = 0; c < count; ++c) frame += bytes_of({c, 0x11, 0});
  out += segment(of.progressive ? 0xC2 : 0xC0, frame);
  // Huffman codes: DC "0" for zero and "10" for ten bits; AC "0" for end of block.
  std::string dc_table = bytes_of({0x00, 1, 1}) + std::string(14, '\0') + bytes_of({0, 10});
  std::string ac_table = bytes_of({0x10, 1}) + std::string(15, '\0') + bytes_of({0});
  out += segment(0xC4, dc_table) + segment(0xC4, ac_table);
  Bits bits, end;
  end.add(0, 1);
  std::vector<int> all;
  for (int c = 0; c < count; ++c) {
    const int dc = of.levels[static_cast<std::size_t>(c)] * 8;
    if (dc == 0) {
      bits.add(0, 1);
    } else {
      bits.add(2, 2);
      bits.add(static_cast<std::uint32_t>(dc > 0 ? dc : dc + 1023), 10);
    }
    if (!of.progressive) bits.add(0, 1);
    all.push_back(c);
  }
  out += scan(all, 0, of.progressive ? 0 : 63, bits.text());
  if (of.progressive)
    for (int i = 0; i < of.scans; ++i) out += scan({i % count}, 1, 63, end.text());
  return out + "\xFF\xD9";
}

std::vector<int> first_pixel(const std::string& file, const std::string& format = "RGB") {
  std::vector<int> pixels = pixels_of(file, format);
  pixels.resize(format == "Grayscale" ? 1 : 3);
  return pixels;
}

TEST(JpegTest, YCbCrIsConvertedToRgb) {
  for (const bool progressive : {false, true}) {
    const auto colour = [&](std::vector<int> levels, const std::string& format) {
      return first_pixel(jpeg({.levels = std::move(levels), .progressive = progressive}), format);
    };
    EXPECT_THAT(colour({80}, "RGB"), ElementsAre(208, 208, 208));
    EXPECT_THAT(colour({-80}, "Grayscale"), ElementsAre(48));
    // 128 + 1.402 Cr, 128 - 0.344136 Cb - 0.714136 Cr and 128 + 1.772 Cb, clamped to 0 to 255.
    EXPECT_THAT(colour({0, 80, 0}, "RGB"), ElementsAre(128, 100, 255));
    EXPECT_THAT(colour({0, 0, -80}, "RGB"), ElementsAre(16, 185, 128));
    EXPECT_THAT(colour({0, 0, -80}, "BGR"), ElementsAre(128, 185, 16));
  }
}

TEST(JpegTest, PartialBlocksAreCropped) {
  EXPECT_EQ(pixels_of(jpeg({.width = 3, .height = 5})), std::vector<int>(45, 208));
}

TEST(JpegTest, TruncatedFilesAreRejected) {
  for (const Jpeg& of : {Jpeg{}, Jpeg{.levels = {0, 80, 80}, .progressive = true, .scans = 3}}) {
    const std::string good = jpeg(of);
    EXPECT_EQ(refusal_of(good), "accepted");
    for (std::size_t n = 2; n + 2 < good.size(); ++n)
      EXPECT_THAT(refusal_of(good.substr(0, n)), HasSubstr("ImageDecoder node: libjpeg: ")) << n;
    EXPECT_THAT(refusal_of(good.substr(0, good.size() - 3)), HasSubstr("Premature end"));
  }
  std::string wide = jpeg({.width = 16});  // a block is missing before the EOI marker
  EXPECT_THAT(refusal_of(wide), HasSubstr("premature end of data segment"));
}

TEST(JpegTest, UnsupportedChannelCountsAreReported) {
  EXPECT_THAT(refusal_of(jpeg({.levels = {80, 80, 80, 80}})),
              HasSubstr("a JPEG file of 4 channels is not decoded"));
}

TEST(JpegTest, DimensionsAreCheckedAgainstTheFileSize) {
  EXPECT_THAT(refusal_of(jpeg({.width = 30'000, .height = 30'000})),
              HasSubstr("the image ends too early"));
  EXPECT_THAT(refusal_of(jpeg({.width = 40'000})), HasSubstr("an image of 8 by 40000"));
}

TEST(JpegTest, ProgressiveCoefficientsAreAccounted) {
  const std::string padding(2000 * 2000 / 512, '\0');
  const TensorMemory limit(limited_memory(16 << 20));  // 12 MB of pixels, 8 MB of coefficients
  EXPECT_THAT(refusal_of(jpeg({.width = 2000, .height = 2000}) + padding), HasSubstr("libjpeg"));
  EXPECT_THAT(refusal_of(jpeg({.width = 2000, .height = 2000, .progressive = true}) + padding),
              AllOf(HasSubstr("ImageDecoder"), Not(HasSubstr("libjpeg"))));
}

TEST(JpegTest, ScansAreLimited) {
  EXPECT_EQ(refusal_of(jpeg({.progressive = true, .scans = 90})), "accepted");
  EXPECT_THAT(refusal_of(jpeg({.progressive = true, .scans = 500})),
              HasSubstr("more than 100 scans"));
}

// ---- all formats -----------------------------------------------------------------------------

TEST(ImageTest, CorruptedBytesGiveAnImageOrAnErrorAndPrintNothing) {
  ::testing::internal::CaptureStderr();
  const std::string palette = chunk("PLTE", bytes_of({9, 8, 7}));
  for (const std::string& good :
       {jpeg({.levels = {0, 80, 80}}), jpeg({.levels = {0, 80, 80}, .progressive = true}),
        png(1, 1, 8, kPalette, bytes_of({0, 0}), palette)})
    for (std::size_t at = 2; at < good.size(); ++at)
      for (const char flip : {'\x01', '\x80', '\xFF'}) {
        std::string wrong = good;
        wrong[at] = static_cast<char>(wrong[at] ^ flip);
        const std::string refusal = refusal_of(wrong);
        EXPECT_GE(refusal.size(), 8u);
      }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ImageTest, GrayscaleUsesLumaWeights) {
  EXPECT_THAT(pixels_of("P3 # red, green\n2 1 255\n255 0 0  0 255 0 ", "Grayscale"),
              ElementsAre(76, 150));
}

TEST(ImageTest, MalformedFilesAreRejected) {
  EXPECT_THAT(refusal_of("BM"), HasSubstr("ImageDecoder node: the image ends too early"));
  EXPECT_THAT(refusal_of("P6 2 2 255\nabc"), HasSubstr("ends too early"));
  EXPECT_THAT(refusal_of("P6 99999999 99999999 255\n"), HasSubstr("an image of"));
  EXPECT_THAT(refusal_of(std::string("II*\0\xff\xff\xff\xff", 8)), HasSubstr("ends too early"));
  EXPECT_THAT(refusal_of("RIFF....WEBP"), HasSubstr("WebP is not decoded"));
  EXPECT_THAT(refusal_of(""), HasSubstr("not decoded"));
}

}  // namespace
}  // namespace sluice::engine
