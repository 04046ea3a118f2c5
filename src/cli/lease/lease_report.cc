#include "cli/lease/lease_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/common/report.h"
#include "cli/common/shell_quote.h"

namespace sluice::cli {

namespace {

using Row = std::vector<std::string>;

// The names that broker::env_for() gives; python/sluice/_environment.py has the same list.
constexpr std::array<std::string_view, 7> kLeaseVariables{
    "CUDA_DEVICE_ORDER",    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "CUDA_VISIBLE_DEVICES", "GPU_MEMORY_FRACTION",
    "SLUICE_GPU_BUS",       "SLUICE_GPU_MEMORY_BYTES",
    "SLUICE_LEASE_ID"};

// A field that may be missing or null. Texts may come from anyone: a process has the name it
// gives itself.
double number(const Json& json, const char* name, double default_value = 0) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : default_value;
}
std::string text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? printable(found->get<std::string>()) : "";
}
bool has(const Json& json, const char* name) {
  return json.contains(name) && !json[name].is_null();
}

std::string gb_text(const Json& json, const char* name) {
  return has(json, name) ? fmt::format("{:.2f}", number(json, name)) : "-";
}
// Absent until the server has found all GPUs.
std::string index_text(const Json& json) {
  return has(json, "gpu_device") ? fmt::format("{:.0f}", number(json, "gpu_device")) : "?";
}
std::string age(const Json& json, const char* name) {
  return has(json, name) ? human_duration(std::max(0.0, number(json, name))) : "-";
}

// Right-aligned where the heading begins with a blank.
void print_table(const std::vector<std::string_view>& heading, const std::vector<Row>& rows,
                 std::ostream& out, const Terminal& terminal) {
  std::vector<int> widths;
  for (const auto title : heading) widths.push_back(columns(title));
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], columns(row[i]));
  const auto line = [&](const auto& cells) {
    std::string made;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const bool is_right = heading[i].starts_with(' ');
      made += (i == 0 ? "" : "  ") + (is_right ? right(cells[i], widths[i], terminal.pen)
                                               : left(cells[i], widths[i], terminal.pen));
    }
    while (made.ends_with(' ')) made.pop_back();
    return made;
  };
  out << paint(line(heading), Ink::bold, terminal.pen) << "\n";
  for (const auto& row : rows) out << line(row) << "\n";
}

std::map<std::string, std::string> gpu_names(const Json& leases) {
  std::map<std::string, std::string> names;
  for (const auto& card : leases.value("cards", Json::array()))
    names[text(card, "gpu_uuid")] = index_text(card);
  return names;
}

std::string gpus_of(const Json& lease, const std::map<std::string, std::string>& names) {
  std::string all;
  for (const auto& part : lease.value("gpus", Json::array())) {
    const auto uuid = text(part, "gpu_uuid");
    const auto name = names.find(uuid);
    all += (all.empty() ? "" : ",") + (name == names.end() ? uuid : name->second);
  }
  return all.empty() ? "-" : all;
}

std::string state_of(const Json& lease) {
  const auto state = text(lease, "state");
  auto said = state != "yielding" ? state : "yields in " + age(lease, "yield_in_s");
  if (has(lease, "over_use")) said += ", over";
  return said;
}

std::string over_use_text(const Json& lease) {
  return human_bytes(static_cast<std::uint64_t>(std::max(0.0, number(lease, "over_use")))) +
         " more than promised";
}

Row lease_row(const Json& lease, const std::map<std::string, std::string>& names) {
  const bool is_held = has(lease, "granted_age_s");
  return {text(lease, "lease_id"),
          has(lease, "uid") ? fmt::format("{:.0f}", number(lease, "uid")) : "-",
          text(lease, "agent"),
          state_of(lease),
          text(lease, "priority"),
          gpus_of(lease, names),
          gb_text(lease, "requested_gb"),
          lease.value("gpus", Json::array()).empty() ? "-" : gb_text(lease, "memory_gb"),
          gb_text(lease, "used_gb"),
          text(lease, "enforcement"),
          age(lease, is_held ? "granted_age_s" : "requested_age_s"),
          age(lease, "expires_in_s"),
          has(lease, "pid") ? fmt::format("{:.0f}", number(lease, "pid")) : "-"};
}

