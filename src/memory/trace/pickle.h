// Plain data as Python and JSON write it: numbers, texts, lists, tuples, dicts. The
// pickle reader executes nothing: it knows the opcodes that such data needs
// (protocols 2 to 5) and refuses every other one, naming it and its offset.
//
// A document is flat: values refer to containers by number, so that a file of any
// depth, and one that refers to itself, is read, held and destroyed without recursion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::memory {

class PlainData {
 public:
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    wide,  // an integer of more than 64 bits; its value is not kept
    real,
    text,
    bytes,
    list,
    tuple,
    dict,  // key, value, key, value...
  };

  struct Value {
    Kind kind = Kind::none;
    union {
      std::int64_t integer = 0;
      double real;
      std::uint32_t index;  // of a text or a container
    };
  };

  Value root() const noexcept { return root_; }

  // The bytes of a text; empty for anything else.
  std::string_view text(Value value) const noexcept;
  // The items of a list, tuple or dict; none for anything else.
  const std::vector<Value>& items(Value value) const noexcept;
  // The value of a text key in a dict: the last of several, as Python has it.
  std::optional<Value> find(Value dict, std::string_view key) const noexcept;

  // For readers that fill the document. `text` without `keep` must outlive it.
  Value add_text(Kind kind, std::string_view text, bool keep);
  Value add_container(Kind kind);
  std::vector<Value>& container(Value value) noexcept { return containers_[value.index]; }
  void set_root(Value value) noexcept { root_ = value; }

 private:
  Value root_;
  std::vector<std::string_view> texts_;
  std::deque<std::string> kept_;  // what texts_ points into where the input has no such bytes
  std::vector<std::vector<Value>> containers_;
};

struct PlainLimits {
  std::size_t values = 100'000'000;  // stacked, remembered and held, all together: 16 bytes each
  std::size_t depth = 1000;
};

// `bytes` must outlive the document. Throws invalid_argument for what is no pickle of
// plain data, is cut short, or is larger than `limits`.
PlainData read_pickle(std::string_view bytes, const PlainLimits& limits = {});

// The same from JSON, which need not stay.
PlainData read_json(std::string_view text, const PlainLimits& limits = {});

}  // namespace sluice::memory
