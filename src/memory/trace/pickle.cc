// A pickle is a program for a small stack machine. This one has the instructions that
// build plain data and none that name a class or call anything.
//
//   PROTO 4, FRAME n        header; frames only group bytes and are skipped
//   EMPTY_DICT, MEMOIZE     push {}; remember it
//   MARK, key, value...     push; SETITEMS pops to the mark, into the dict below it
//   BINGET n                push what was remembered
//   STOP                    the one value left is the answer
#include "memory/trace/pickle.h"

#include <fmt/core.h>

#include <bit>

#include "base/error.h"

namespace sluice::memory {

namespace {

// Keys of one dict. Dicts that PyTorch writes have about ten; the search is linear.
constexpr std::size_t kMaxKeys = 1000;

using Kind = PlainData::Kind;
using Value = PlainData::Value;

// The instructions by their byte; those not listed are refused.
enum Op : std::uint8_t {
  op_mark = '(',
  op_stop = '.',
  op_pop = '0',
  op_pop_mark = '1',
  op_dup = '2',
  op_binfloat = 'G',
  op_binint = 'J',
  op_binint1 = 'K',
  op_binint2 = 'M',
  op_none = 'N',
  op_binstring = 'T',
  op_short_binstring = 'U',
  op_binunicode = 'X',
  op_append = 'a',
  op_dict = 'd',
  op_empty_dict = '}',
  op_appends = 'e',
  op_binget = 'h',
  op_long_binget = 'j',
  op_list = 'l',
  op_empty_list = ']',
  op_binput = 'q',
  op_long_binput = 'r',
  op_setitem = 's',
  op_tuple = 't',
  op_empty_tuple = ')',
  op_setitems = 'u',
  op_binbytes = 'B',
  op_short_binbytes = 'C',
  op_proto = 0x80,
  op_tuple1 = 0x85,
  op_tuple2 = 0x86,
  op_tuple3 = 0x87,
  op_newtrue = 0x88,
  op_newfalse = 0x89,
  op_long1 = 0x8a,
  op_long4 = 0x8b,
  op_short_binunicode = 0x8c,
  op_binunicode8 = 0x8d,
  op_binbytes8 = 0x8e,
  op_memoize = 0x94,
  op_frame = 0x95,
  op_bytearray8 = 0x96,
};

// Opcodes that would construct or call objects of the program that wrote the file.
std::string_view refused_name(std::uint8_t op) {
  switch (op) {
    case 'c': return "GLOBAL";
    case 'R': return "REDUCE";
    case 'b': return "BUILD";
    case 'i': return "INST";
    case 'o': return "OBJ";
    case 'P': return "PERSID";
    case 'Q': return "BINPERSID";
    case 0x81: return "NEWOBJ";
    case 0x82: return "EXT1";
    case 0x83: return "EXT2";
    case 0x84: return "EXT4";
    case 0x8f: return "EMPTY_SET";
    case 0x90: return "ADDITEMS";
    case 0x91: return "FROZENSET";
    case 0x92: return "NEWOBJ_EX";
    case 0x93: return "STACK_GLOBAL";
    case 0x97: return "NEXT_BUFFER";
    case 0x98: return "READONLY_BUFFER";
    default: return "";
  }
}

Value boolean(bool b) {
  Value value;
  value.kind = Kind::boolean;
  value.integer = b ? 1 : 0;
  return value;
}

Value integer(std::int64_t i) {
  Value value;
  value.kind = Kind::integer;
  value.integer = i;
  return value;
}

class Machine {
 public:
  Machine(std::string_view bytes, const PlainLimits& limits) : bytes_(bytes), limits_(limits) {}

