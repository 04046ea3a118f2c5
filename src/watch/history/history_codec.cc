#include "watch/history/history_codec.h"

#include <cmath>
#include <cstring>

#include "base/error.h"

namespace sluice::watch {

namespace {

enum Tag : unsigned { kSame = 0, kInteger = 1, kFloat = 2, kDouble = 3 };
constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

template <class T>
void put_raw(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

// Returns the tag; `before` is the value just written.
unsigned put_value(std::string& out, double value, double before) {
  if (value == before) return kSame;
  if (value == std::floor(value) && std::abs(value) <= kMaxExactInteger) {
    const auto integer = static_cast<std::int64_t>(value);
    put_varint(out, (static_cast<std::uint64_t>(integer) << 1) ^
                        static_cast<std::uint64_t>(integer >> 63));
    return kInteger;
  }
  if (static_cast<double>(static_cast<float>(value)) == value) {
    put_raw(out, static_cast<float>(value));
    return kFloat;
  }
  put_raw(out, value);
  return kDouble;
}

class Reader {
 public:
  explicit Reader(std::span<const unsigned char> bytes) : left_(bytes) {}

  bool done() const noexcept { return left_.empty(); }

  unsigned byte() {
    if (left_.empty()) throw Error(Code::internal, "history: a row ends too early");
    const unsigned b = left_[0];
    left_ = left_.subspan(1);
    return b;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const unsigned b = byte();
      value |= std::uint64_t{b & 0x7f} << shift;
      if (b < 0x80) return value;
    }
    throw Error(Code::internal, "history: a number in a row has no end");
  }

  template <class T>
  T raw() {
    unsigned char bytes[sizeof(T)];
    for (auto& b : bytes) b = static_cast<unsigned char>(byte());
    T value;
    std::memcpy(&value, bytes, sizeof value);
    return value;
  }

  double value(unsigned tag, double before) {
    switch (tag & 3) {
      case kInteger: {
        const auto coded = varint();
        return static_cast<double>(static_cast<std::int64_t>(coded >> 1) ^
                                   -static_cast<std::int64_t>(coded & 1));
      }
      case kFloat: return static_cast<double>(raw<float>());
      case kDouble: return raw<double>();
      default: return before;
    }
  }

 private:
  std::span<const unsigned char> left_;
};

}  // namespace

std::string encode(std::span<const Entry> entries) {
  std::string out;
  for (const auto& [id, agg] : entries) {
    if (agg.n == 0) continue;
    put_varint(out, id);
    put_varint(out, agg.n);
    const std::size_t tags = out.size();
    out.push_back(0);
    const unsigned low = put_value(out, agg.min, 0);
    const unsigned middle = put_value(out, agg.mean(), agg.min);
    const unsigned high = put_value(out, agg.max, agg.mean());
    out[tags] = static_cast<char>(low | middle << 2 | high << 4);
  }
  return out;
}

std::vector<Entry> decode(std::span<const unsigned char> bytes) {
  std::vector<Entry> entries;
  for (Reader in(bytes); !in.done();) {
    Entry e;
    e.id = static_cast<std::uint32_t>(in.varint());
    e.agg.n = static_cast<std::uint32_t>(in.varint());
    const unsigned tags = in.byte();
    e.agg.min = in.value(tags, 0);
    const double mean = in.value(tags >> 2, e.agg.min);
    e.agg.max = in.value(tags >> 4, mean);
    if (e.agg.n == 0) throw Error(Code::internal, "history: a row counts nothing");
    e.agg.sum = mean * e.agg.n;
    entries.push_back(e);
  }
  return entries;
}

}  // namespace sluice::watch
