#include "kernels/elementwise/chain.h"

#include <array>
#include <cstddef>

namespace sluice::kernels {
namespace {

using enum Chain::Op;
struct OpInfo {
  std::string_view name;
  int operands;
};
constexpr std::array<OpInfo, 27> kOps = {{
    {"constant", 0},    {"add", 2},        {"subtract", 2},       {"multiply", 2},
    {"divide", 2},      {"power", 2},      {"minimum", 2},        {"maximum", 2},
    {"negate", 1},      {"absolute", 1},   {"reciprocal", 1},     {"square_root", 1},
    {"exponential", 1}, {"logarithm", 1},  {"error_function", 1}, {"tanh", 1},
    {"sigmoid", 1},     {"relu", 1},       {"gelu", 1},           {"gelu_tanh", 1},
    {"silu", 1},        {"hard_swish", 1}, {"softplus", 1},       {"floor", 1},
    {"ceil", 1},        {"sine", 1},       {"cosine", 1},
}};
static_assert(kOps[static_cast<std::size_t>(cosine)].name == "cosine");
static_assert(kOps[static_cast<std::size_t>(gelu)].name == "gelu");

const OpInfo& info(Chain::Op op) { return kOps[static_cast<std::size_t>(op)]; }

}  // namespace

int Chain::operands(Op op) { return info(op).operands; }
std::string_view Chain::name(Op op) { return info(op).name; }

std::optional<Chain::Op> Chain::op_named(std::string_view name) {
  for (std::size_t i = 0; i < kOps.size(); ++i)
    if (kOps[i].name == name) return static_cast<Op>(i);
  return std::nullopt;
}

}  // namespace sluice::kernels