  PlainData run() {
    if (bytes_.size() < 2 || static_cast<std::uint8_t>(bytes_[0]) != op_proto)
      fail("this is no pickle of protocol 2 or later: it does not begin with PROTO");
    while (!stopped_) {
      at_ = position_;
      const auto op = static_cast<std::uint8_t>(take(1)[0]);
      if (!number(op) && !text(op) && !container(op) && !memo(op)) other(op);
      if (stack_.size() + memo_.size() + held_ > limits_.values)
        fail(fmt::format("more than {} values; raise the limit or record less", limits_.values));
    }
    return std::move(data_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(Code::invalid_argument, fmt::format("pickle: {} (at byte {})", why, at_));
  }

  // ---- input ---------------------------------------------------------------------

  std::string_view take(std::uint64_t n) {
    if (n > bytes_.size() - position_) fail("cut short: the file ends inside an instruction");
    const auto part = bytes_.substr(position_, static_cast<std::size_t>(n));
    position_ += part.size();
    return part;
  }

  std::uint64_t unsigned_of(std::size_t n) {  // little-endian
    std::uint64_t value = 0;
    const auto part = take(n);
    for (std::size_t i = n; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(part[i]);
    return value;
  }

  Value long_of(std::uint64_t n) {
    const auto part = take(n);
    if (n > 8) {
      Value wide;
      wide.kind = Kind::wide;
      return wide;
    }
    const bool negative = n > 0 && (static_cast<std::uint8_t>(part.back()) & 0x80) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = part.size(); i-- > 0;)
      value = value << 8 | static_cast<std::uint8_t>(part[i]);
    return integer(static_cast<std::int64_t>(value));
  }

  Value float_of() {  // big-endian, unlike everything else
    std::uint64_t bits = 0;
    for (const char c : take(8)) bits = bits << 8 | static_cast<std::uint8_t>(c);
    Value value;
    value.kind = Kind::real;
    value.real = std::bit_cast<double>(bits);
    return value;
  }

  // ---- the stack -----------------------------------------------------------------

  void push(Value value) { stack_.push_back(value); }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  Value pop() {
    if (stack_.size() <= floor()) fail("an instruction finds too few values");
    const auto value = stack_.back();
    stack_.pop_back();
    return value;
  }

  Value& top() {
    if (stack_.size() <= floor()) fail("an instruction finds too few values");
    return stack_.back();
  }

  std::size_t pop_mark() {
    if (marks_.empty()) fail("an instruction wants a mark and there is none");
    const auto from = marks_.back();
    marks_.pop_back();
    return from;
  }

  // Moves what lies above `from` to the end of `into`.
  void gather(std::size_t from, Value into) {
    auto& items = data_.container(into);
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(from);
    items.insert(items.end(), begin, stack_.end());
    held_ += stack_.size() - from;
    stack_.erase(begin, stack_.end());
    if (into.kind == Kind::dict && items.size() > 2 * kMaxKeys)
      fail("a dict of more than " + std::to_string(kMaxKeys) + " keys");
  }

  Value made(Kind kind, std::size_t from) {
    const auto value = fresh(kind);
    if (kind == Kind::dict && (stack_.size() - from) % 2 != 0) fail("a key without a value");
    gather(from, value);
    return value;
  }

  Value fresh(Kind kind) {
    held_ += 2;  // an empty one takes space too
    return data_.add_container(kind);
  }

  void tuple_of(std::size_t n) {
    if (stack_.size() - floor() < n) fail("an instruction finds too few values");
    push(made(Kind::tuple, stack_.size() - n));
  }

  // Adds what lies above `from` to the container just below it.
  void add_to(Kind kind, std::size_t from) {
    if (from <= floor() || stack_[from - 1].kind != kind)
      fail(kind == Kind::dict ? "items for a dict that is not there"
                              : "items for a list that is not there");
    if (kind == Kind::dict && (stack_.size() - from) % 2 != 0) fail("a key without a value");
    gather(from, stack_[from - 1]);
  }

  // ---- instructions, by family -----------------------------------------------------

  bool number(std::uint8_t op) {
    switch (op) {
      case op_none: push({}); return true;
      case op_newtrue: push(boolean(true)); return true;
      case op_newfalse: push(boolean(false)); return true;
      case op_binint1: push(integer(static_cast<std::int64_t>(unsigned_of(1)))); return true;
      case op_binint2: push(integer(static_cast<std::int64_t>(unsigned_of(2)))); return true;
      case op_binint: push(long_of(4)); return true;
      case op_long1: push(long_of(unsigned_of(1))); return true;
      case op_long4: push(long_of(unsigned_of(4))); return true;
      case op_binfloat: push(float_of()); return true;
      default: return false;
    }
  }

  void push_text(Kind kind, std::uint64_t size) {
    ++held_;
    push(data_.add_text(kind, take(size), false));
  }

  bool text(std::uint8_t op) {
    switch (op) {
      case op_short_binstring:
      case op_short_binunicode: push_text(Kind::text, unsigned_of(1)); return true;
      case op_binstring:
      case op_binunicode: push_text(Kind::text, unsigned_of(4)); return true;
      case op_binunicode8: push_text(Kind::text, unsigned_of(8)); return true;
      case op_short_binbytes: push_text(Kind::bytes, unsigned_of(1)); return true;
      case op_binbytes: push_text(Kind::bytes, unsigned_of(4)); return true;
      case op_binbytes8:
      case op_bytearray8: push_text(Kind::bytes, unsigned_of(8)); return true;
      default: return false;
    }
  }

  bool container(std::uint8_t op) {
    switch (op) {
      case op_empty_dict: push(fresh(Kind::dict)); return true;
      case op_empty_list: push(fresh(Kind::list)); return true;
      case op_empty_tuple: push(fresh(Kind::tuple)); return true;
      case op_dict: push(made(Kind::dict, pop_mark())); return true;
      case op_list: push(made(Kind::list, pop_mark())); return true;
      case op_tuple: push(made(Kind::tuple, pop_mark())); return true;
      case op_tuple1: tuple_of(1); return true;
      case op_tuple2: tuple_of(2); return true;
      case op_tuple3: tuple_of(3); return true;
      case op_append: add_to(Kind::list, one_below(1)); return true;
      case op_appends: add_to(Kind::list, pop_mark()); return true;
      case op_setitem: add_to(Kind::dict, one_below(2)); return true;
      case op_setitems: add_to(Kind::dict, pop_mark()); return true;
      default: return false;
    }
  }

  std::size_t one_below(std::size_t n) {
    if (stack_.size() - floor() <= n) fail("an instruction finds too few values");
    return stack_.size() - n;
  }

  void remember(std::uint64_t index) {
    // Every number costs the writer a byte or more, so an honest one is below the size.
    if (index >= bytes_.size() || index >= limits_.values)
      fail(fmt::format("remembers under the number {}", index));
    if (memo_.size() <= index) memo_.resize(static_cast<std::size_t>(index) + 1, unset());
    memo_[static_cast<std::size_t>(index)] = top();
  }

  static Value unset() {
    Value value;
    value.kind = static_cast<Kind>(0xff);
    return value;
  }

  void recall(std::uint64_t index) {
    if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)].kind == unset().kind)
      fail(fmt::format("asks for number {}, which was never remembered", index));
    push(memo_[static_cast<std::size_t>(index)]);
  }

