#include "cli/lease/lease_server.h"

#include <unistd.h>

#include <CLI/App.hpp>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "cli/common/checks.h"

namespace sluice::cli {

namespace {

constexpr double kSilence_s = 40;  // the server says something every 15

std::string value_of(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// The server's error message and fix.
[[noreturn]] void refuse(const HttpAnswer& answer, const std::string& what,
                         const ServerAddress& address) {
  const auto json = Json::parse(answer.body, nullptr, false);
  const auto error = json.is_object() ? json.value("error", Json::object()) : Json::object();
  auto message = error.value("message", what + ": HTTP status " + std::to_string(answer.status));
  const bool is_for_people = answer.status >= 500;  // the other advice is about routes
  if (const auto fix = error.value("fix", ""); is_for_people && !fix.empty()) message += "; " + fix;
  if (answer.status == 401)
    message += address.is_guessed ? "; it is sent to a server that is named: --url " + address.shown
                                  : "; set SLUICE_SERVE_API_KEY to it";
  switch (answer.status) {
    case 400: throw Error(Code::invalid_argument, message);
    case 404: throw Error(Code::not_found, message);
    case 429: throw Error(Code::exhausted, message);
    default: throw Error(Code::unavailable, message);
  }
}

[[noreturn]] void no_answer(const std::string& error, const ServerAddress& address) {
  const auto& where = address.shown;
  const auto& socket = address.server.socket;
  if (!socket.empty() && ::access(socket.c_str(), W_OK) != 0 && errno == EACCES)
    throw Error(Code::unavailable,
                "this user may not use " + socket +
                    ": its file mode is the server's setting serve.socket_mode, and the folders "
                    "above it must let users through; or ask over TCP with --url URL");
  throw Error(Code::unavailable,
              "no answer from " + where + " (" + error +
                  "); start the server with `sluice serve`, or name another with --socket PATH or "
                  "--url URL");
}

}  // namespace

void add_options(CLI::App& app, ServerFlags& flags) {
  app.add_option("--socket", flags.socket, "the server's Unix socket (or SLUICE_SOCKET)")
      ->type_name("PATH")
      ->check(not_empty("the path of a socket"));
  app.add_option("--url", flags.url, "the server's address (or SLUICE_URL)")
      ->type_name("URL")
      ->check(not_empty("an address such as http://127.0.0.1:8000"));
  add_options(app, flags.settings);
}

ServerAddress find_server(const ServerFlags& flags, const Io& io) {
  require(flags.socket.empty() || flags.url.empty(), "give --socket or --url, not both");
  const auto settings = load_settings(flags.settings, without_lease(io.environment));
  ServerAddress found;
  const auto& admin = settings.serve.admin_key;  // does for the other
  found.api_key = (admin.empty() ? settings.serve.api_key : admin).reveal();
  auto url = flags.url, socket = flags.socket;
  if (url.empty() && socket.empty()) {
    url = value_of(io.environment, "SLUICE_URL");
    if (url.empty()) socket = value_of(io.environment, "SLUICE_SOCKET");
  }
  if (url.starts_with("unix:")) socket = url.substr(5), url.clear();
  if (url.empty() && socket.empty()) {
    socket = settings.state_dir + "/sluice.sock";
    std::error_code hidden;  // a folder of another user's
    if (!std::filesystem::exists(socket, hidden)) {
      // The listener there is not known, so no key is sent.
      socket.clear();
      found.api_key.clear(), found.is_guessed = true;
      url = "http://127.0.0.1:" + std::to_string(settings.serve.port);
    }
  }
  if (!url.empty()) found.server.url = parse_url(url);
  found.server.socket = socket;
  found.shown = socket.empty() ? found.server.url.origin() : "unix:" + socket;
  return found;
}

LeaseServer::LeaseServer(ServerAddress address)
    : address_(std::move(address)), client_(address_.server, interrupt_) {}

HttpAnswer LeaseServer::call(std::string_view method, const std::string& target, const Json& body,
                             double timeout_s) {
  HttpCall call;
  call.method = method, call.target = target;
  try {
    if (!body.is_null()) call.json = body.dump();
  } catch (const Json::type_error&) {
    throw Error(Code::invalid_argument, "the request is not UTF-8 text");
  }
  if (!address_.api_key.empty()) call.headers.emplace_back("X-API-Key", address_.api_key);
  return client_.call(call, timeout_s);
}

Json LeaseServer::ask(std::string_view method, const std::string& target, const Json& body,
                      double timeout_s) {
  const auto answer = call(method, target, body, timeout_s);
  if (answer.status == 0) no_answer(answer.error, address_);
  if (answer.status != 200) refuse(answer, target, address_);
  auto json = Json::parse(answer.body, nullptr, false);
  if (json.is_discarded())
    throw Error(Code::unavailable, address_.shown + " does not speak JSON: is it a Sluice server?");
  return json;
}

Json LeaseServer::get(const std::string& target) { return ask("GET", target, {}); }

void LeaseServer::listen(const std::string& target, const Hear& hear) {
  HttpCall call;
  call.target = target;
  if (!address_.api_key.empty()) call.headers.emplace_back("X-API-Key", address_.api_key);
  if (!last_event_id_.empty()) call.headers.emplace_back("Last-Event-ID", last_event_id_);
  std::string type;
  const auto answer = client_.lines(call, kSilence_s, [&](std::string_view line) {
    if (line.starts_with("id: ")) last_event_id_ = line.substr(4);
    if (line.starts_with("event: ")) type = line.substr(7);
    return !line.starts_with("data: ") || hear(type, std::string(line.substr(6)));
  });
  if (answer.status == 0) no_answer(answer.error, address_);
  if (answer.status != 200) refuse(answer, target, address_);
}

}  // namespace sluice::cli
