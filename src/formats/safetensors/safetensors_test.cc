#include "formats/safetensors/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/safetensors/build_for_tests.h"

namespace sluice::safetensors {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

File parse_file(std::string text) {
  const auto keep = std::make_shared<std::string>(std::move(text));
  return parse(*keep, keep);
}

std::string refusal_of_file(const std::string& text) {
  try {
    parse_file(text);
  } catch (const Error& error) {
    return std::string(error.reason());
  }
  return "accepted";
}

TEST(SafetensorsTest, TensorsMatchTheFile) {
  const Tensor a = Tensor::of<float>(std::vector<float>{1, 2, 3, 4}).reshaped({2, 2});
  const File file = parse_file(file_of({{"a", a}, {"layer.b", Tensor::of<float>(5)}}));
  ASSERT_EQ(file.tensors.size(), 2u);
  EXPECT_EQ(file.tensors.at("a").shape(), (Shape{2, 2}));
  EXPECT_THAT(file.tensors.at("a").values<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(file.tensors.at("layer.b").values<float>(), ElementsAre(5));
  EXPECT_EQ(file.metadata.at("format"), "pt");
}

TEST(SafetensorsTest, UnalignedDataIsCopied) {
  const File file =
      parse_file(with_header(R"({"b":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]},)"
                             R"("x":{"dtype":"I32","shape":[1],"data_offsets":[1,5]}})",
                             std::string("\2\7\0\0\0", 5)));
  EXPECT_TRUE(file.tensors.at("b").values<bool>()[0]);
  EXPECT_THAT(file.tensors.at("x").values<std::int32_t>(), ElementsAre(7));
}

TEST(SafetensorsTest, TruncatedFilesAreRejected) {
  EXPECT_THAT(refusal_of_file("1234"), HasSubstr("no safetensors file"));
  EXPECT_THAT(refusal_of_file(std::string("\xff\0\0\0\0\0\0\0{}", 10)),
              HasSubstr("claims 255 bytes"));
  EXPECT_THAT(refusal_of_file(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10)),
              HasSubstr("claims"));
  const std::string whole = file_of({{"a", Tensor(DType::f32, Shape{8})}});
  EXPECT_THAT(refusal_of_file(whole.substr(0, whole.size() - 1)),
              HasSubstr("'a': its data is outside"));
}

TEST(SafetensorsTest, EveryByteBelongsToOneTensor) {
  const std::string x = R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[)";
  EXPECT_THAT(refusal_of_file(with_header(x + "0,2]}}", "abc")),
              HasSubstr("1 bytes belong to no tensor"));
  EXPECT_THAT(refusal_of_file(with_header(x + "1,3]}}", "abc")), HasSubstr("leaves a gap"));
  EXPECT_THAT(refusal_of_file(with_header(
                  x + R"(0,2]},"y":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", "abc")),
              HasSubstr("lies over another"));
}

TEST(SafetensorsTest, OversizedHeadersAreRejected) {
  const auto entry = [](std::string_view inner) {
    return with_header("{\"x\":{" + std::string(inner) + "}}", "abcd");
  };
  EXPECT_THAT(refusal_of_file(entry(R"("dtype":"Q7","shape":[1],"data_offsets":[0,4])")),
              HasSubstr("unknown type 'Q7'"));
  EXPECT_THAT(refusal_of_file(entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])")),
              HasSubstr("4 bytes of data for f32[2]"));
  EXPECT_THAT(refusal_of_file(
                  entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4])")),
              HasSubstr("more elements than memory"));
  EXPECT_THAT(
      refusal_of_file(entry(R"("dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4])")),
      HasSubstr("tensor 'x': more elements than memory"));
  EXPECT_THAT(
      refusal_of_file(entry(R"("dtype":"I64","shape":[288230376151711745],"data_offsets":[0,4])")),
      HasSubstr("tensor 'x': 4 bytes of data for i64[288230376151711745]"));
  EXPECT_THAT(refusal_of_file(entry(R"("dtype":"F32","shape":[1],"data_offsets":[4,0])")),
              HasSubstr("outside of the file"));
  EXPECT_THAT(refusal_of_file(entry(R"("dtype":"F32","shape":[-1],"data_offsets":[0,4])")),
              HasSubstr("something else"));
  EXPECT_THAT(refusal_of_file(entry(R"("dtype":"F32","shape":[[[1]]],"data_offsets":[0,4])")),
              HasSubstr("something else"));
  EXPECT_THAT(refusal_of_file(entry(R"("dtype":"F32")")), HasSubstr("lacks"));
  EXPECT_THAT(
      refusal_of_file(with_header(R"({"x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                  R"("x":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})")),
      HasSubstr("two tensors"));
  EXPECT_THAT(refusal_of_file(with_header(std::string(100'000, '{'))), HasSubstr("its header"));
}

}  // namespace
}  // namespace sluice::safetensors