// Remarks that do not fit in a row.
void print_remarks(const Json& leases, std::ostream& out) {
  for (const auto& lease : leases) {
    const auto who = "lease " + text(lease, "lease_id") + " of " + text(lease, "agent");
    if (has(lease, "over_use")) out << "! " << who << " uses " << over_use_text(lease) << "\n";
    if (has(lease, "yield_reason"))
      out << "! " << who << " is requested to yield: " << text(lease, "yield_reason") << "\n";
  }
}

void print_held(const Json& leases, std::ostream& out, const Terminal& terminal) {
  const auto names = gpu_names(leases);
  std::vector<Row> rows;
  for (const auto* kind : {"leases", "waiting", "on_cpu"})
    for (const auto& lease : leases.value(kind, Json::array()))
      rows.push_back(lease_row(lease, names));
  if (rows.empty()) {
    out << "No leases. Ask for one: sluice lease request AGENT --memory-gb 8 -- COMMAND\n";
    return;
  }
  print_table({"LEASE", "USER", "AGENT", "STATE", "PRIORITY", "GPU", " REQUESTED GB", " PROMISED",
               " USED", "ENFORCED", " SINCE", " ENDS IN", " PID"},
              rows, out, terminal);
  print_remarks(leases.value("leases", Json::array()), out);
}

std::string unmanaged_text(const Json& process) {
  return fmt::format("{} ({:.0f}, {}, {} GB)", text(process, "name"), number(process, "pid"),
                     text(process, "user"), gb_text(process, "memory_gb"));
}

std::string unmanaged_of(const Json& card) {
  constexpr std::size_t kShown = 3;
  const auto list = card.value("unmanaged", Json::array());
  std::string all;
  for (std::size_t i = 0; i < std::min(kShown, list.size()); ++i)
    all += (i == 0 ? "" : ", ") + unmanaged_text(list[i]);
  if (list.size() > kShown) all += fmt::format(", and {} more", list.size() - kShown);
  return all.empty() ? "-" : all;
}

void print_cards(const Json& leases, std::ostream& out, const Terminal& terminal) {
  std::vector<Row> rows;
  for (const auto& card : leases.value("cards", Json::array()))
    rows.push_back({index_text(card), text(card, "name"), gb_text(card, "total_gb"),
                    gb_text(card, "promised_gb"), gb_text(card, "used_gb"),
                    gb_text(card, "free_gb"),
                    card.value("usable", false) ? unmanaged_of(card) : text(card, "why")});
  if (rows.empty()) {
    out << "\nNo GPU: every request goes to the CPU.\n";
    return;
  }
  out << "\n";
  print_table({"GPU", "NAME", " LEASABLE GB", " PROMISED", " USED", " FREE", "WITHOUT A LEASE"},
              rows, out, terminal);
}

std::string obstacle_text(const Json& card) {
  const auto name = text(card, "name") + " (" + text(card, "bus") + ")";
  if (has(card, "why")) return name + ": " + text(card, "why");
  auto said = name + " has " + gb_text(card, "free_gb") + " GB free";
  if (number(card, "kept_gb") > 0) said += ", " + gb_text(card, "kept_gb") + " kept for others";
  return said;
}

void print_refusal(const Json& answer, Report& page) {
  for (const auto& card : answer.value("obstacles", Json::array()))
    page.row("no capacity", obstacle_text(card));
  for (const auto& other : answer.value("blocked_by", Json::array()))
    page.row("blocked by",
             fmt::format("lease {} of {}, {}, {} GB", text(other, "lease_id"), text(other, "agent"),
                         text(other, "priority"), gb_text(other, "memory_gb")));
  if (has(answer, "may_fit_in_s"))
    page.row("may fit in", age(answer, "may_fit_in_s") + ", when those end if none is renewed");
}

}  // namespace

