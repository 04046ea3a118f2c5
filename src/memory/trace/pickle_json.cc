#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "memory/trace/pickle.h"

namespace sluice::memory {

namespace {

using Kind = PlainData::Kind;
using Value = PlainData::Value;

// Receives what nlohmann's parser finds, which itself does not recurse.
class Builder {
 public:
  explicit Builder(const PlainLimits& limits) : limits_(limits) {}

  bool null() { return add({}); }
  bool boolean(bool value) { return add(plain(Kind::boolean, value ? 1 : 0)); }
  bool number_integer(std::int64_t value) { return add(plain(Kind::integer, value)); }
  bool number_unsigned(std::uint64_t value) {
    const bool fits = value <= static_cast<std::uint64_t>(INT64_MAX);
    return add(plain(fits ? Kind::integer : Kind::wide, static_cast<std::int64_t>(value)));
  }
  bool number_float(double value, const std::string&) {
    Value real;
    real.kind = Kind::real;
    real.real = value;
    return add(real);
  }
  bool string(std::string& value) { return add(text(value)); }
  bool binary(std::vector<std::uint8_t>&) { return false; }
  bool start_object(std::size_t) { return open(Kind::dict); }
  bool key(std::string& value) { return add(text(value)); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(Kind::list); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) {
    throw Error(Code::invalid_argument,
                fmt::format("JSON: not well-formed or cut short at byte {}", position));
  }

  PlainData data;

 private:
  static Value plain(Kind kind, std::int64_t value) {
    Value v;
    v.kind = kind;
    v.integer = value;
    return v;
  }

  // A snapshot repeats a few dozen keys; each is kept once.
  Value text(const std::string& value) {
    const auto found = known_.find(value);
    if (found != known_.end()) return found->second;
    const auto added = data.add_text(Kind::text, value, true);
    if (known_.size() < 100'000) known_.emplace(value, added);
    return added;
  }

  bool add(Value value) {
    require(++count_ <= limits_.values,
            fmt::format("JSON: more than {} values; record less", limits_.values));
    if (open_.empty())
      data.set_root(value);
    else
      data.container(open_.back()).push_back(value);
    return true;
  }

  bool open(Kind kind) {
    require(open_.size() < limits_.depth,
            fmt::format("JSON: nested more than {} deep", limits_.depth));
    const auto value = data.add_container(kind);
    add(value);
    open_.push_back(value);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  const PlainLimits& limits_;
  std::vector<Value> open_;
  std::unordered_map<std::string, Value> known_;
  std::size_t count_ = 0;
};

}  // namespace

PlainData read_json(std::string_view text, const PlainLimits& limits) {
  Builder builder(limits);
  Json::sax_parse(text, &builder);
  return std::move(builder.data);
}

}  // namespace sluice::memory
