#include "base/document.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/file_to_read.h"
#include "base/utf8.h"

namespace sluice {

namespace {

constexpr std::size_t kMaxProblemsShown = 50;

Node make(Node::Kind kind) {
  Node node;
  node.kind = kind;
  return node;
}

bool ends_with_any_case(std::string_view text, std::string_view end) {
  if (text.size() < end.size()) return false;
  return std::ranges::equal(text.substr(text.size() - end.size()), end, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

std::string at_line(const std::string& name, std::string_view text, std::size_t offset) {
  const auto lines = std::ranges::count(text.substr(0, offset), '\n') + 1;
  return fmt::format("{}:{}", name, lines);
}

// Reports what makes a text unreadable in both formats.
std::optional<Problem> unreadable(const std::string& name, std::string_view text) {
  if (text.size() > kMaxDocumentBytes)
    return Problem{name, "", fmt::format("larger than the limit of {} bytes", kMaxDocumentBytes)};
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF"))
    return Problem{name + ":1", "", "is UTF-16; save it as UTF-8"};
  if (const auto bad = first_invalid_utf8(text))
    return Problem{
        at_line(name, text, *bad), "",
        fmt::format("byte 0x{:02x} is not valid UTF-8", static_cast<unsigned char>(text[*bad]))};
  if (const auto zero = text.find('\0'); zero != text.npos)
    return Problem{at_line(name, text, zero), "", "contains a zero byte"};
  return std::nullopt;
}

// The line of the value that is one too many, or 0.
int line_past(const Node& node, int& left) {
  if (left-- <= 0) return std::max(node.line, 1);
  for (const auto& item : node.items)
    if (const int line = line_past(item, left)) return line;
  for (const auto& member : node.members)
    if (const int line = line_past(member.value, left)) return line;
  return 0;
}

// Why the file cannot be opened, or empty.
std::string obstacle(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0)
    return errno == ENOENT ? "no such file"
                           : fmt::format("cannot be opened: {}", std::strerror(errno));
  if (S_ISDIR(info.st_mode)) return "is a folder, not a file";
  if (S_ISFIFO(info.st_mode) && !path.starts_with("/dev/")) return "is a FIFO, not a file";
  if (ends_with_any_case(path, ".yaml") || ends_with_any_case(path, ".yml"))
    return "is YAML by its name; write TOML or JSON";
  return {};
}

}  // namespace

Node Node::of(bool value) {
  auto node = make(Kind::boolean);
  node.boolean = value;
  return node;
}
Node Node::of(std::int64_t value) {
  auto node = make(Kind::integer);
  node.integer = value;
  return node;
}
Node Node::of(double value) {
  auto node = make(Kind::number);
  node.number = value;
  return node;
}
Node Node::of(std::string value) {
  auto node = make(Kind::text);
  node.text = std::move(value);
  return node;
}
Node Node::array() { return make(Kind::array); }
Node Node::table() { return make(Kind::table); }

bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Node::Kind::null: return true;
    case Node::Kind::boolean: return a.boolean == b.boolean;
    case Node::Kind::integer: return a.integer == b.integer;
    case Node::Kind::number: return a.number == b.number;
    case Node::Kind::text:
    case Node::Kind::date: return a.text == b.text;
    case Node::Kind::array: return std::ranges::equal(a.items, b.items, same);
    case Node::Kind::table:
      return std::ranges::equal(a.members, b.members, [](const Member& x, const Member& y) {
        return x.key == y.key && same(x.value, y.value);
      });
  }
  return false;
}

Json to_json(const Node& node) {
  switch (node.kind) {
    case Node::Kind::null: return nullptr;
    case Node::Kind::boolean: return node.boolean;
    case Node::Kind::integer: return node.integer;
    case Node::Kind::number: return node.number;
    case Node::Kind::text:
    case Node::Kind::date: return node.text;
    case Node::Kind::array: {
      auto list = Json::array();
      for (const auto& item : node.items) list.push_back(to_json(item));
      return list;
    }
    case Node::Kind::table: {
      auto table = Json::object();
      for (const auto& m : node.members) table[m.key] = to_json(m.value);
      return table;
    }
  }
  return nullptr;
}

const Node* find(const Node& table, std::string_view key) {
  const auto found = std::ranges::find(table.members, key, &Member::key);
  return found == table.members.end() ? nullptr : &found->value;
}

std::string_view kind_name(Node::Kind kind) noexcept {
  switch (kind) {
    case Node::Kind::null: return "null";
    case Node::Kind::boolean: return "true or false";
    case Node::Kind::integer: return "an integer";
    case Node::Kind::number: return "a number";
    case Node::Kind::text: return "text";
    case Node::Kind::date: return "a date or time";
    case Node::Kind::array: return "a list";
    case Node::Kind::table: return "a table";
  }
  return "nothing";
}

std::string to_string(const Problem& problem) {
  return problem.where + ": " + (problem.name.empty() ? "" : problem.name + ": ") + problem.cause;
}

void throw_if_any(const std::vector<Problem>& problems) {
  if (problems.empty()) return;
  std::string message = problems.size() == 1
                            ? "1 problem in the configuration:"
                            : fmt::format("{} problems in the configuration:", problems.size());
  for (std::size_t i = 0; i < std::min(problems.size(), kMaxProblemsShown); ++i)
    message += "\n  " + to_string(problems[i]);
  if (problems.size() > kMaxProblemsShown)
    message += fmt::format("\n  and {} more", problems.size() - kMaxProblemsShown);
  throw Error(Code::invalid_argument, message);
}

Format format_of(std::string_view name, std::string_view text) {
  if (ends_with_any_case(name, ".toml")) return Format::toml;
  if (ends_with_any_case(name, ".json")) return Format::json;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const auto first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{' ? Format::json : Format::toml;
}

Document parse_document(std::string name, std::string_view text, Format format,
                        std::vector<Problem>& problems) {
  Document document{std::move(name)};
  if (auto problem = unreadable(document.name, text)) {
    problems.push_back(std::move(*problem));
    return document;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  document.root = format == Format::json ? parse_json(document.name, text, problems)
                                         : parse_toml(document.name, text, problems);
  int left = kMaxDocumentValues;
  if (const int line = line_past(document.root, left)) {
    problems.push_back({fmt::format("{}:{}", document.name, line), "",
                        fmt::format("holds more than {} values", kMaxDocumentValues)});
    document.root = Node::table();
  }
  return document;
}

Document read_document(const std::string& path, std::vector<Problem>& problems) {
  Document nothing{path};
  if (auto why = obstacle(path); !why.empty()) {
    problems.push_back({path, "", std::move(why)});
    return nothing;
  }
  const std::optional<std::string> text = read_named_file(path, kMaxDocumentBytes + 1);
  if (!text) {
    problems.push_back({path, "", fmt::format("cannot be read: {}", std::strerror(errno))});
    return nothing;
  }
  return parse_document(path, *text, format_of(path, *text), problems);
}

}  // namespace sluice
