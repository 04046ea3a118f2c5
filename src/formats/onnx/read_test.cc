#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "formats/onnx/build_for_tests.h"
#include "formats/onnx/external_files.h"
#include "formats/onnx/model.h"

namespace sluice::onnx {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Model parse_message(const Message& message, const fs::path& folder = {}) {
  const auto keep = std::make_shared<std::string>(message.text());
  return parse(*keep, keep, folder);
}

std::string refusal_of_model(const Message& message, const fs::path& folder = {}) {
  try {
    parse_message(message, folder);
  } catch (const Error& error) {
    return std::string(error.reason());
  }
  return "accepted";
}

class OnnxFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "model");
    std::ofstream(folder_ / "secret.bin") << "0123456789abcdef";
    std::ofstream(folder_ / "model" / "weights.bin") << "0123456789abcdef";
  }
  void TearDown() override { fs::remove_all(folder_); }

  static Message external(std::string_view location, std::string_view offset = "0",
                          std::string_view length = "8") {
    const auto entry = [](std::string_view key, std::string_view value) {
      return Message().bytes(1, key).bytes(2, value);
    };
    const Message tensor = Message()
                               .integer(1, 2)
                               .integer(2, 1)
                               .bytes(8, "w")
                               .integer(14, 1)
                               .message(13, entry("location", location))
                               .message(13, entry("offset", offset))
                               .message(13, entry("length", length));
    return model(Message().message(5, tensor));
  }

  const fs::path folder_ = fs::temp_directory_path() / ("onnx-test-" + std::to_string(::getpid()));
};

TEST(OnnxReadTest, NodesTensorsAndTypesMatchTheFile) {
  const Model read = parse_message(model(Message()
                                             .message(1, node("Add", {"x", "w"}, {"y"}))
                                             .message(5, float_tensor("w", {2}, {1.5f, -2}))
                                             .message(11, value_info("x", 1, {2}))
                                             .message(12, value_info("y", 1, {2}))));
  ASSERT_EQ(read.graph.nodes.size(), 1u);
  EXPECT_EQ(read.graph.nodes[0].op, "Add");
  EXPECT_THAT(read.graph.initializers.at("w").values<float>(), ElementsAre(1.5f, -2.0f));
  EXPECT_EQ(read.opsets.at(""), 17);
  EXPECT_EQ(read.graph.inputs[0].type->dims->at(0).size, 2);
}

TEST(OnnxReadTest, TruncatedFilesAreRejectedWithoutCrashing) {
  const std::string whole = model(Message()
                                      .message(1, node("Add", {"x", "w"}, {"y"}))
                                      .message(5, float_tensor("w", {2}, {1.5f, -2})))
                                .text();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto keep = std::make_shared<std::string>(whole.substr(0, size));
    EXPECT_THROW(parse(*keep, keep, {}), Error) << size;
  }
}

TEST(OnnxReadTest, MismatchedDataIsRejectedByName) {
  const Message claim =
      Message().integer(1, std::int64_t{1} << 40).integer(2, 1).bytes(8, "big").bytes(9, "1234");
  EXPECT_THAT(refusal_of_model(model(Message().message(5, claim))),
              HasSubstr("'big': 4 bytes of data"));
  const Message negative = Message().integer(1, -1).integer(2, 1).bytes(8, "n");
  EXPECT_THAT(refusal_of_model(model(Message().message(5, negative))),
              HasSubstr("a dimension of -1"));
  const Message unknown = Message().integer(1, 1).integer(2, 99).bytes(8, "u");
  EXPECT_THAT(refusal_of_model(model(Message().message(5, unknown))), HasSubstr("element type 99"));
}

// The number of bits overflows to that of the data.
TEST(OnnxReadTest, OverflowingSizesAreRejectedByName) {
  struct Case {
    std::vector<std::int64_t> dims;
    DType dtype;
    std::string_view data;
  };
  const std::int64_t k58 = std::int64_t{1} << 58;
  for (const Case& c :
       {Case{{k58 + 1}, DType::i64, "12345678"}, Case{{1 << 29, 1 << 29}, DType::f64, ""},
        Case{{(std::int64_t{1} << 59) + 1}, DType::f32, "1234"},
        Case{{(std::int64_t{1} << 60) + 2}, DType::f16, "1234"},
        Case{{std::int64_t{1} << 62}, DType::i4, ""}, Case{{1ll << 32, 1ll << 32}, DType::u8, ""},
        Case{{(std::int64_t{1} << 57) + 1}, DType::c128, "0123456789abcdef"}}) {
    Message tensor;
    for (const std::int64_t dim : c.dims) tensor.integer(1, dim);
    tensor.integer(2, static_cast<int>(c.dtype)).bytes(8, "lies").bytes(9, c.data);
    EXPECT_THAT(refusal_of_model(model(Message().message(5, tensor))), HasSubstr("tensor 'lies': "))
        << to_string(c.dtype);
  }
}

