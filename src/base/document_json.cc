// RFC 8259, strictly: no comments, no trailing commas, no NaN. One pass over the
// text; every value and key keeps its line.
#include <fmt/core.h>

#include <charconv>
#include <map>

#include "base/document.h"
#include "base/utf8.h"

namespace sluice {

namespace {

// Ends the parse at the first syntax error.
struct SyntaxError {
  int line;
  std::string cause;
};

class JsonReader {
 public:
  JsonReader(const std::string& name, std::string_view text, std::vector<Problem>& problems)
      : name_(name), text_(text), problems_(problems) {}

  Node document() {
    skip_blanks();
    if (at_end()) fail("is empty; the least a JSON file holds is {}");
    Node root = value(1);
    skip_blanks();
    if (!at_end()) fail(fmt::format("unexpected {} after the end of the document", here()));
    return root;
  }

 private:
  [[noreturn]] void fail(std::string cause) const { throw SyntaxError{line_, std::move(cause)}; }

  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  char next() {
    if (at_end()) fail("ends too early");
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    return c;
  }
  bool take(char c) {
    if (peek() != c || at_end()) return false;
    next();
    return true;
  }
  void skip_blanks() {
    while (!at_end() && std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) next();
  }

  // Describes the token at the reader, for a message.
  std::string here() const {
    if (at_end()) return "end of file";
    const auto c = static_cast<unsigned char>(peek());
    if (c == '\n') return "end of line";
    return c < 0x20 || c >= 0x7F ? fmt::format("byte 0x{:02x}", c) : fmt::format("'{}'", peek());
  }

  Node value(int depth) {
    if (depth > kMaxDocumentDepth)
      fail(fmt::format("nested deeper than {} levels", kMaxDocumentDepth));
    const int line = line_;
    Node node = value_at(depth);
    node.line = line;
    return node;
  }

  Node value_at(int depth) {
    switch (peek()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': return Node::of(string());
      case 't': return word("true", Node::of(true));
      case 'f': return word("false", Node::of(false));
      case 'n': return word("null", Node{});
      default: break;
    }
    if (peek() == '-' || (peek() >= '0' && peek() <= '9')) return number();
    if (peek() == '/' || peek() == '#') fail("comments are not allowed in JSON; TOML has them");
    fail(fmt::format("expected a value, found {}", here()));
  }

  Node word(std::string_view expected, Node node) {
    if (!text_.substr(at_).starts_with(expected))
      fail(fmt::format("expected a value, found {}", here()));
    at_ += expected.size();
    return node;
  }

  Node array(int depth) {
    next();
    Node node = Node::array();
    skip_blanks();
    if (take(']')) return node;
    do {
      skip_blanks();
      if (peek() == ']') fail("a comma before ']'");
      node.items.push_back(value(depth + 1));
      skip_blanks();
    } while (take(','));
    if (!take(']')) fail(fmt::format("expected ',' or ']', found {}", here()));
    return node;
  }

  Node object(int depth) {
    next();
    Node node = Node::table();
    std::map<std::string, int, std::less<>> seen;
    skip_blanks();
    if (take('}')) return node;
    do {
      skip_blanks();
      if (peek() == '}') fail("a comma before '}'");
      member(depth, node, seen);
      skip_blanks();
    } while (take(','));
    if (!take('}')) fail(fmt::format("expected ',' or '}}', found {}", here()));
    return node;
  }

  void member(int depth, Node& node, std::map<std::string, int, std::less<>>& seen) {
    if (peek() != '"') fail(fmt::format("expected a name in quotes, found {}", here()));
    const int line = line_;
    auto key = string();
    skip_blanks();
    if (!take(':')) fail(fmt::format("expected ':' after a name, found {}", here()));
    skip_blanks();
    Node child = value(depth + 1);
    const auto [first, fresh] = seen.emplace(key, line);
    if (fresh)
      node.members.push_back({std::move(key), line, std::move(child)});
    else
      problems_.push_back({fmt::format("{}:{}", name_, line), key,
                           fmt::format("given twice; first on line {}", first->second)});
  }

  std::string string() {
    const int line = line_;
    next();
    std::string out;
    for (;;) {
      if (at_end()) throw SyntaxError{line, "text in quotes has no end"};
      const char c = next();
      if (c == '"') return out;
      if (c == '\n') throw SyntaxError{line, "text in quotes has no end on its line"};
      if (static_cast<unsigned char>(c) < 0x20)
        fail("a control character in quotes; write \\u00..");
      if (c == '\\')
        escape(out);
      else
        out += c;
    }
  }

  void escape(std::string& out) {
    static constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
    const char c = next();
    if (const auto i = kFrom.find(c); i != kFrom.npos)
      out += kTo[i];
    else if (c == 'u')
      append_utf8(out, code_point());
    else
      fail("an unknown escape after '\\'");
  }

  std::uint32_t code_point() {
    const auto high = hex4();
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high > 0xDBFF || !take('\\') || !take('u')) fail("half of a surrogate pair");
    const auto low = hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("half of a surrogate pair");
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  }

  std::uint32_t hex4() {
    const auto digits = text_.substr(at_, 4);
    std::uint32_t value = 0;
    const auto end = digits.data() + digits.size();
    if (digits.size() < 4 || std::from_chars(digits.data(), end, value, 16).ptr != end)
      fail("\\u needs four hexadecimal digits");
    at_ += 4;
    return value;
  }

  std::size_t digits() {
    const auto start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ - start;
  }

  Node number() {
    const auto start = at_;
    bool is_integer = true;
    take('-');
    const bool zero = peek() == '0';
    const auto n = digits();
    if (n == 0 || (zero && n > 1)) fail("a number is badly written");
    if (take('.')) {
      is_integer = false;
      if (digits() == 0) fail("a number is badly written: no digit after '.'");
    }
    if (peek() == 'e' || peek() == 'E') {
      is_integer = false;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (digits() == 0) fail("a number is badly written: no digit after 'e'");
    }
    return number_from(text_.substr(start, at_ - start), is_integer);
  }

  Node number_from(std::string_view text, bool is_integer) const {
    const auto end = text.data() + text.size();
    std::int64_t integer = 0;
    if (is_integer && std::from_chars(text.data(), end, integer).ec == std::errc{})
      return Node::of(integer);
    double number = 0;
    if (std::from_chars(text.data(), end, number).ec != std::errc{})
      fail("a number is out of range");
    return Node::of(number);
  }

  const std::string& name_;
  std::string_view text_;
  std::vector<Problem>& problems_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}  // namespace

Node parse_json(const std::string& name, std::string_view text, std::vector<Problem>& problems) {
  const auto known = problems.size();
  try {
    Node root = JsonReader(name, text, problems).document();
    if (root.kind == Node::Kind::table) return root;
    problems.push_back(
        {fmt::format("{}:{}", name, root.line), "",
         fmt::format("holds {} at the top; a table {{...}} is needed", kind_name(root.kind))});
  } catch (const SyntaxError& e) {
    problems.resize(known);  // what came before a syntax error may be its consequence
    problems.push_back({fmt::format("{}:{}", name, e.line), "", e.cause});
  }
  return Node::table();
}

}  // namespace sluice
