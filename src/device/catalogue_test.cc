#include "device/catalogue.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace sluice::device {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct DriverName {
  const char* name;
  std::uint64_t memory_mib;  // as NVML reports it
  const char* key;           // "" when it must stay unknown
};

// Names and sizes as drivers report them.
constexpr DriverName kDriverNames[] = {
    {"Tesla P4", 7611, "p4"},
    {"Tesla P40", 24451, "p40"},
    {"Tesla P100-PCIE-16GB", 16280, "p100"},
    {"Tesla P100-SXM2-16GB", 16280, "p100-sxm2"},
    {"Tesla V100-SXM2-16GB", 16160, "v100-16"},
    {"Tesla V100-PCIE-16GB", 16160, "v100-16"},
    {"Tesla V100-SXM2-32GB", 32510, "v100-32"},
    {"Tesla T4", 15360, "t4"},
    {"NVIDIA A10", 23028, "a10"},
    {"NVIDIA A100-SXM4-40GB", 40960, "a100-40"},
    {"NVIDIA A100-PCIE-40GB", 40960, "a100-40"},
    {"NVIDIA A100-SXM4-80GB", 81920, "a100-80"},
    {"NVIDIA A100 80GB PCIe", 81920, "a100-80"},
    {"NVIDIA L4", 23034, "l4"},
    {"NVIDIA L40S", 46068, "l40s"},
    {"NVIDIA RTX A6000", 49140, "a6000"},
    {"NVIDIA GeForce RTX 3060", 12288, "rtx-3060"},
    {"NVIDIA GeForce RTX 3060 Ti", 8192, "rtx-3060-ti"},
    {"NVIDIA GeForce RTX 3080", 10240, "rtx-3080"},
    {"NVIDIA GeForce RTX 3090", 24576, "rtx-3090"},
    {"NVIDIA GeForce RTX 4090", 24564, "rtx-4090"},
    {"NVIDIA GeForce RTX 5090", 32607, "rtx-5090"},
    {"NVIDIA GeForce GTX 1080 Ti", 11264, "gtx-1080-ti"},
    {"GeForce GTX 1080 Ti", 11178, "gtx-1080-ti"},
    {"NVIDIA H100 80GB HBM3", 81559, "h100"},
    {"NVIDIA H100 PCIe", 81559, "h100-pcie"},
    {"NVIDIA H100 NVL", 95830, "h100-nvl"},
    {"NVIDIA H200", 143771, "h200"},
    {"NVIDIA B200", 183359, "b200"},
    {"Orin (nvgpu)", 62841, "jetson-orin"},
    // Neighbours that are other cards.
    {"NVIDIA A10G", 23028, ""},
    {"NVIDIA L40", 46068, ""},
    {"NVIDIA GeForce RTX 3080 Ti", 12288, ""},
    {"NVIDIA GeForce RTX 3080", 12288, ""},
    {"NVIDIA GeForce RTX 3060", 8192, ""},
    {"NVIDIA GeForce RTX 4090 Laptop GPU", 16376, ""},
    {"NVIDIA GeForce RTX 4090 D", 24564, ""},
    {"NVIDIA RTX 6000 Ada Generation", 49140, ""},
    {"Tesla P100-PCIE-12GB", 12198, ""},
    {"Tesla V100S-PCIE-32GB", 32510, ""},
    {"Quadro P400", 2000, ""},
    {"Orin (nvgpu)", 7620, ""},
    {"", 0, ""},
};

TEST(Catalogue, MatchesADriversNameButNotSimilarNames) {
  for (const auto& row : kDriverNames) {
    const auto card = find_card(row.name, row.memory_mib * kMiB);
    EXPECT_EQ(card ? std::string(card->key) : "", row.key) << row.name << " " << row.memory_mib;
  }
}

TEST(Catalogue, FindsACardWhoseMemoryIsNotReported) {
  EXPECT_EQ(find_card("Orin (nvgpu)", std::nullopt)->key, "jetson-orin");
}

TEST(Catalogue, VectorRatesAreTheDatasheetsWhereNoMatrixUnitHasThePrecision) {
  for (const Card& card : catalogue()) {
    const auto rates = vector_rates(card);
    ASSERT_TRUE(rates) << card.key;
    EXPECT_EQ(2 * rates->fp32, card.peaks.fp32) << card.key;
    // A100, H100 and H200 have matrix units for fp64, twice as fast.
    const bool matrix = card.compute_major == 9 || card.key.starts_with("a100");
    EXPECT_NEAR(2 * rates->fp64 * (matrix ? 2 : 1) / *card.peaks.fp64, 1, 0.05) << card.key;
    EXPECT_LE(rates->fp32, rates->issued) << card.key;
  }
  EXPECT_DOUBLE_EQ(vector_rates(*find_profile("h200"))->fp64, 16.75e12);
  Card next = *find_profile("h200");
  next.compute_major = 99;
  EXPECT_FALSE(vector_rates(next));
}

