#include "market/input/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/sanitized_for_tests.h"

namespace sluice::market {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string problem_of(const std::string& text, const char* column = "close") {
  try {
    const Csv csv = Csv::parse(text, "p.csv");
    (void)csv.numbers(csv.column(column));
  } catch (const Error& e) {
    return std::string(e.reason());
  }
  return "none";
}

TEST(Csv, CommonVariantsAreRead) {
  for (const char* text : {"date,close\n2020-01-01,1.5\n2020-01-02,-2e3\n",
                           "\xEF\xBB\xBF"
                           "date;close\r\n2020-01-01;1.5\r\n2020-01-02;-2e3\r\n\r\n",
                           "date\tclose\n2020-01-01\t 1.5 \n2020-01-02\t-2000",
                           "\"date\",\"close\"\n\"2020-01-01\",\"+1.5\"\n\"2020-01-02\",-2000\n"}) {
    const Csv csv = Csv::parse(text, "p.csv");
    EXPECT_THAT(csv.numbers(csv.column("Close")), ElementsAre(1.5, -2000.0)) << text;
    EXPECT_EQ(csv.text(1, 0), "2020-01-02");
  }
}

TEST(Csv, EmptyFieldsAreMissingNumbers) {
  const Csv csv = Csv::parse("t,close\n1,\n2,nan\n3,4\n", "p.csv");
  const auto values = csv.numbers(1);
  EXPECT_TRUE(std::isnan(values[0]) && std::isnan(values[1]));
  EXPECT_EQ(values[2], 4);
}

TEST(Csv, NumbersAreFinite) {
  for (const char* field : {"inf", "-inf", "Infinity", "-nan", "nan(1)"})
    EXPECT_EQ(problem_of(std::string("t,close\n1,2\n3,") + field + "\n"),
              std::string("p.csv:3: column 'close': '") + field + "' is not a number");
}

TEST(Csv, InputsOverTheLimitAndDevicesAreRefused) {
  std::istringstream in("t,x\n1,2\n"), long_one("t,x\n" + std::string(3 << 20, '1'));
  EXPECT_EQ(Csv::read("-", in, 8).rows(), 1u);
  EXPECT_THROW(Csv::read("-", long_one, 2 << 20), Error);
  EXPECT_THROW(Csv::read("/dev/zero", in), Error);
  EXPECT_GT(Csv::max_bytes(), std::size_t{1} << 20);
}

TEST(Csv, QuotedFieldsMayHoldAnyCharacter) {
  const Csv csv = Csv::parse("a,b\n\"x,\"\"y\"\"\nz\",1\nlast,2\n", "p.csv");
  EXPECT_EQ(csv.text(0, 0), "x,\"y\"\nz");
  EXPECT_EQ(csv.text(1, 0), "last");
}

TEST(Csv, ErrorsNameTheLine) {
  EXPECT_EQ(problem_of("date,close\na,1\nb,two\n"),
            "p.csv:3: column 'close': 'two' is not a number");
  EXPECT_EQ(problem_of("date,close\na,1\n\"b\nc\",2\nd,3,4\n"),
            "p.csv:5: 3 fields, but the header names 2");
  EXPECT_EQ(problem_of("date,close\na,\"1\n"), "p.csv:2: a quote has no end");
  EXPECT_EQ(problem_of("date,close\na,\"1\"2\n"), "p.csv:2: text after a closing quote");
  EXPECT_EQ(problem_of("close,Close\n"), "p.csv:1: two columns are named 'Close'");
  EXPECT_THAT(problem_of("date,closee\n"), HasSubstr("closee"));
  EXPECT_EQ(problem_of(""), "p.csv: is empty; a line of column names is expected");
  EXPECT_THAT(problem_of("t,close\n1,1e999\n"), HasSubstr("not a number"));
  EXPECT_THAT(problem_of("t,close\n1,0x10\n"), HasSubstr("not a number"));
}

TEST(Csv, ErrorsArePrintable) {
  EXPECT_EQ(problem_of("date,close\na,\x1b[31mred\n").find('\x1b'), std::string::npos);
  EXPECT_EQ(problem_of("\x1b]0;x,Date\n1,2\n").find('\x1b'), std::string::npos);
}

TEST(Csv, AHeaderOfVeryManyColumnsIsParsedFast) {
  std::string text = "c0";
  for (int i = 1; i < 200000; ++i) text += ",c" + std::to_string(i);
  EXPECT_EQ(Csv::parse(text, "p.csv").header().size(), 200000u);
  EXPECT_THAT(problem_of(text + ",C7"), HasSubstr("two columns are named 'C7'"));
}

TEST(Csv, EachOfVeryManyColumnsIsFoundFast) {
  constexpr int kColumns = 50000;
  std::string text = "Date";
  for (int i = 0; i < kColumns; ++i) text += ",C" + std::to_string(i);
  const std::clock_t begun = std::clock();  // the processor's time: the machine may be busy
  const Csv csv = Csv::parse(text, "p.csv");
  for (int i = 0; i < kColumns; ++i) {
    const std::string name = "c" + std::to_string(i);
    ASSERT_TRUE(csv.has(name));
    ASSERT_EQ(csv.column(name), static_cast<std::size_t>(i) + 1);
  }
  EXPECT_LT((std::clock() - begun) / CLOCKS_PER_SEC, kPatience);
  EXPECT_FALSE(csv.has("c50000"));
}

TEST(Csv, AFolderIsRefused) {
  std::istringstream none;
  EXPECT_THROW(Csv::read("/tmp", none), Error);
}

TEST(Csv, AHeaderAloneIsATableWithoutRows) {
  const Csv csv = Csv::parse("date,close", "p.csv");
  EXPECT_EQ(csv.rows(), 0u);
  EXPECT_TRUE(csv.numbers(1).empty());
}

TEST(Csv, NumbersReadBackAsThemselves) {
  std::mt19937_64 random(std::random_device{}());
  std::string text = "t,x\n";
  std::vector<double> written{0.1, -0.0, 5e-324, 1.7976931348623157e308, 1.0 / 3};
  for (int i = 0; i < 1000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (std::isfinite(value)) written.push_back(value);
  }
  for (const double value : written) {
    text += "1,";
    append_number(text, value);
    text += '\n';
  }
  const auto values = Csv::parse(text, "p.csv").numbers(1);
  EXPECT_EQ(values, written);
}

TEST(Csv, TextIsQuotedWhenNecessary) {
  std::string line;
  for (const char* field : {"plain", "a,b", "say \"x\"", ""}) append_text(line, field), line += '|';
  EXPECT_EQ(line, "plain|\"a,b\"|\"say \"\"x\"\"\"||");
}

TEST(Csv, StandardInputIsRead) {
  std::istringstream in("t,x\n1,2\n");
  EXPECT_EQ(Csv::read("-", in).rows(), 1u);
  EXPECT_THROW(Csv::read("/no/such/file", in), Error);
}

TEST(Csv, NoiseIsReadCompletelyOrRefusedByTheFilesName) {
  std::mt19937_64 random(3);
  const std::string_view alphabet = "a1.,;\t\"\r\n-e ";
  int read = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 40; n > 0; --n) text += alphabet[random() % alphabet.size()];
    try {
      const Csv csv = Csv::parse(text, "p.csv");
      for (std::size_t c = 0; c < csv.header().size(); ++c) {
        const std::vector<double> numbers = csv.numbers(c);
        ASSERT_EQ(numbers.size(), csv.rows()) << text;
        for (const double number : numbers) ASSERT_FALSE(std::isinf(number)) << text;
      }
      ++read;
    } catch (const Error& error) {
      ASSERT_EQ(error.code(), Code::invalid_argument) << text;
      ASSERT_THAT(error.what(), HasSubstr("p.csv")) << text;
      ++refused;
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace sluice::market
