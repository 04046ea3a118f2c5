// Settings of the [serve] section.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/config.h"
#include "base/secret.h"
#include "device/gpu.h"

namespace sluice::serve {

// Each returns why a value is invalid; "" when it is valid.
std::string host_cause(std::string_view text);
std::string key_cause(std::string_view text);  // of api_key and admin_key; never quotes it
std::string allowed_host_cause(std::string_view text);
std::string socket_mode_cause(std::string_view text);

struct ServeConfig {
  std::string host = "127.0.0.1";
  std::int64_t port = 8000;
  std::int64_t threads = 0;
  Secret api_key, admin_key;
  std::string socket_mode = "0600";
  std::vector<std::string> allowed_hosts;
  std::int64_t audit_log_mb = 64;
  std::int64_t max_body_bytes = 64 << 20;
  std::int64_t max_header_bytes = 16 << 10;
  std::int64_t max_connections = 4096;
  std::int64_t max_connections_per_peer = 2048;
  std::int64_t memory_budget = 0;
  double request_timeout_s = 15;
  double idle_timeout_s = 60;
  double drain_timeout_s = 2;

  static constexpr auto fields() {
    using C = ServeConfig;
    return std::tuple{
        Field{"host", &C::host, "address to listen on; anything but loopback needs api_key"}.check(
            host_cause),
        Field{"port", &C::port, "TCP port of the HTTP server; 0 takes a free one"}.range(0, 65535),
        Field{"threads", &C::threads,
              "threads that answer requests; 0 means one per two usable cores, at most 8"}
            .range(0, 256),
        Field{"api_key", &C::api_key, "clients must send it as Authorization: Bearer or X-API-Key"}
            .check(key_cause)
            .live(),
        Field{"admin_key", &C::admin_key,
              "a client that sends it may revoke the leases of others and silence alerts; without "
              "one only the Unix socket may"}
            .check(key_cause)
            .live(),
        Field{"socket_mode", &C::socket_mode,
              "who may use the Unix socket, as an octal file mode: 0660 lets its group in, 0666 "
              "everybody"}
            .check(socket_mode_cause),
        Field{"allowed_hosts", &C::allowed_hosts,
              "names the server answers to without an API key, beside IP addresses and localhost"}
            .check(allowed_host_cause)
            .live(),
        Field{"audit_log_mb", &C::audit_log_mb,
              "size of audit.log and the one before it, in the state folder: who revoked, "
              "silenced or preempted what of others"}
            .range(1, 65536)
            .live(),
        Field{"max_body_bytes", &C::max_body_bytes, "largest request body"}
            .range(1024, 1.0 * (1ll << 36))
            .live(),
        Field{"max_header_bytes", &C::max_header_bytes, "largest request header"}.range(1024,
                                                                                        1 << 20),
        Field{"max_connections", &C::max_connections, "connections open at once; more are refused"}
            .range(1, 1 << 20),
        Field{"max_connections_per_peer", &C::max_connections_per_peer,
              "connections that one user of this machine, or one address elsewhere, may have open"}
            .range(1, 1 << 20),
        Field{
            "memory_budget", &C::memory_budget,
            "bytes that requests, their work and their answers may hold together, 1048576 (1 "
            "MiB) at least, of which one client may hold half; 0 means a quarter of the memory of "
            "the machine or the cgroup"}
            .range(0, 1.0 * (1ll << 50)),
        Field{"request_timeout_s", &C::request_timeout_s,
              "a request must arrive completely in this time"}
            .range(0.1, 3600)
            .live(),
        Field{"idle_timeout_s", &C::idle_timeout_s, "an idle connection is closed after this time"}
            .range(0.1, 86400)
            .live(),
        Field{"drain_timeout_s", &C::drain_timeout_s,
              "requests in flight may finish this long on stop"}
            .range(0, 600)
            .live(),
    };
  }
  void check_together(std::vector<std::string>& found) const;
};

unsigned socket_mode_of(const ServeConfig& config) noexcept;

// The memory budget of this machine, in bytes.
std::uint64_t memory_budget_of(const ServeConfig& config, const device::Cpu& machine) noexcept;

}  // namespace sluice::serve