  bool memo(std::uint8_t op) {
    switch (op) {
      case op_memoize: remember(memo_.size()); return true;
      case op_binput: remember(unsigned_of(1)); return true;
      case op_long_binput: remember(unsigned_of(4)); return true;
      case op_binget: recall(unsigned_of(1)); return true;
      case op_long_binget: recall(unsigned_of(4)); return true;
      default: return false;
    }
  }

  void mark() {
    if (marks_.size() >= limits_.depth)
      fail(fmt::format("nested more than {} deep", limits_.depth));
    marks_.push_back(stack_.size());
  }

  void stop() {
    if (stack_.size() != 1 || !marks_.empty()) fail("ends with values left over");
    data_.set_root(stack_.back());
    stopped_ = true;
  }

  void protocol() {
    const auto version = unsigned_of(1);
    if (version < 2 || version > 5) fail(fmt::format("protocol {}; 2 to 5 are read", version));
  }

  void other(std::uint8_t op) {
    switch (op) {
      case op_proto: protocol(); return;
      case op_frame: unsigned_of(8); return;
      case op_mark: mark(); return;
      case op_stop: stop(); return;
      case op_dup: push(Value(top())); return;
      case op_pop: pop(); return;
      case op_pop_mark: stack_.resize(pop_mark()); return;
      default: break;
    }
    const auto name = refused_name(op);
    if (!name.empty())
      fail(fmt::format("instruction {} (0x{:02x}) is not plain data and is never executed", name,
                       op));
    fail(fmt::format("unknown instruction 0x{:02x}", op));
  }

  std::string_view bytes_;
  const PlainLimits& limits_;
  std::size_t position_ = 0, at_ = 0;
  bool stopped_ = false;
  PlainData data_;
  std::vector<Value> stack_, memo_;
  std::vector<std::size_t> marks_;
  std::size_t held_ = 0;  // values in containers
};

}  // namespace

PlainData read_pickle(std::string_view bytes, const PlainLimits& limits) {
  return Machine(bytes, limits).run();
}

}  // namespace sluice::memory