void print_leases(const Json& leases, std::ostream& out, const Terminal& terminal) {
  print_held(leases, out, terminal);
  print_cards(leases, out, terminal);
}

void print_lease(const Json& answer, std::ostream& out, const Terminal& terminal) {
  Report page(out, terminal);
  const auto id = text(answer, "lease_id");
  page.heading(text(answer, "status"),
               id.empty() ? text(answer, "agent") : "lease " + id + " of " + text(answer, "agent"));
  for (const auto& part : answer.value("gpus", Json::array()))
    page.row("memory", fmt::format("{} GB on GPU {}, {}", gb_text(part, "memory_gb"),
                                   index_text(part), text(part, "gpu_uuid")));
  page.row("why", text(answer, "reason"));
  if (has(answer, "batch_size"))
    page.row("batch size",
             fmt::format("{:.0f}: {}", number(answer, "batch_size"), text(answer, "batch_reason")));
  if (text(answer, "status") == "allocated") page.row("enforced", text(answer, "enforcement"));
  if (has(answer, "over_use")) page.row("over-use", over_use_text(answer));
  if (has(answer, "yield_in_s"))
    page.row("yields",
             "requested within " + age(answer, "yield_in_s") +
                 (has(answer, "yield_reason") ? ": " + text(answer, "yield_reason") : ""));
  if (has(answer, "expires_in_s"))
    page.row("ends", "in " + age(answer, "expires_in_s") + " unless renewed");
  print_refusal(answer, page);
}

std::map<std::string, std::string> lease_environment(const Json& answer) {
  std::map<std::string, std::string> variables;
  const auto env = answer.value("env", Json::object());
  if (!env.is_object())
    throw Error(Code::unavailable, "the server answered with an env that is not an object");
  for (const auto& item : env.items()) {
    const auto& name = item.key();
    if (std::ranges::find(kLeaseVariables, name) == kLeaseVariables.end())
      throw Error(
          Code::unavailable,
          "the server answered with a variable that a lease does not set: " + printable(name));
    const auto* value = item.value().get_ptr<const std::string*>();
    if (value == nullptr || value->find('\0') != value->npos)
      throw Error(Code::unavailable,
                  "the server answered with a value of " + name + " that no variable can have");
    variables.emplace(name, *value);
  }
  return variables;
}

std::string export_lines(const Json& answer) {
  std::string lines;
  const auto add = [&](const std::string& name, const std::string& value) {
    lines += "export " + name + "=" + shell_quote(value) + "\n";
  };
  const auto env = lease_environment(answer);
  for (const auto& [name, value] : env) add(name, value);
  if (has(answer, "lease_id") && !env.contains("SLUICE_LEASE_ID"))
    add("SLUICE_LEASE_ID", text(answer, "lease_id"));
  if (has(answer, "token")) add("SLUICE_LEASE_TOKEN", text(answer, "token"));
  return lines;
}

std::string event_line(std::string_view type, const Json& event) {
  if (type.starts_with("lease_")) type.remove_prefix(6);
  const auto time = text(event, "time");  // 2026-11-15T07:17:29.066Z
  const auto gb = has(event, "used_gb")            ? gb_text(event, "used_gb")
                  : has(event, "retained_gb")      ? gb_text(event, "retained_gb")
                  : number(event, "memory_gb") > 0 ? gb_text(event, "memory_gb")
                                                   : gb_text(event, "requested_gb");
  auto line = fmt::format("{} {:<15} lease {:<6} {:<12} {:>8} GB", time.substr(0, 19), type,
                          text(event, "lease_id"), text(event, "agent"), gb);
  if (has(event, "yield_in_s")) line += "  within " + age(event, "yield_in_s");
  if (const auto reason = text(event, "reason"); !reason.empty()) line += "  " + reason;
  return line;
}

}  // namespace sluice::cli