TEST(Catalogue, HasEveryCardOnceWithPlausibleFigures) {
  std::set<std::string_view> keys;
  for (const Card& card : catalogue()) {
    SCOPED_TRACE(card.key);
    EXPECT_TRUE(keys.insert(card.key).second);
    ASSERT_TRUE(card.peaks.fp32);
    EXPECT_GT(*card.peaks.fp32, 5e12);
    EXPECT_GE(card.bandwidth, 190e9);
    EXPECT_LE(card.bandwidth, 8e12);
    EXPECT_GE(card.board_power_w, 60);
    EXPECT_EQ(card.peaks.bf16.has_value(), card.compute_major >= 8);
    EXPECT_EQ(card.peaks.tf32.has_value(), card.compute_major >= 8);
    EXPECT_EQ(card.peaks.fp8.has_value(),
              card.compute_major >= 9 || (card.compute_major == 8 && card.compute_minor == 9));
  }
  EXPECT_GE(keys.size(), 23u);
}

TEST(Catalogue, GivesThePublishedPeaksOfTheCardsWeMeasureOn) {
  const Card h200 = *find_profile("H200");
  EXPECT_DOUBLE_EQ(h200.bandwidth, 4.8e12);
  EXPECT_NEAR(*h200.peaks.bf16, 989.4e12, 1e9);
  const Card p4 = *find_profile("P4");
  EXPECT_NEAR(*p4.peaks.fp32 / *p4.peaks.fp16, 64, 1);
  EXPECT_NEAR(*p4.peaks.int8, 22e12, 1e9);
}

struct Profile {
  const char* written;
  const char* key;
};

TEST(Catalogue, ReadsProfileNamesAsPeopleWriteThem) {
  constexpr Profile kProfiles[] = {
      {"A100", "a100-40"},
      {"a100-80gb", "a100-80"},
      {"A100_40GB", "a100-40"},
      {"V100", "v100-16"},
      {"v100-32", "v100-32"},
      {"P4", "p4"},
      {"Tesla P4", "p4"},
      {"RTX", "rtx-3060-ti"},
      {"RTX 3060 Ti", "rtx-3060-ti"},
      {"rtx3060", "rtx-3060"},
      {"RTX_4090", "rtx-4090"},
      {"4090", "rtx-4090"},
      {"GTX 1080Ti", "gtx-1080-ti"},
      {"NVIDIA H100", "h100"},
      {"H100 PCIe", "h100-pcie"},
      {"RTX A6000", "a6000"},
      {"A6000", "a6000"},
      {"Jetson", "jetson-orin"},
      {"Jetson AGX Orin", "jetson-orin"},
      {"L40S", "l40s"},
      {"P100", "p100"},
      {"a10", "a10"},
      {"GTX", "gtx-1080-ti"},
      {"T4", "t4"},
  };
  for (const auto& row : kProfiles) {
    const auto card = find_profile(row.written);
    EXPECT_EQ(card ? std::string(card->key) : "", row.key) << row.written;
  }
}

TEST(Catalogue, RefusesProfilesItDoesNotKnow) {
  for (const char* written : {"", "A1", "P", "GPU", "RTX 9999", "a100-8", "nvidia"})
    EXPECT_FALSE(find_profile(written)) << written;
}

TEST(Catalogue, RecommendsWhatEachCardIsGoodAt) {
  const std::pair<const char*, Precision> kExpected[] = {
      {"p4", Precision::fp32},          {"p40", Precision::fp32},
      {"gtx-1080-ti", Precision::fp32}, {"p100", Precision::fp16},
      {"v100-16", Precision::fp16},     {"t4", Precision::fp16},
      {"a10", Precision::bf16},         {"a100-80", Precision::bf16},
      {"rtx-3090", Precision::bf16},    {"l4", Precision::bf16},
      {"h200", Precision::bf16},        {"b200", Precision::bf16},
      {"rtx-5090", Precision::bf16},    {"jetson-orin", Precision::bf16},
  };
  for (const auto& [key, precision] : kExpected)
    EXPECT_EQ(recommend(find_profile(key)->peaks).precision, precision) << key;
}

TEST(Catalogue, NeverRecommendsFp16WhereItIsSlowAndPointsToInt8Instead) {
  const auto choice = recommend(find_profile("P4")->peaks);
  EXPECT_NE(choice.precision, Precision::fp16);
  EXPECT_NE(choice.because.find("int8"), std::string_view::npos);
}

TEST(Catalogue, RecommendsFp32WhenNothingIsKnown) {
  EXPECT_EQ(recommend(Peaks{}).precision, Precision::fp32);
}

TEST(Catalogue, LeavesUnknownRatesOutOfTheJson) {
  const Json json = to_json(*find_profile("v100"));
  EXPECT_EQ(json.at("key"), "v100-16");
  EXPECT_DOUBLE_EQ(json.at("peak_ops_per_s").at("fp16").get<double>(), 125e12);
  EXPECT_FALSE(json.at("peak_ops_per_s").contains("bf16"));
}

}  // namespace
}  // namespace sluice::device
