#include "device/catalogue.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice::device {

namespace {

constexpr double kTera = 1e12, kGiga = 1e9;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
constexpr std::optional<double> kNone = std::nullopt;

// A rate in tera-operations per second; kNone if the card has no fast path.
using Rate = std::optional<double>;
constexpr Peaks peaks(Rate fp64, Rate fp32, Rate tf32, Rate bf16, Rate fp16, Rate fp8, Rate int8) {
  const auto tera = [](Rate r) { return r ? Rate(*r * kTera) : r; };
  return {tera(fp64), tera(fp32), tera(tf32), tera(bf16), tera(fp16), tera(fp8), tera(int8)};
}

// clang-format off
constexpr Card kCards[] = {
    //                                                                GiB           GB/s   W           fp64   fp32   tf32   bf16   fp16    fp8    int8
    // Pascal: only the P100 has fast fp16; the others run it at 1/64 of fp32.
    {"p4",          "Tesla P4",                "p4",           6, 1,   8 * kGiB,  192 * kGiga,   75, peaks(0.172,  5.5, kNone, kNone, 0.086, kNone,    22)},
    {"p40",         "Tesla P40",               "p40",          6, 1,  24 * kGiB,  346 * kGiga,  250, peaks(0.367, 11.8, kNone, kNone, 0.184, kNone,    47)},
    {"p100",        "Tesla P100 PCIe 16GB",    "p100",         6, 0,  16 * kGiB,  732 * kGiga,  250, peaks(  4.7,  9.3, kNone, kNone,  18.7, kNone, kNone)},
    {"p100-sxm2",   "Tesla P100 SXM2 16GB",    "p100 sxm2",    6, 0,  16 * kGiB,  732 * kGiga,  300, peaks(  5.3, 10.6, kNone, kNone,  21.2, kNone, kNone)},
    {"gtx-1080-ti", "GeForce GTX 1080 Ti",     "gtx 1080 ti",  6, 1,  11 * kGiB,  484 * kGiga,  250, peaks(0.354, 11.3, kNone, kNone, 0.177, kNone,  45.4)},
    // Volta and Turing: fp16 tensor cores, no bf16.
    {"v100-16",     "Tesla V100 16GB",         "v100",         7, 0,  16 * kGiB,  900 * kGiga,  300, peaks(  7.8, 15.7, kNone, kNone,   125, kNone, kNone)},
    {"v100-32",     "Tesla V100 32GB",         "v100",         7, 0,  32 * kGiB,  900 * kGiga,  300, peaks(  7.8, 15.7, kNone, kNone,   125, kNone, kNone)},
    {"t4",          "Tesla T4",                "t4",           7, 5,  16 * kGiB,  320 * kGiga,   70, peaks(0.254,  8.1, kNone, kNone,    65, kNone,   130)},
    // Ampere
    {"a10",         "NVIDIA A10",              "a10",          8, 6,  24 * kGiB,  600 * kGiga,  150, peaks(0.488, 31.2,  62.5,   125,   125, kNone,   250)},
    {"a100-40",     "NVIDIA A100 40GB",        "a100",         8, 0,  40 * kGiB, 1555 * kGiga,  400, peaks( 19.5, 19.5,   156,   312,   312, kNone,   624)},
    {"a100-80",     "NVIDIA A100 80GB",        "a100",         8, 0,  80 * kGiB, 2039 * kGiga,  400, peaks( 19.5, 19.5,   156,   312,   312, kNone,   624)},
    {"a6000",       "NVIDIA RTX A6000",        "rtx a6000",    8, 6,  48 * kGiB,  768 * kGiga,  300, peaks(0.605, 38.7,  77.4, 154.8, 154.8, kNone, 309.7)},
    {"rtx-3060",    "GeForce RTX 3060",        "rtx 3060",     8, 6,  12 * kGiB,  360 * kGiga,  170, peaks(0.199, 12.7,  12.7,  25.5,  25.5, kNone,   102)},
    {"rtx-3060-ti", "GeForce RTX 3060 Ti",     "rtx 3060 ti",  8, 6,   8 * kGiB,  448 * kGiga,  200, peaks(0.253, 16.2,  16.2,  32.4,  32.4, kNone, 129.6)},
    {"rtx-3080",    "GeForce RTX 3080",        "rtx 3080",     8, 6,  10 * kGiB,  760 * kGiga,  320, peaks(0.465, 29.8,  29.8,  59.5,  59.5, kNone,   238)},
    {"rtx-3090",    "GeForce RTX 3090",        "rtx 3090",     8, 6,  24 * kGiB,  936 * kGiga,  350, peaks(0.556, 35.6,  35.6,    71,    71, kNone,   284)},
    {"jetson-orin", "Jetson AGX Orin 64GB",    "orin",         8, 7,  64 * kGiB, 204.8 * kGiga,  60, peaks(0.083,  5.3,  21.3,  42.5,  42.5, kNone,    85)},
    // Ada
    {"l4",          "NVIDIA L4",               "l4",           8, 9,  24 * kGiB,  300 * kGiga,   72, peaks(0.473, 30.3,    60,   121,   121, 242.5, 242.5)},
    {"l40s",        "NVIDIA L40S",             "l40s",         8, 9,  48 * kGiB,  864 * kGiga,  350, peaks(1.431, 91.6,   183,   362,   362,   733,   733)},
    {"rtx-4090",    "GeForce RTX 4090",        "rtx 4090",     8, 9,  24 * kGiB, 1008 * kGiga,  450, peaks(1.290, 82.6,  82.6, 165.2, 165.2, 330.3, 660.6)},
    // Hopper
    {"h100",        "NVIDIA H100 SXM 80GB",    "h100",         9, 0,  80 * kGiB, 3350 * kGiga,  700, peaks(   67,   67, 494.7, 989.4, 989.4,1978.9,1978.9)},
    {"h100-pcie",   "NVIDIA H100 PCIe",        "h100 pcie",    9, 0,  80 * kGiB, 2000 * kGiga,  350, peaks(   51,   51,   378,   756,   756,  1513,  1513)},
    {"h100-nvl",    "NVIDIA H100 NVL",         "h100 nvl",     9, 0,  94 * kGiB, 3900 * kGiga,  400, peaks(   60,   60,   418,   835,   835,  1671,  1671)},
    {"h200",        "NVIDIA H200 SXM",         "h200",         9, 0, 141 * kGiB, 4800 * kGiga,  700, peaks(   67,   67, 494.7, 989.4, 989.4,1978.9,1978.9)},
    {"h200-nvl",    "NVIDIA H200 NVL",         "h200 nvl",     9, 0, 141 * kGiB, 4800 * kGiga,  600, peaks(   60,   60,   418,   835,   835,  1671,  1671)},
    // Blackwell
    {"b200",        "NVIDIA B200",             "b200",        10, 0, 180 * kGiB, 8000 * kGiga, 1000, peaks(   37,   75,  1100,  2250,  2250,  4500,  4500)},
    {"rtx-5090",    "GeForce RTX 5090",        "rtx 5090",    12, 0,  32 * kGiB, 1792 * kGiga,  575, peaks(1.637,104.8, 104.8, 209.5, 209.5,   419,   838)},
};
// clang-format on

// Operations per clock of one multiprocessor, as the CUDA programming guide lists it.
struct PerClock {
  int compute_major, compute_minor;
  double issued, fp32, fp64, special;
};
constexpr PerClock kPerClock[] = {
    {6, 0, 64, 64, 32, 16},    {6, 1, 128, 128, 4, 32},  {7, 0, 128, 64, 32, 16},
    {7, 5, 128, 64, 2, 16},    {8, 0, 128, 64, 32, 16},  {8, 6, 128, 128, 2, 16},
    {8, 7, 128, 128, 2, 16},   {8, 9, 128, 128, 2, 16},  {9, 0, 128, 128, 64, 16},
    {10, 0, 128, 128, 64, 16}, {12, 0, 128, 128, 2, 16},
};
constexpr double kSharedBytes = 128;  // in a clock

using Words = std::vector<std::string>;

// Lower-case runs of letters and digits.
Words words_of(std::string_view text) {
  Words words(1);
  for (const char raw : text) {
    const auto c = static_cast<unsigned char>(raw);
    if (std::isalnum(c)) {
      words.back() += static_cast<char>(std::tolower(c));
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

bool has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Words that make another card of the same number.
constexpr std::string_view kVariants[] = {"ti", "super", "laptop", "mobile", "max", "ada", "d"};

bool names(const Card& card, const Words& driver_name) {
  const Words required = words_of(card.match);
  return std::all_of(required.begin(), required.end(),
                     [&](const auto& w) { return has(driver_name, w); }) &&
         std::none_of(std::begin(kVariants), std::end(kVariants),
                      [&](std::string_view v) { return has(driver_name, v) && !has(required, v); });
}

// Drivers report a little less than the nominal size; a different size is a
// different card (an RTX 3060 of 8 GB has two thirds of the bandwidth).
bool fits(const Card& card, std::optional<std::uint64_t> memory) {
  if (!memory) return true;
  const double ratio = static_cast<double>(*memory) / static_cast<double>(card.memory_bytes);
  return ratio > 0.85 && ratio < 1.08;
}

std::string squash(const Words& words) {
  std::string s;
  for (const auto& w : words)
    if (w != "nvidia" && w != "tesla" && w != "geforce" && w != "quadro" && w != "jetson" &&
        w != "agx")
      s += w;
  if (s.size() > 2 && s.ends_with("gb")) s.resize(s.size() - 2);
  return s;
}

// "rtx-3060-ti" is in the families "rtx", "rtx3060" and "rtx3060ti".
bool is_in_family(const Card& card, const std::string& family) {
  std::string prefix;
  for (const auto& word : words_of(card.key)) {
    prefix += word == "jetson" ? "" : word;
    if (prefix == family) return true;
  }
  return false;
}

const Card* smallest_of(const std::string& family) {
  const Card* best = nullptr;
  for (const Card& card : kCards) {
    if (squash(words_of(card.key)) == family) return &card;
    if (!is_in_family(card, family)) continue;
    if (best == nullptr || card.memory_bytes < best->memory_bytes) best = &card;
  }
  return best;
}

}  // namespace

std::string_view to_string(Precision precision) noexcept {
  constexpr std::string_view kNames[] = {"fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"};
  return kNames[static_cast<std::size_t>(precision)];
}

std::optional<double> Peaks::of(Precision precision) const noexcept {
  switch (precision) {
    case Precision::fp64: return fp64;
    case Precision::fp32: return fp32;
    case Precision::tf32: return tf32;
    case Precision::bf16: return bf16;
    case Precision::fp16: return fp16;
    case Precision::fp8: return fp8;
    case Precision::int8: return int8;
  }
  return std::nullopt;
}

std::span<const Card> catalogue() noexcept { return kCards; }

std::optional<VectorRates> vector_rates(const Card& card) noexcept {
  for (const PerClock& row : kPerClock) {
    if (row.compute_major != card.compute_major || row.compute_minor != card.compute_minor)
      continue;
    if (!card.peaks.fp32) return std::nullopt;
    const double clocks = *card.peaks.fp32 / 2 / row.fp32;  // of all multiprocessors, a second
    return VectorRates{clocks * row.issued, clocks * row.fp32, clocks * row.fp64,
                       clocks * row.special, clocks * kSharedBytes};
  }
  return std::nullopt;
}

std::optional<Card> find_card(std::string_view driver_name, std::optional<std::uint64_t> memory) {
  const Words name = words_of(driver_name);
  const Card* best = nullptr;
  for (const Card& card : kCards) {
    if (!names(card, name) || !fits(card, memory)) continue;
    // The more of the name a row explains, the better it fits.
    if (best == nullptr || card.match.size() > best->match.size()) best = &card;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::optional<Card> find_profile(std::string_view name) {
  const std::string family = squash(words_of(name));
  if (family.empty()) {
    const Words raw = words_of(name);
    return has(raw, "jetson") ? find_profile("orin") : std::nullopt;
  }
  const bool is_rtx = family.starts_with("rtx") && family.size() > 3;
  for (const std::string& form :
       {family, is_rtx ? family.substr(3) : family, "rtx" + family, "gtx" + family})
    if (const Card* card = smallest_of(form)) return *card;
  return std::nullopt;
}

PrecisionChoice recommend(const Peaks& peaks) noexcept {
  if (!peaks.fp32) return {Precision::fp32, "peak rates are not known; fp32 is always right"};
  const double fp32 = *peaks.fp32;
  const double fp16 = peaks.fp16.value_or(0), bf16 = peaks.bf16.value_or(0);
  constexpr double kWorthwhile = 1.5;  // less gain than this is not worth fewer bits
  if (bf16 >= kWorthwhile * fp32 && bf16 >= fp16)
    return {Precision::bf16,
            "bf16 runs on the tensor cores as fast as fp16 and has fp32's range, so nothing "
            "overflows"};
  if (fp16 >= kWorthwhile * fp32)
    return {Precision::fp16, "fp16 is the fastest precision here that needs no calibration"};
  if (peaks.tf32.value_or(0) >= kWorthwhile * fp32)
    return {Precision::tf32, "tf32 runs on the tensor cores and takes fp32 data as it is"};
  if (peaks.int8.value_or(0) >= kWorthwhile * fp32)
    return {Precision::fp32,
            "fp16 is slower than fp32 on this card; int8 is faster than both once a model has "
            "been calibrated for it"};
  return {Precision::fp32, "no shorter precision is faster on this card"};
}

Json to_json(const Card& card) {
  Json rates = Json::object();
  for (const auto p : {Precision::fp64, Precision::fp32, Precision::tf32, Precision::bf16,
                       Precision::fp16, Precision::fp8, Precision::int8})
    if (const auto rate = card.peaks.of(p)) rates[std::string(to_string(p))] = *rate;
  return {{"key", card.key},
          {"title", card.title},
          {"memory_bytes", card.memory_bytes},
          {"bandwidth_bytes_per_s", card.bandwidth},
          {"board_power_w", card.board_power_w},
          {"peak_ops_per_s", rates}};
}

}  // namespace sluice::device
