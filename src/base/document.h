// A configuration text as a tree that remembers where everything stood, whether it
// was written as TOML or as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace sluice {

struct Member;

// One value. Only the field that belongs to `kind` means anything.
struct Node {
  enum class Kind { null, boolean, integer, number, text, date, array, table };

  Kind kind = Kind::null;
  int line = 0;  // from 1; 0 when it came from no file
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<Node> items;
  std::vector<Member> members;  // in the order written; keys are unique

  static Node of(bool value);
  static Node of(std::int64_t value);
  static Node of(double value);
  static Node of(std::string value);
  static Node array();
  static Node table();
};

struct Member {
  std::string key;
  int line = 0;
  Node value;
};

bool same(const Node& a, const Node& b);  // by value; lines do not matter
Json to_json(const Node& node);
const Node* find(const Node& table, std::string_view key);  // null when absent

// "an integer", "a table": for messages.
std::string_view kind_name(Node::Kind kind) noexcept;

// One configuration error and its location.
struct Problem {
  std::string where;  // "sluice.toml:12", "env GPU_ENABLED", "flag --port"
  std::string name;   // "serve.port", or empty when it is about the whole
  std::string cause;
};

std::string to_string(
    const Problem& problem);  // "sluice.toml:12: serve.port: 70000 is above 65535"

// All problems as one invalid_argument. Does nothing when there are none.
void throw_if_any(const std::vector<Problem>& problems);

struct Document {
  std::string name;  // as shown in messages: the path as given
  Node root = Node::table();
};

enum class Format { toml, json };

inline constexpr std::size_t kMaxDocumentBytes = 1 << 20;
inline constexpr int kMaxDocumentDepth = 32;
inline constexpr int kMaxDocumentValues = 10'000;

// From .toml or .json; with any other name, JSON when it begins with '{'.
Format format_of(std::string_view name, std::string_view text);

// Reads what can be read and appends what cannot, with lines. A syntax error leaves
// an empty root. A leading UTF-8 byte order mark is skipped; a key given twice is a
// problem.
Document parse_document(std::string name, std::string_view text, Format format,
                        std::vector<Problem>& problems);

// The same for a file. A missing, unreadable or too large file and a folder are
// problems too.
Document read_document(const std::string& path, std::vector<Problem>& problems);

// The two languages; text is valid UTF-8 without a byte order mark.
Node parse_json(const std::string& name, std::string_view text, std::vector<Problem>& problems);
Node parse_toml(const std::string& name, std::string_view text, std::vector<Problem>& problems);

}  // namespace sluice
