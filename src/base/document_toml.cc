#include <fmt/core.h>
#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/document.h"

namespace sluice {

namespace {

int line_of(const toml::source_region& source) { return static_cast<int>(source.begin.line); }

// Reads over one quoted text that begins at `at`, and returns its end.
std::size_t skip_quoted(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string triple(3, quote);
  const bool longer = text.substr(at).starts_with(triple);
  at += longer ? 3 : 1;
  while (at < text.size()) {
    if (text[at] == '\\' && quote == '"') {
      at += 2;
    } else if (longer ? text.substr(at).starts_with(triple) : text[at] == quote) {
      return at + (longer ? 3 : 1);
    } else if (!longer && text[at] == '\n') {
      return at;
    } else {
      ++at;
    }
  }
  return text.size();
}

// The first line with a key of more than kMaxDocumentDepth dotted parts, or 0. The
// parser would build a table inside a table for each, without a limit of its own.
int too_many_dots(std::string_view text) {
  int line = 1, dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"' || c == '\'') {
      const auto end = std::min(skip_quoted(text, at), text.size());
      line += static_cast<int>(std::ranges::count(text.substr(at, end - at), '\n'));
      at = end;
      continue;
    }
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (c == '.' && ++dots > kMaxDocumentDepth) return line;
    if (c == '\n' || c == ',' || c == '=' || c == '[' || c == '{') dots = 0;
    if (c == '\n') ++line;
    ++at;
  }
  return 0;
}

Node convert(const toml::node& from, int depth, const std::string& name,
             std::vector<Problem>& problems);

Node convert_table(const toml::table& from, int depth, const std::string& name,
                   std::vector<Problem>& problems) {
  Node node = Node::table();
  for (const auto& [key, value] : from)
    node.members.push_back(
        {std::string(key.str()), line_of(key.source()), convert(value, depth + 1, name, problems)});
  std::ranges::stable_sort(node.members, {}, &Member::line);  // toml++ sorts by name
  return node;
}

Node convert_array(const toml::array& from, int depth, const std::string& name,
                   std::vector<Problem>& problems) {
  Node node = Node::array();
  for (const auto& item : from) node.items.push_back(convert(item, depth + 1, name, problems));
  return node;
}

template <class T>
Node convert_date(const T& value) {
  std::ostringstream text;
  text << value;
  Node node = Node::of(text.str());
  node.kind = Node::Kind::date;
  return node;
}

Node convert_kind(const toml::node& from, int depth, const std::string& name,
                  std::vector<Problem>& problems) {
  switch (from.type()) {
    case toml::node_type::table: return convert_table(*from.as_table(), depth, name, problems);
    case toml::node_type::array: return convert_array(*from.as_array(), depth, name, problems);
    case toml::node_type::string: return Node::of(from.as_string()->get());
    case toml::node_type::integer: return Node::of(from.as_integer()->get());
    case toml::node_type::floating_point: return Node::of(from.as_floating_point()->get());
    case toml::node_type::boolean: return Node::of(from.as_boolean()->get());
    case toml::node_type::date: return convert_date(from.as_date()->get());
    case toml::node_type::time: return convert_date(from.as_time()->get());
    case toml::node_type::date_time: return convert_date(from.as_date_time()->get());
    case toml::node_type::none: break;
  }
  return {};
}

Node convert(const toml::node& from, int depth, const std::string& name,
             std::vector<Problem>& problems) {
  Node node;
  if (depth > kMaxDocumentDepth)
    problems.push_back({fmt::format("{}:{}", name, line_of(from.source())), "",
                        fmt::format("nested deeper than {} levels", kMaxDocumentDepth)});
  else
    node = convert_kind(from, depth, name, problems);
  node.line = line_of(from.source());
  return node;
}

std::string line_text(std::string_view text, int line) {
  std::istringstream lines{std::string(text)};
  std::string found;
  for (int i = 0; i < line; ++i) std::getline(lines, found);
  std::ranges::transform(found, found.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return found;
}

// The parser's message may quote what it saw; a line that may hold a secret is not quoted.
std::string cause_of(const toml::parse_error& error, std::string_view text) {
  const auto line = line_text(text, line_of(error.source()));
  for (const auto* word : {"key", "secret", "token", "password", "webhook"})
    if (line.find(word) != line.npos) return "is not valid TOML";
  return std::string(error.description());
}

}  // namespace

Node parse_toml(const std::string& name, std::string_view text, std::vector<Problem>& problems) {
  if (const int line = too_many_dots(text)) {
    problems.push_back({fmt::format("{}:{}", name, line), "",
                        fmt::format("nested deeper than {} levels", kMaxDocumentDepth)});
    return Node::table();
  }
  try {
    const toml::table root = toml::parse(text);
    return convert(root, 0, name, problems);
  } catch (const toml::parse_error& e) {
    problems.push_back({fmt::format("{}:{}", name, line_of(e.source())), "", cause_of(e, text)});
    return Node::table();
  }
}

}  // namespace sluice
