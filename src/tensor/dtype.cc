#include "tensor/dtype.h"

namespace sluice {
namespace {

struct Facts {
  std::string_view name;
  int bits;
  char kind;  // f: floating, i: integer, other: -
};

constexpr Facts kFacts[kDTypes] = {
    {"none", 0, '-'},       {"f32", 32, 'f'},     {"u8", 8, 'i'},         {"i8", 8, 'i'},
    {"u16", 16, 'i'},       {"i16", 16, 'i'},     {"i32", 32, 'i'},       {"i64", 64, 'i'},
    {"string", 0, '-'},     {"bool", 8, '-'},     {"f16", 16, 'f'},       {"f64", 64, 'f'},
    {"u32", 32, 'i'},       {"u64", 64, 'i'},     {"c64", 64, '-'},       {"c128", 128, '-'},
    {"bf16", 16, 'f'},      {"f8e4m3fn", 8, 'f'}, {"f8e4m3fnuz", 8, 'f'}, {"f8e5m2", 8, 'f'},
    {"f8e5m2fnuz", 8, 'f'}, {"u4", 4, 'i'},       {"i4", 4, 'i'},         {"f4e2m1", 4, 'f'},
    {"f8e8m0", 8, 'f'},     {"u2", 2, 'i'},       {"i2", 2, 'i'},
};

const Facts& facts(DType type) noexcept {
  const auto place = static_cast<std::size_t>(type);
  return kFacts[place < kDTypes ? place : 0];
}

}  // namespace

std::string_view to_string(DType type) noexcept { return facts(type).name; }
int bits(DType type) noexcept { return facts(type).bits; }
bool is_float(DType type) noexcept { return facts(type).kind == 'f'; }
bool is_integer(DType type) noexcept { return facts(type).kind == 'i'; }

}  // namespace sluice
