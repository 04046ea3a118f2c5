#include "memory/trace/pickle.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace sluice::memory {
namespace {

using Kind = PlainData::Kind;
using testing::HasSubstr;
using namespace std::string_literals;

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

std::string problem_of(std::string_view bytes, const PlainLimits& limits = {}) {
  try {
    read_pickle(bytes, limits);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    return e.what();
  }
  return "none";
}

// L = [1]; pickle.dumps({'a': [1, 300, -2, 2**40, 2**80, True, False, None, 1.5, 'é', b'x'],
//   't': ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), 'same': [L, L]}, protocol=P)
// as CPython 3.11 writes it; protocol 2 without the bytes, which it writes as a call.
constexpr std::string_view kProtocol2 =
    "80027d71002858010000006171015d7102284b014d2c014afeffffff8a060000000000018a0b000000000000000000"
    "00"
    "0188894e473ff80000000000005802000000c3a9710365580100000074710428294b018571054b014b028671064b01"
    "4b"
    "024b03877107284b014b024b034b04747108747109580400000073616d65710a5d710b285d710c4b0161680c65752"
    "e";
constexpr std::string_view kProtocol4 =
    "80049578000000000000007d94288c0161945d94284b014d2c014afeffffff8a060000000000018a0b000000000000"
    "00"
    "0000000188894e473ff80000000000008c02c3a99443017894658c01749428294b0185944b014b0286944b014b024b"
    "03"
    "8794284b014b024b034b04749474948c0473616d65945d94285d944b0161680d65752e";

void expect_the_data(const PlainData& data, bool with_bytes) {
  const auto a = data.items(data.find(data.root(), "a").value());
  ASSERT_EQ(a.size(), with_bytes ? 11u : 10u);
  EXPECT_EQ(a[0].integer, 1);
  EXPECT_EQ(a[1].integer, 300);
  EXPECT_EQ(a[2].integer, -2);
  EXPECT_EQ(a[3].integer, std::int64_t{1} << 40);
  EXPECT_EQ(a[4].kind, Kind::wide);
  EXPECT_EQ(a[5].integer, 1);
  EXPECT_EQ(a[6].kind, Kind::boolean);
  EXPECT_EQ(a[7].kind, Kind::none);
  EXPECT_EQ(a[8].real, 1.5);
  EXPECT_EQ(data.text(a[9]), "é");
  EXPECT_EQ(data.text(a.back()), with_bytes ? "x" : "é");
  const auto t = data.items(data.find(data.root(), "t").value());
  ASSERT_EQ(t.size(), 5u);
  for (std::size_t i = 0; i < t.size(); ++i) EXPECT_EQ(data.items(t[i]).size(), i);
  const auto same = data.items(data.find(data.root(), "same").value());
  EXPECT_EQ(same[0].index, same[1].index);
  EXPECT_EQ(data.items(same[1])[0].integer, 1);
}

TEST(Pickle, ReadsWhatPythonWritesInProtocols2To5) {
  const auto two = from_hex(kProtocol2);
  expect_the_data(read_pickle(two), false);
  auto four = from_hex(kProtocol4);
  expect_the_data(read_pickle(four), true);
  four[1] = 5;  // the same bytes otherwise
  expect_the_data(read_pickle(four), true);
}

TEST(Pickle, ACallIsRefusedByNameAndOffsetAndNotMade) {
  // class E: __reduce__ = lambda self: (os.system, ('touch /tmp/owned',))
  const auto four = from_hex(
      "8004952b000000000000008c05706f736978948c0673797374656d9493948c10746f756368202f746d702f6f776e"
      "656494859452942e");
  EXPECT_THAT(problem_of(four), HasSubstr("STACK_GLOBAL (0x93) is not plain data and is never"));
  EXPECT_THAT(problem_of(four), HasSubstr("(at byte 28)"));
  const auto two = from_hex("800263706f7369780a73797374656d0a71002952712e");
  EXPECT_THAT(problem_of(two), HasSubstr("GLOBAL (0x63)"));
  EXPECT_THAT(problem_of("\x80\x04NNR."), HasSubstr("REDUCE"));
  EXPECT_THAT(problem_of("\x80\x04\xff."), HasSubstr("unknown instruction 0xff"));
}

TEST(Pickle, EveryTruncationIsRefused) {
  for (const auto hex : {kProtocol2, kProtocol4}) {
    const auto whole = from_hex(hex);
    for (std::size_t n = 0; n < whole.size(); ++n)
      EXPECT_NE(problem_of(whole.substr(0, n)), "none") << n;
  }
  EXPECT_THAT(problem_of(from_hex(kProtocol4).substr(0, 60)), HasSubstr("cut short"));
}

TEST(Pickle, SizesThatTheFileDoesNotHaveAreRefusedBeforeAnyMemoryIsTaken) {
  EXPECT_THAT(problem_of("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), HasSubstr("cut short"));
  EXPECT_THAT(problem_of("\x80\x04\x8b\xff\xff\xff\xff"), HasSubstr("cut short"));
  EXPECT_THAT(problem_of("\x80\x04Nr\xff\xff\xff\xff."), HasSubstr("number 4294967295"));
}

TEST(Pickle, StackAndMarksNeverRunBelowTheirBottom) {
  for (const auto* body :
       {".",     "0.",   "2.",    "1.",     "a.",     "s.",      "e.",   "u.",    "t.",
        "d.",    "l.",   "\x87.", "N\x86.", "(a.",    "N(u.",    "N(e.", "](Na.", "}NNNs.",
        "}(Nu.", "(Nd.", "NN.",   "(N.",    "h\x01.", "N(\x94.", "(2."})
    EXPECT_NE(problem_of("\x80\x04"s + body), "none") << body;
}

TEST(Pickle, OnlyProtocols2To5AreRead) {
  EXPECT_THAT(problem_of("\x80\x06N."), HasSubstr("protocol 6; 2 to 5 are read"));
  EXPECT_THAT(problem_of("(dp0\n."), HasSubstr("does not begin with PROTO"));
  EXPECT_THAT(problem_of(""), HasSubstr("no pickle"));
}

TEST(Pickle, LimitsBoundDepthAndMemory) {
  EXPECT_THAT(problem_of("\x80\x04" + std::string(2000, '(')), HasSubstr("nested more than 1000"));
  PlainLimits small;
  small.values = 100;
  EXPECT_THAT(problem_of("\x80\x04N" + std::string(500, '2'), small), HasSubstr("more than 100"));
  EXPECT_THAT(problem_of("\x80\x04" + std::string(60, ']'), small), HasSubstr("more than 100"));
}

TEST(Pickle, DictsHaveAtMostAThousandKeys) {
  std::string at_once = "\x80\x04}(", one_by_one = "\x80\x04}";
  for (int i = 0; i < 1001; ++i) {
    const std::string pair = {'M', static_cast<char>(i & 255), static_cast<char>(i >> 8), 'N'};
    at_once += pair;
    one_by_one += pair + 's';
  }
  EXPECT_THAT(problem_of(at_once + "u."), HasSubstr("more than 1000 keys"));
  EXPECT_THAT(problem_of(one_by_one + '.'), HasSubstr("more than 1000 keys"));
}

TEST(Pickle, AListInsideItselfIsHeldAndDestroyed) {
  const auto self = "\x80\x04]\x94h"s + '\0' + "a."s;
  const auto data = read_pickle(self);
  EXPECT_EQ(data.items(data.root())[0].index, data.root().index);
}

TEST(Pickle, TenThousandLevelsByAppendingAreRead) {
  std::string deep = "\x80\x04";
  for (int i = 0; i < 10'000; ++i) deep += ']';
  for (int i = 1; i < 10'000; ++i) deep += 'a';
  const auto data = read_pickle(deep += '.');
  EXPECT_EQ(data.items(data.root()).size(), 1u);
}

TEST(PlainJson, ReadsTheSameDataAsAPickle) {
  const auto data = read_json(R"({"a": [1, -2, 1.5, true, null, "é", 18446744073709551615],
                                  "a": {"b": "last wins"}})");
  EXPECT_EQ(data.text(data.find(data.find(data.root(), "a").value(), "b").value()), "last wins");
}

TEST(PlainJson, NamesTheErrorPositionAndTheDepthLimit) {
  try {
    read_json(R"({"a": [1, )");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("at byte"));
  }
  EXPECT_THROW(read_json(std::string(5000, '[')), Error);
}

}  // namespace
}  // namespace sluice::memory
