// The client of the running server for `sluice lease`.
#pragma once

#include <string>
#include <string_view>

#include "base/http/http_client.h"
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/program_settings.h"

namespace sluice::cli {

struct ServerFlags {
  std::string socket, url;
  SettingsOptions settings;
};

// --socket, --url, --config and --set.
void add_options(CLI::App& app, ServerFlags& flags);

// The address of the server: --url or --socket, else SLUICE_URL, else SLUICE_SOCKET, else the
// socket in the state folder, else the port of the settings on this machine, and then without a
// key, and only where root or this user listens there.
struct ServerAddress {
  HttpClient::Server server;
  std::string shown;  // "unix:/path" or "http://host:8000"
  std::string api_key;
  bool is_guessed = false;  // nobody named it
};
ServerAddress find_server(const ServerFlags& flags, const Io& io);

// One connection. Not thread-safe, except for the Interrupt.
class LeaseServer {
 public:
  explicit LeaseServer(ServerAddress address);

  // The answer, a JSON object. Throws what the server said as an Error, and unavailable with the
  // way to start one when there is none. A guessed server of another user is none: it is sent
  // nothing.
  Json ask(std::string_view method, const std::string& target, const Json& body,
           double timeout_s = 10);
  Json get(const std::string& target);
  // Whatever it was.
  HttpAnswer call(std::string_view method, const std::string& target, const Json& body,
                  double timeout_s);
  // Events as they come, until `hear` says false or the stream ends. Throws as ask() does.
  using Hear = std::function<bool(std::string_view type, const std::string& json)>;
  void listen(const std::string& target, const Hear& hear);

  const std::string& shown() const noexcept { return address_.shown; }
  Interrupt& interrupt() noexcept { return interrupt_; }
  const std::string& last_event_id() const noexcept { return last_event_id_; }

 private:
  HttpClient::Server checked_server();
  [[noreturn]] void give_up(const HttpAnswer& answer) const;

  const ServerAddress address_;
  Interrupt interrupt_;
  std::string distrust_;  // why the last connection was not used
  HttpClient client_;
  std::string last_event_id_;
};

}  // namespace sluice::cli
