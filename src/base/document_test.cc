#include "base/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sluice {
namespace {

using testing::HasSubstr;

struct Parsed {
  Document document;
  std::vector<Problem> problems;
};

Parsed json(std::string_view text) {
  Parsed out;
  out.document = parse_document("a.json", text, Format::json, out.problems);
  return out;
}

Parsed toml(std::string_view text) {
  Parsed out;
  out.document = parse_document("a.toml", text, Format::toml, out.problems);
  return out;
}

std::string only_problem(const Parsed& parsed) {
  EXPECT_EQ(parsed.problems.size(), 1u);
  return parsed.problems.empty() ? "" : to_string(parsed.problems[0]);
}

TEST(Document, JsonKeepsTheLineOfEveryKeyAndValue) {
  const auto [document, problems] = json("{\n \"a\": 1,\n \"b\":\n  [2,\n   3]\n}");
  ASSERT_TRUE(problems.empty());
  const auto& members = document.root.members;
  EXPECT_EQ(members[0].line, 2);
  EXPECT_EQ(members[1].line, 3);
  EXPECT_EQ(members[1].value.line, 4);
  EXPECT_EQ(members[1].value.items[1].line, 5);
}

TEST(Document, TomlKeepsTheLineOfEveryKeyAndTheOrderOfTheFile) {
  const auto [document, problems] = toml("z = 1\n\n[b]\nx = 2\n[a]\n[[c]]\n[[c]]\ny = 3\n");
  ASSERT_TRUE(problems.empty());
  const auto& members = document.root.members;
  EXPECT_EQ(members[0].key, "z");
  EXPECT_EQ(members[1].key, "b");
  EXPECT_EQ(members[1].value.members[0].line, 4);
  EXPECT_EQ(members[3].value.items[1].line, 7);
  EXPECT_EQ(members[3].value.items[1].members[0].line, 8);
}

TEST(Document, BothLanguagesGiveTheSameTree) {
  const auto a = json(R"({"gpu": {"on": true, "n": 3, "x": 0.5, "t": "é\n", "l": [1, 2]}})");
  const auto b = toml("[gpu]\non = true\nn = 3\nx = 0.5\nt = \"é\\n\"\nl = [1, 2]\n");
  EXPECT_TRUE(same(a.document.root, b.document.root));
}

TEST(Document, AgreesWithAnotherJsonReaderOnWhatIsValid) {
  for (const auto* text : {"{}",
                           "{\"a\":-0.5e-3}",
                           "{\"a\":[[],{}]}",
                           "{\"a\":\"\\ud83d\\ude00\"}",
                           "{\"a\":01}",
                           "{\"a\":1.}",
                           "{\"a\":.5}",
                           "{\"a\":+1}",
                           "{\"a\":1e}",
                           "{\"a\":tru}",
                           "{\"a\":nul}",
                           "{\"a\" 1}",
                           "{\"a\":}",
                           "{a:1}",
                           "{\"a\":1,}",
                           "{,}",
                           "{\"a\":[1,]}",
                           "{\"a\":[1 2]}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\\ud83d\"}",
                           "{\"a\":\"\\u12\"}",
                           "{\"a\":\"\t\"}",
                           "{\"a\":\"x}",
                           "{\"a\":1}}",
                           "{\"a\":1} x",
                           "{",
                           "}",
                           "",
                           "   ",
                           "{\"a\":NaN}",
                           "{\"a\":1}//x",
                           "{\"a\":-}",
                           "{\"a\":'b'}",
                           "{\"a\":9223372036854775808}"})
    EXPECT_EQ(json(text).problems.empty(), Json::accept(text)) << text;
}

TEST(Document, AKeyGivenTwiceIsReportedWithBothLines) {
  EXPECT_EQ(only_problem(json("{\"a\": 1,\n\"b\": 2,\n\"a\": 3}")),
            "a.json:3: a: given twice; first on line 1");
  EXPECT_THAT(only_problem(toml("a = 1\nb = 2\na = 3\n")), HasSubstr("a.toml:3: "));
}

TEST(Document, AByteOrderMarkIsSkippedAndUtf16IsNamed) {
  EXPECT_TRUE(json("\xEF\xBB\xBF{\"a\": 1}").problems.empty());
  EXPECT_TRUE(toml("\xEF\xBB\xBF"
                   "a = 1")
                  .problems.empty());
  EXPECT_THAT(only_problem(toml("\xFF\xFE"
                                "a")),
              HasSubstr("a.toml:1: is UTF-16"));
}

TEST(Document, InvalidUtf8AndZeroBytesHaveALine) {
  EXPECT_EQ(only_problem(toml("a = 1\nb = \"\xC3\"\n")), "a.toml:2: byte 0xc3 is not valid UTF-8");
  EXPECT_EQ(only_problem(json(std::string_view("{\n\0}", 4))), "a.json:2: contains a zero byte");
}

TEST(Document, AnEmptyTomlFileIsFineAndAnEmptyJsonFileIsNot) {
  EXPECT_TRUE(toml("").problems.empty());
  EXPECT_TRUE(toml("# nothing\n").problems.empty());
  EXPECT_THAT(only_problem(json("")), HasSubstr("a.json:1: is empty"));
}

TEST(Document, DeepNestingIsRefusedInEveryForm) {
  std::string arrays(100'000, '['), objects, dotted = "a", header = "[a", inline_tables = "x = ";
  for (int i = 0; i < 50'000; ++i) objects += "{\"a\":", dotted += ".a", header += ".a";
  for (int i = 0; i < 1000; ++i) inline_tables += "{ a = ";
  EXPECT_THAT(only_problem(json(arrays)), HasSubstr("nested deeper than 32"));
  EXPECT_THAT(only_problem(json(objects)), HasSubstr("nested deeper than 32"));
  EXPECT_THAT(only_problem(toml(dotted + " = 1")), HasSubstr("a.toml:1: nested deeper than 32"));
  EXPECT_THAT(only_problem(toml("\n" + header + "]")), HasSubstr("a.toml:2: nested deeper"));
  EXPECT_EQ(toml("x = " + arrays).problems.size(), 1u);
  EXPECT_EQ(toml(inline_tables).problems.size(), 1u);
}

TEST(Document, AFloodOfValuesIsRefused) {
  std::string text = "{\"a\": [0";
  for (int i = 0; i < kMaxDocumentValues; ++i) text += ",\n0";
  EXPECT_THAT(only_problem(json(text + "]}")), HasSubstr("holds more than 10000 values"));
}

TEST(Document, ManyDotsOutsideKeysAreNotNesting) {
  std::string numbers = "x = [";
  for (int i = 0; i < 100; ++i) numbers += "1.5, ";
  EXPECT_TRUE(toml(numbers + "]\ny = \"" + std::string(100, '.') + "\"\n# " +
                   std::string(100, '.') + "\nz = '''\n" + std::string(100, '.') + "'''\n")
                  .problems.empty());
}

TEST(Document, ASyntaxErrorThatMayShowASecretDoesNotQuoteIt) {
  const auto problem = only_problem(toml("[serve]\napi_key = s3cr3t-value\n"));
  EXPECT_EQ(problem, "a.toml:2: is not valid TOML");
}

TEST(Document, TheFormatFollowsTheNameAndElseTheContent) {
  EXPECT_EQ(format_of("x.toml", "{"), Format::toml);
  EXPECT_EQ(format_of("x.JSON", "a = 1"), Format::json);
  EXPECT_EQ(format_of("x.conf", " \n{"), Format::json);
  EXPECT_EQ(format_of("x", "\xEF\xBB\xBF{"), Format::json);
  EXPECT_EQ(format_of("x", "a = 1"), Format::toml);
  EXPECT_EQ(format_of("x", ""), Format::toml);
}

struct Files : testing::Test {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("document_test." + std::to_string(getpid()));
  Files() { std::filesystem::create_directories(folder); }
  ~Files() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder / name;
  }
  static std::string problem_of(const std::string& path) {
    Parsed out;
    out.document = read_document(path, out.problems);
    return only_problem(out);
  }
};

TEST_F(Files, UnreadableFilesAreRefusedWithTheReason) {
  EXPECT_THAT(problem_of(folder / "none.toml"), HasSubstr("none.toml: no such file"));
  EXPECT_THAT(problem_of(folder), HasSubstr(": is a folder"));
  EXPECT_THAT(problem_of(write("a.yaml", "a: 1")), HasSubstr("is YAML by its name"));
  EXPECT_THAT(problem_of(write("big.toml", std::string(kMaxDocumentBytes + 1, '#'))),
              HasSubstr("larger than the limit of 1048576 bytes"));
}

TEST_F(Files, FilesAsLargeAsTheLimitAreRead) {
  std::vector<Problem> problems;
  read_document(write("a.toml", "#" + std::string(kMaxDocumentBytes - 1, 'x')), problems);
  EXPECT_TRUE(problems.empty());
}

TEST(Problems, AreThrownTogether) {
  std::vector<Problem> many(60, Problem{"a.toml:1", "x", "bad"});
  try {
    throw_if_any(many);
    FAIL() << "nothing thrown";
  } catch (const std::exception& e) {
    EXPECT_THAT(e.what(), HasSubstr("60 problems"));
    EXPECT_THAT(e.what(), HasSubstr("and 10 more"));
  }
  throw_if_any({});
}

}  // namespace
}  // namespace sluice
