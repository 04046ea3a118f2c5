// The cards we know by name: what each can do at most, per precision, and which
// precision is worth using on it. Datasheet figures: dense (no sparsity), on the
// fastest unit that has the precision (tensor cores where there are any), and
// accumulating fp16, bf16 and fp8 products in fp32, which halves the headline
// figure of a GeForce.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/json.h"

namespace sluice::device {

enum class Precision { fp64, fp32, tf32, bf16, fp16, fp8, int8 };

std::string_view to_string(Precision precision) noexcept;

// Operations per second; nothing where the card has no fast path for it.
struct Peaks {
  std::optional<double> fp64, fp32, tf32, bf16, fp16, fp8, int8;

  std::optional<double> of(Precision precision) const noexcept;
};

struct Card {
  std::string_view key;    // "a100-80"; also a gpu_type profile
  std::string_view title;  // "NVIDIA A100 80GB"
  std::string_view match;  // lower-case words that a driver's name must all contain
  int compute_major, compute_minor;
  std::uint64_t memory_bytes;  // nominal
  double bandwidth;            // bytes per second
  double board_power_w;
  Peaks peaks;
};

std::span<const Card> catalogue() noexcept;

// Operations per second of a card's multiprocessors without tensor cores, all of them
// together: operations of single threads, an FMA being one.
struct VectorRates {
  double issued;  // of any kind
  double fp32, fp64;
  double special;       // approximate exp2, log2, sine, cosine, root, reciprocal in fp32
  double shared_bytes;  // from shared memory
};

// From the fp32 peak and what a multiprocessor of the card's generation does in a clock; the
// catalogue's fp64 is that of the matrix units where there are any. Nothing for a generation
// that is not known.
std::optional<VectorRates> vector_rates(const Card& card) noexcept;

// The card a driver's name and memory size mean; V100-16 and V100-32 share a
// name, so memory decides. Nothing when unknown.
std::optional<Card> find_card(std::string_view driver_name, std::optional<std::uint64_t> memory);

// The card of a profile name as people write it: "A100", "a100-80gb", "P4",
// "RTX 3060 Ti", "RTX". Ambiguous families give their smallest member.
std::optional<Card> find_profile(std::string_view name);

struct PrecisionChoice {
  Precision precision;
  std::string_view because;
};

// Recommends a precision for inference: the fastest precision that keeps accuracy without
// calibration, judged from peaks and not from the card's name. A card whose fp16
// is slower than its fp32 (P4: 1/64) never gets fp16.
PrecisionChoice recommend(const Peaks& peaks) noexcept;

Json to_json(const Card& card);

}  // namespace sluice::device
