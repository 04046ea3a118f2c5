// Cast, CastLike and BitCast.
#include <cstring>

#include "engine/ops/convert.h"
#include "engine/ops/families.h"

namespace sluice::engine {
namespace {

CastRules rules_of(OpCall& call) {
  CastRules rules;
  rules.saturate = call.attributes().flag("saturate", true);
  const std::string round = call.attributes().string("round_mode", "up");
  if (round == "down")
    rules.round = CastRules::Round::down;
  else if (round == "nearest")
    rules.round = CastRules::Round::nearest;
  else
    require(round == "up", "round_mode '" + round + "' is not known");
  return rules;
}

constexpr std::pair<std::string_view, DType> kNames[] = {
    {"FLOAT", DType::f32},    {"UINT8", DType::u8},     {"INT8", DType::i8},
    {"UINT16", DType::u16},   {"INT16", DType::i16},    {"INT32", DType::i32},
    {"INT64", DType::i64},    {"BOOL", DType::boolean}, {"FLOAT16", DType::f16},
    {"DOUBLE", DType::f64},   {"UINT32", DType::u32},   {"UINT64", DType::u64},
    {"STRING", DType::string}};

// Before opset 6 the type was a string.
DType named_type(const std::string& name) {
  for (const auto& [known, type] : kNames)
    if (known == name) return type;
  throw Error(Code::invalid_argument, "element type '" + name + "' is not known");
}

void cast_to(OpCall& call, DType to) {
  require(to != DType::none, "attribute 'to' is missing");
  if (to == DType::c64 || to == DType::c128) unsupported_type(to);
  const CastRules rules = rules_of(call);
  call.declare_output(0, to, call.input(0).shape());
  call.set_output(0, converted(call.input(0), to, rules));
}

void cast_named(OpCall& call) { cast_to(call, named_type(call.attributes().string("to", ""))); }
void cast(OpCall& call) {
  call.attributes().integer("to");
  cast_to(call, call.attributes().dtype("to", DType::f32));
}
void cast_like(OpCall& call) { cast_to(call, call.input(1).dtype()); }

void bit_cast(OpCall& call) {
  const Tensor& in = call.input(0);
  call.attributes().integer("to");
  const DType to = call.attributes().dtype("to", DType::f32);
  require(
      to != DType::string && bits(to) == bits(in.dtype()),
      std::string(to_string(in.dtype())) + " has other bits than " + std::string(to_string(to)));
  const Tensor out = call.output(0, to, in.shape());
  if (in.bytes() > 0) std::memcpy(out.data(), in.data(), in.bytes());
  // Sub-byte integers are sign-extended to a byte each, low-precision floats are not.
  const auto raw = static_cast<unsigned char*>(out.data());
  const auto fix = [&](unsigned mask) {
    for (std::int64_t i = 0; i < out.size(); ++i) {
      const unsigned low = raw[i] & mask;
      const bool minus = (to == DType::i4 || to == DType::i2) && low > mask / 2;
      raw[i] = static_cast<unsigned char>(minus ? low | ~mask : low);
    }
  };
  if (bits(to) < 8) fix((1u << bits(to)) - 1u);
  if (to == DType::boolean) {
    for (std::int64_t i = 0; i < out.size(); ++i) raw[i] = raw[i] != 0 ? 1 : 0;
  }
}

constexpr Types kCastable = kNumbers | kLowPrecision | Types{DType::boolean, DType::string};

constexpr Op kCastOps[] = {
    {"Cast", 1, kCastable, cast_named},
    {"Cast", 6, kCastable, cast},
    {"CastLike", 15, kCastable, cast_like},
    {"BitCast", 26, kNumbers | kLowPrecision | Types{DType::boolean, DType::c64, DType::c128},
     bit_cast},
};

}  // namespace

std::span<const Op> cast_ops() { return kCastOps; }

}  // namespace sluice::engine
