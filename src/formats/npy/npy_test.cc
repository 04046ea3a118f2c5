#include "formats/npy/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"

namespace sluice::npy {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file in the layout of numpy.save, with any dictionary.
std::string file_with(std::string_view dictionary, std::string_view data, char version = 1) {
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  const std::size_t length = dictionary.size();
  for (std::size_t i = 0; i < (version == 1 ? 2u : 4u); ++i)
    text += static_cast<char>(length >> (8 * i) & 0xff);
  return text.append(dictionary).append(data);
}

std::string array_of(std::string_view descr, std::string_view shape, std::string_view data,
                     bool fortran = false) {
  return file_with("{'descr': '" + std::string(descr) + "', 'fortran_order': " +
                       (fortran ? "True" : "False") + ", 'shape': " + std::string(shape) + ", }",
                   data);
}

Tensor parse_text(std::string text) {
  const auto keep = std::make_shared<std::string>(std::move(text));
  return parse(*keep, keep);
}

std::string refusal(const std::string& text) {
  try {
    parse_text(text);
  } catch (const Error& error) {
    return std::string(error.reason());
  }
  return "accepted";
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(T)};
}

TEST(NpyTest, ArraysMatchTheFile) {
  const Tensor tensor = parse_text(array_of("<f4", "(2, 3)", raw<float>({1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(tensor.dtype(), DType::f32);
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_THAT(tensor.values<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  const Tensor scalar = parse_text(array_of("<i8", "()", raw<std::int64_t>({-7})));
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_THAT(scalar.values<std::int64_t>(), ElementsAre(-7));
}

TEST(NpyTest, VersionsTwoAndThreeHaveLongerHeaders) {
  for (const char version : {'\2', '\3'}) {
    const Tensor tensor =
        parse_text(file_with("{'shape': (2L,), 'fortran_order': False, 'descr': '<u2'}\n",
                             raw<std::uint16_t>({5, 6}), version));
    EXPECT_THAT(tensor.values<std::uint16_t>(), ElementsAre(5, 6));
  }
}

TEST(NpyTest, BigEndianFilesAreConverted) {
  EXPECT_THAT(parse_text(array_of(">i4", "(2,)", std::string("\0\0\0\1\0\0\1\0", 8)))
                  .values<std::int32_t>(),
              ElementsAre(1, 256));
  const Tensor complex =
      parse_text(array_of(">c8", "(1,)", std::string("\x3f\x80\0\0\x40\0\0\0", 8)));
  EXPECT_THAT(std::span(static_cast<float*>(complex.data()), 2), ElementsAre(1, 2));
}

TEST(NpyTest, ColumnMajorArraysAreConverted) {
  const Tensor tensor =
      parse_text(array_of("<i2", "(2, 3)", raw<std::int16_t>({1, 4, 2, 5, 3, 6}), true));
  EXPECT_EQ(tensor.shape(), (Shape{2, 3}));
  EXPECT_THAT(tensor.values<std::int16_t>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(NpyTest, ByteAndUnicodeStringsAreStrings) {
  EXPECT_THAT(parse_text(array_of("|S3", "(2,)", std::string("ab\0xyz", 6))).values<std::string>(),
              ElementsAre("ab", "xyz"));
  const Tensor wide =
      parse_text(array_of("<U2", "(1,)", raw<char32_t>({U'\u00e9', U'\U0001f600'})));
  EXPECT_THAT(wide.values<std::string>(), ElementsAre("\u00e9\U0001f600"));
}

TEST(NpyTest, WrittenFilesReadBackEqual) {
  const Tensor numbers = Tensor::of<double>(std::vector<double>{1.5, -2, 1e300}).reshaped({3, 1});
  const Tensor again = parse_text(format(numbers));
  EXPECT_EQ(again.shape(), numbers.shape());
  EXPECT_THAT(again.values<double>(), ElementsAre(1.5, -2, 1e300));
  const Tensor texts =
      Tensor::of<std::string>(std::vector<std::string>{"", "h\u00e9", "\U0001f600"});
  EXPECT_THAT(parse_text(format(texts)).values<std::string>(),
              ElementsAre("", "h\u00e9", "\U0001f600"));
  EXPECT_EQ(parse_text(format(Tensor(DType::boolean, Shape{0, 4}))).shape(), (Shape{0, 4}));
}

TEST(NpyTest, ElementsAreAlignedTo64Bytes) {
  for (const Shape& shape : {Shape{}, Shape{3}, Shape{1, 2, 3, 4, 5, 6, 7, 8}}) {
    const Tensor tensor(DType::u8, shape);
    EXPECT_EQ((format(tensor).size() - tensor.bytes()) % 64, 0u) << to_string(shape);
  }
}

TEST(NpyTest, TypesThatNumPyLacksAreWidened) {
  const Tensor narrow = Tensor::of<BFloat16>(BFloat16(1.5f));
  const Tensor wide = parse_text(format(narrow));
  EXPECT_EQ(wide.dtype(), DType::f32);
  EXPECT_EQ(wide.values<float>()[0], 1.5f);
  EXPECT_EQ(parse_text(format(Tensor::of<Int4>(Int4(-3)))).values<std::int8_t>()[0], -3);
}

TEST(NpyTest, UnsupportedFilesAreRejectedWithAdvice) {
  EXPECT_THAT(refusal(array_of("|O", "(1,)", "x")), HasSubstr("astype('float32')"));
  EXPECT_THAT(refusal(array_of("<V2", "(1,)", "xx")), HasSubstr("'<V2' has no counterpart"));
  EXPECT_THAT(
      refusal(file_with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "0000")),
      HasSubstr("save each field"));
  EXPECT_THAT(refusal("PK\3\4"), HasSubstr("numpy.save writes them"));
}

TEST(NpyTest, HostileHeadersCostNothing) {
  EXPECT_THAT(refusal(array_of("<f4", "(1000000000000,)", "0000")), HasSubstr("it is cut off"));
  EXPECT_THAT(refusal(array_of("<f4", "(4294967296, 4294967296)", "")),
              HasSubstr("more elements than memory"));
  EXPECT_THAT(refusal(array_of("|S0", "(1000000000000,)", "")), HasSubstr("bytes of data"));
  EXPECT_THAT(refusal(array_of("<f4", "(-1,)", "")), HasSubstr("something else than a size"));
  EXPECT_THAT(refusal(array_of("<f4", "(2,)", "000000000")), HasSubstr("9 bytes of data"));
  EXPECT_THAT(refusal(file_with("{'descr': '<f4', 'descr': '<f4'", "")), HasSubstr("too many"));
  EXPECT_THAT(refusal("\x93NUMPY\2" + std::string("\0\xff\xff\xff\xff", 5)), HasSubstr("claims"));
  EXPECT_THAT(refusal(array_of("<U1", "(1,)", raw<std::uint32_t>({0xd800}))),
              HasSubstr("an invalid code point"));
}

TEST(NpyTest, OverflowingSizesAreRejected) {
  EXPECT_THAT(refusal(array_of("<i8", "(288230376151711745,)", "12345678")), HasSubstr("cut off"));
  EXPECT_THAT(refusal(array_of("<i8", "(2305843009213693953,)", "12345678")), HasSubstr("memory"));
  EXPECT_THAT(refusal(array_of("|u1", "(4294967296, 4294967296)", "")), HasSubstr("memory"));
  EXPECT_THAT(refusal(array_of("<U16777216", "(549755813889,)", "")), HasSubstr("memory"));
  EXPECT_THAT(refusal(array_of("<U0", "(1000000,)", "")), HasSubstr("0 bytes of data"));
  EXPECT_THAT(refusal(array_of("<f4", "(4611686018427387904, 8, 0)", "", true)),
              HasSubstr("memory"));
}

TEST(NpyTest, FilesAreNamedInErrors) {
  const fs::path file = fs::temp_directory_path() / ("npy-test-" + std::to_string(::getpid()));
  write(file, Tensor::of<float>(2.5f));
  EXPECT_EQ(read(file).values<float>()[0], 2.5f);
  std::ofstream(file) << "nothing of the kind";
  try {
    read(file);
    ADD_FAILURE() << "it was read";
  } catch (const Error& error) {
    EXPECT_THAT(std::string(error.reason()), HasSubstr(file.string() + ": this is no .npy file"));
  }
  EXPECT_THROW(write(file / "below.npy", Tensor::of<float>(1)), Error);
  fs::remove(file);
  EXPECT_THROW(read(file), Error);
}

// In a .npy file every string takes the size of the longest one.
TEST(NpyTest, LongStringAmongManyIsRejectedInsteadOfPadded) {
  std::vector<std::string> strings(100'000);
  strings[0] = std::string(1 << 20, 'x');
  try {
    format(Tensor::of<std::string>(strings));
    ADD_FAILURE() << "400 GB were written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_THAT(error.what(), HasSubstr("too long for a .npy file"));
  }
}

}  // namespace
}  // namespace sluice::npy