TEST(OnnxReadTest, MillionsOfEmptyMessagesAreRejected) {
  constexpr int kCount = 400'000;
  Message attributes = node("Relu", {"x"}, {"y"}), graphs = Message().bytes(1, "z"), values, nodes;
  for (int i = 0; i < kCount; ++i) {
    attributes.bytes(5, "");
    graphs.bytes(11, "");
    values.bytes(13, "");
    nodes.bytes(1, "");
  }
  const auto refusal = [](const Message& graph) { return refusal_of_model(model(graph)); };
  EXPECT_THAT(refusal(Message().message(1, attributes)),
              HasSubstr("64 times the size of the file"));
  EXPECT_THAT(refusal(Message().message(1, node("If", {"x"}, {"y"}).message(5, graphs))),
              HasSubstr("64 times the size of the file"));
  EXPECT_EQ(refusal(values), "accepted");
  EXPECT_THAT(refusal(nodes), HasSubstr("64 times the size of the file"));
}

TEST(OnnxReadTest, DeeplyNestedGraphsAreRejected) {
  Message graph;
  for (int i = 0; i < 100; ++i) {
    const Message attribute = Message().bytes(1, "body").integer(20, 5).message(6, graph);
    graph = Message().message(1, node("If", {"c"}, {"y"}).message(5, attribute));
  }
  EXPECT_THAT(refusal_of_model(model(graph)), HasSubstr("nested more than 64 deep"));
}

TEST(OnnxReadTest, OtherFilesAreNotModels) {
  EXPECT_THAT(refusal_of_model(Message()), HasSubstr("no ONNX model"));
  EXPECT_THROW(read("/no/such/file.onnx"), Error);
}

TEST_F(OnnxFolderTest, ExternalDataIsReadFromTheModelFolder) {
  const Model read = parse_message(external("weights.bin", "8"), folder_ / "model");
  EXPECT_EQ(std::string_view(static_cast<const char*>(read.graph.initializers.at("w").data()), 8),
            "89abcdef");
}

TEST_F(OnnxFolderTest, ExternalDataFilesAreFoundForAllTensors) {
  const fs::path file = folder_ / "model" / "m.onnx";
  const auto tensor = [](std::string_view location) {
    const auto entry = Message().bytes(1, "location").bytes(2, location);
    return Message().integer(1, 2).integer(2, 1).integer(14, 1).message(13, entry);
  };
  const auto with = [&](int field, const Message& value) {
    return Message().message(1, Message().message(5, Message().message(field, value)));
  };
  for (const std::string name : {"a.onnx_data", "plain", "deep/b"}) {
    fs::create_directories((folder_ / "model" / name).parent_path());
    std::ofstream(folder_ / "model" / name) << "12345678";
  }
  const Message graph =
      Message()
          .message(5, tensor("a.onnx_data"))
          .message(5, tensor("../secret.bin"))
          .message(5, tensor("gone"))
          .message(1, Message().message(5, Message().message(5, tensor("plain"))));
  const Message whole = model(graph).message(
      25,
      Message().message(7, Message().message(5, Message().message(6, with(5, tensor("deep/b"))))));
  std::ofstream(file) << whole.text();
  const fs::path base = fs::canonical(folder_ / "model");
  EXPECT_THAT(external_files(file),
              ElementsAre(base / "a.onnx_data", base / "deep" / "b", base / "plain"));
  std::ofstream(file) << "no model";
  EXPECT_TRUE(external_files(file).empty());
  EXPECT_THROW(external_files(folder_ / "none"), Error);
}

TEST_F(OnnxFolderTest, ExternalDataMustBeInTheModelFolder) {
  fs::create_symlink(folder_ / "secret.bin", folder_ / "model" / "link.bin");
  const std::string absolute = (folder_ / "secret.bin").string();
  for (const std::string_view location :
       {std::string_view("../secret.bin"), std::string_view(absolute), std::string_view("link.bin"),
        std::string_view("x/../../secret.bin"), std::string_view()})
    EXPECT_THAT(refusal_of_model(external(location), folder_ / "model"),
                HasSubstr("outside the model's folder"))
        << location;
}

TEST_F(OnnxFolderTest, ExternalDataBeyondItsFileIsRejected) {
  const fs::path model = folder_ / "model";
  EXPECT_THAT(refusal_of_model(external("weights.bin", "17"), model),
              HasSubstr("begins after the end"));
  EXPECT_THAT(refusal_of_model(external("weights.bin", "12"), model),
              HasSubstr("ends after the end"));
  EXPECT_THAT(refusal_of_model(external("weights.bin", "-1"), model), HasSubstr("offset '-1'"));
  EXPECT_THAT(refusal_of_model(external("none.bin"), model), HasSubstr("is not there"));
}

}  // namespace
}  // namespace sluice::onnx
