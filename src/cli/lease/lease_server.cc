#include "cli/lease/lease_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "base/clock.h"
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
                  "); start the server with `sluice serve`. One that runs as another user, or "
                  "elsewhere, is named by --socket PATH (SLUICE_SOCKET) or --url URL (SLUICE_URL)");
}

// Local ends in /proc/net/tcp and tcp6 of the sockets that may get a connection to 127.0.0.1: those
// of this address and of any address, over IPv4, IPv6 and as IPv4 in IPv6.
std::set<std::string> ends_behind_loopback(int port) {
  const auto word = [](std::uint32_t value) { return fmt::format("{:08X}", htonl(value)); };
  const auto any = word(INADDR_ANY), loopback = word(INADDR_LOOPBACK);
  const auto mapped = any + any + word(0xFFFF);
  std::set<std::string> ends;
  for (const auto& host : {any, loopback, any + any + any + any, mapped + any, mapped + loopback})
    ends.insert(fmt::format("{}:{:04X}", host, port));
  return ends;
}

// A row of those tables.
struct KernelSocket {
  std::string local, remote, state;
  std::int64_t uid = -1;
  std::uint64_t inode = 0;  // 0: no process has it, such as a connection that was not accepted yet
};

std::vector<KernelSocket> kernel_sockets() {
  std::vector<KernelSocket> all;
  for (const auto* name : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream table(name);
    for (std::string line; std::getline(table, line);) {
      std::istringstream words(line);
      std::string number, queues, timer, retransmits, timeout;
      KernelSocket row;
      words >> number >> row.local >> row.remote >> row.state >> queues >> timer >> retransmits >>
          row.uid >> timeout >> row.inode;
      if (words) all.push_back(std::move(row));
    }
  }
  return all;
}

// The users whose sockets listen there.
std::vector<std::int64_t> listening_users(int port) {
  const auto ends = ends_behind_loopback(port);
  std::vector<std::int64_t> users;
  for (const KernelSocket& row : kernel_sockets())
    if (row.state == "0A" && ends.contains(row.local)) users.push_back(row.uid);
  return users;
}

// The user who holds the other end of this connection; none if nobody accepts it for 5 s. Who
// listens may have changed since it was accepted.
std::optional<std::int64_t> user_behind(int connection, int port) {
  sockaddr_in own{};
  socklen_t size = sizeof own;
  if (::getsockname(connection, reinterpret_cast<sockaddr*>(&own), &size) != 0) return {};
  const auto here = ends_behind_loopback(port), there = ends_behind_loopback(ntohs(own.sin_port));
  const auto until = Steady::now() + std::chrono::seconds(5);
  for (; Steady::now() < until; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
    for (const KernelSocket& row : kernel_sockets())
      if (row.inode != 0 && here.contains(row.local) && there.contains(row.remote)) return row.uid;
  return {};
}

// Whether the kernel shows this process's user as itself. In a user namespace that does not map it,
// all users that are not mapped look the same.
bool is_own_user_mapped() {
  std::ifstream map("/proc/self/uid_map");
  for (std::uint64_t inside, outside, count; map >> inside >> outside >> count;)
    if (::geteuid() >= inside && ::geteuid() - inside < count) return true;
  return false;
}

bool is_trusted(std::int64_t uid) {
  static const bool is_mapped = is_own_user_mapped();
  return is_mapped && (uid == 0 || uid == static_cast<std::int64_t>(::geteuid()));
}

// Any user may listen on a port while the server is down, and what a server answers is acted upon.
// Empty: all listeners and the other end of the connection are of root or of this user.
std::string why_not_trusted(const Url& url, int connection) {
  const auto advice =
      "; if you trust the server there, name it: --url " + url.origin() + " or SLUICE_URL";
  const auto users = listening_users(std::stoi(url.port));
  if (users.empty())
    return "it is not known which user listens on port " + url.port + " of this machine" + advice;
  const auto held_by = [&](std::int64_t uid) {
    return fmt::format("port {} of this machine is held by another user (uid {}){}", url.port, uid,
                       advice);
  };
  for (const auto uid : users)
    if (!is_trusted(uid)) return held_by(uid);
  const auto behind = user_behind(connection, std::stoi(url.port));
  if (!behind)
    return "nobody accepts connections to port " + url.port + " of this machine" + advice;
  return is_trusted(*behind) ? "" : held_by(*behind);
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
    : address_(std::move(address)), client_(checked_server(), interrupt_) {}

// With each connection, as the server may have ended and another listen there. Once connected: a
// listener that came between a check and the connection would not be seen.
HttpClient::Server LeaseServer::checked_server() {
  auto server = address_.server;
  if (address_.is_guessed)
    server.check = [this](int connection) {
      distrust_ = why_not_trusted(address_.server.url, connection);
      if (!distrust_.empty()) throw Error(Code::unavailable, distrust_);
    };
  return server;
}

void LeaseServer::give_up(const HttpAnswer& answer) const {
  if (!distrust_.empty()) throw Error(Code::unavailable, distrust_);
  no_answer(answer.error, address_);
}

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
  distrust_.clear();
  return client_.call(call, timeout_s);
}

Json LeaseServer::ask(std::string_view method, const std::string& target, const Json& body,
                      double timeout_s) {
  const auto answer = call(method, target, body, timeout_s);
  if (answer.status == 0) give_up(answer);
  if (answer.status != 200) refuse(answer, target, address_);
  auto json = Json::parse(answer.body, nullptr, false);
  if (!json.is_object())
    throw Error(Code::unavailable,
                address_.shown + " does not answer with a JSON object: is it a Sluice server?");
  return json;
}

Json LeaseServer::get(const std::string& target) { return ask("GET", target, {}); }

void LeaseServer::listen(const std::string& target, const Hear& hear) {
  HttpCall call;
  call.target = target;
  if (!address_.api_key.empty()) call.headers.emplace_back("X-API-Key", address_.api_key);
  if (!last_event_id_.empty()) call.headers.emplace_back("Last-Event-ID", last_event_id_);
  std::string type;
  distrust_.clear();
  const auto answer = client_.lines(call, kSilence_s, [&](std::string_view line) {
    if (line.starts_with("id: ")) last_event_id_ = line.substr(4);
    if (line.starts_with("event: ")) type = line.substr(7);
    return !line.starts_with("data: ") || hear(type, std::string(line.substr(6)));
  });
  if (answer.status == 0) give_up(answer);
  if (answer.status != 200) refuse(answer, target, address_);
}

}  // namespace sluice::cli
