#include "serve/http/server.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "serve/address.h"
#include "serve/http/listen.h"
#include "serve/http/peer_load.h"
#include "serve/http/shard.h"
#include "serve/http/unsent.h"

namespace sluice::serve::http {

namespace {

// Has a lower priority than the I/O threads and the lease pool. Long requests of one client leave
// a thread to others.
constexpr FairPool::Options kWork{.threads = 2,
                                  .max_queued = 1024,
                                  .max_queued_per_client = 256,
                                  .max_running_per_client = 1,
                                  .niceness = 5};
// The queue holds as many tasks as there may be connections: every connected client may renew.
constexpr FairPool::Options kLeases{
    .threads = 2, .max_queued = 16384, .max_queued_per_client = 4096};
// malloc_trim holds the locks of the allocator. Were its thread niced, threads that allocate would
// wait for it while others use the cores.
constexpr FairPool::Options kTrim{.threads = 1};
// Past three quarters of all connections, only peers with fewer than kMinCrowdedConnections get
// more. kForOwner connections beyond all are for the server's user and root over the Unix socket.
constexpr std::int64_t kMinCrowdedConnections = 16, kForOwner = 64;
constexpr int kRefusalsAtOnce = 64;
// Files besides the connections: the owner's connections, refused ones, a pidfd for each of up to
// 256 holders, databases and system files.
constexpr std::int64_t kFilesOfOurOwn = 448;
constexpr auto kRefusalTime = std::chrono::milliseconds(500);
constexpr auto kLookAtRefusal = std::chrono::milliseconds(20);
constexpr auto kOutOfFilesPause = std::chrono::milliseconds(100);
constexpr auto kOutOfFilesLog = std::chrono::seconds(10);  // a line of the log at most so often

Steady::duration seconds(double s) {
  return std::chrono::duration_cast<Steady::duration>(Seconds(s));
}

Limits limits_of(const ServeConfig& config) {
  return {static_cast<std::uint32_t>(config.max_header_bytes),
          static_cast<std::uint64_t>(config.max_body_bytes), seconds(config.request_timeout_s),
          seconds(config.idle_timeout_s)};
}

GuardConfig guard_of(const ServeConfig& config) {
  auto hosts = config.allowed_hosts;
  hosts.push_back(config.host);
  return {config.api_key, config.admin_key, std::move(hosts)};
}

std::string busy_answer(bool by_itself) {
  const auto response = error_response(
      503, "too_many_connections",
      by_itself ? "this client has too many connections" : "all connections are taken",
      by_itself ? "Use those that are open, or raise serve.max_connections_per_peer."
                : "Try again in a moment, or raise serve.max_connections.");
  std::string bytes;
  write_response(response, {false, false, 11, http_date(std::chrono::system_clock::now())}, bytes);
  return bytes;
}

// Bodies and answers are mapped one by one, so that freeing them returns their memory without
// malloc_trim, which holds the allocator's locks for as long as there is much to return. It also
// leaves the unused end of other arenas than the first alone, by default up to 64 MB in each.
void return_large_blocks() {
  constexpr int kMapped = 256 << 10, kUnusedEnd = 8 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMapped);
  ::mallopt(M_TRIM_THRESHOLD, kUnusedEnd);
}

}  // namespace

struct Server::Impl {
  Impl(Options options_in, const Router& router, Traffic& traffic_in);

  template <class Protocol>
  void keep_accepting(Acceptor<Protocol>& acceptor, bool over_socket, Steady::duration wait = {});
  template <class Protocol>
  Task<void> accept(Acceptor<Protocol>& acceptor, bool over_socket, Steady::duration wait);
  Task<void> reject(Shard& shard, Socket refused, bool by_itself);
  Arrival arrival(Socket socket, bool over_socket);
  bool is_full(const Arrival& client) const;
  void limit_connections(std::int64_t files);
  void warn_of_no_accept(const ErrorCode& why);
  void each_second();
  void open_socket();
  void close_listeners();
  bool stop();

  Options options;
  Traffic& traffic;
  MemoryBudget unlimited{~std::uint64_t{0}};  // where none is given
  MemoryBudget& memory;
  PeerLoad load;
  std::atomic<std::int64_t> max_connections;
  std::atomic<double> drain_timeout_s;
  FairPool work{kWork}, leases{kLeases}, trim{kTrim};
  Shared shared;
  std::vector<std::unique_ptr<Shard>> shards;
  TcpAcceptor tcp;
  std::optional<TcpAcceptor> tcp6;  // of a server on 127.0.0.1
  std::optional<UnixAcceptor> local;
  std::string host, why_no_socket;
  std::size_t next = 0;  // the shard that gets the next connection
  Instant warned_at{};   // that a connection could not be accepted
  std::atomic<int> refusals{0};
  bool stopped = false;
  std::atomic<std::size_t> running{0};
  std::vector<std::jthread> threads;
};

Server::Impl::Impl(Options options_in, const Router& router, Traffic& traffic_in)
    : options(std::move(options_in)),
      traffic(traffic_in),
      memory(options.memory != nullptr ? *options.memory : unlimited),
      load(memory),
      max_connections(options.config.max_connections),
      drain_timeout_s(options.config.drain_timeout_s),
      shared{router,
             traffic_in,
             work,
             leases,
             SharedResponseCache(router.routes().size()),
             options.on_close,
             options.is_bound,
             static_cast<std::uint64_t>(unix_ms(std::chrono::system_clock::now())) << 20},
      shards([&] {
        std::vector<std::unique_ptr<Shard>> made;
        for (std::size_t i = 0; i < std::max<std::size_t>(options.threads, 1); ++i)
          made.push_back(std::make_unique<Shard>(
              shared, traffic.counters(i), limits_of(options.config), guard_of(options.config)));
        return made;
      }()),
      tcp(listen_tcp(shards[0]->io(), options.config)),
      host(tcp.local_endpoint().address().to_string()) {
  limit_connections(raise_file_limit());
  return_large_blocks();
  open_socket();
  keep_accepting(tcp, false);
  std::string problem;
  tcp6 = listen_loopback6(shards[0]->io(), tcp.local_endpoint(), problem);
  if (tcp6) keep_accepting(*tcp6, false);
  if (!problem.empty()) log::warn("http: {}", problem);
  if (local) keep_accepting(*local, true);
  running = shards.size();
  for (std::size_t i = 0; i < shards.size(); ++i)
    threads.emplace_back([this, i] {
      shards[i]->run(i == 0 ? std::function<void()>([this] { each_second(); }) : nullptr);
      --running;
    });
}

// The socket is optional: the server also runs without it.
void Server::Impl::open_socket() {
  if (options.socket_path.empty()) return;
  try {
    local.emplace(
        listen_unix(shards[0]->io(), options.socket_path, socket_mode_of(options.config)));
  } catch (const Error& e) {
    why_no_socket = e.what();
    options.socket_path.clear();
  }
}

// If accept() ends while the acceptor is open, the server would accept no more clients: it restarts
// after a pause.
template <class Protocol>
void Server::Impl::keep_accepting(Acceptor<Protocol>& acceptor, bool over_socket,
                                  Steady::duration wait) {
  const auto ended = [this, &acceptor, over_socket](const std::exception_ptr& failed) {
    if (!failed) return;
    try {
      std::rethrow_exception(failed);
    } catch (const std::exception& e) {
      log::error("http: accepting connections failed, it starts again: {}", e.what());
    }
    if (acceptor.is_open()) keep_accepting(acceptor, over_socket, kOutOfFilesPause);
  };
  asio::co_spawn(shards[0]->io(), accept(acceptor, over_socket, wait), ended);
}

template <class Protocol>
Task<void> Server::Impl::accept(Acceptor<Protocol>& acceptor, bool over_socket,
                                Steady::duration wait) {
  Timer pause(shards[0]->io(), wait);
  ErrorCode waited;
  if (wait > wait.zero()) co_await pause.async_wait(into(waited));
  while (acceptor.is_open()) {
    auto& shard = *shards[next];
    ErrorCode failed;
    auto socket = co_await acceptor.async_accept(shard.io(), into(failed));
    if (failed == asio::error::operation_aborted || failed == asio::error::bad_descriptor) break;
    if (failed) {  // out of files or memory: what is open goes on, new ones wait
      warn_of_no_accept(failed);
      pause.expires_after(kOutOfFilesPause);
      co_await pause.async_wait(into(failed));
      continue;
    }
    if constexpr (std::is_same_v<Protocol, asio::ip::tcp>)
      socket.set_option(asio::ip::tcp::no_delay(true), failed);
    else  // Unix sockets inherit no options
      socket.set_option(asio::socket_base::send_buffer_size(kSendBuffer), failed);
    auto client = arrival(Socket(std::move(socket)), over_socket);
    const bool by_itself = client.load->connections >= options.config.max_connections_per_peer;
    if (by_itself || is_full(client)) {
      ++traffic.refused;
      if (refusals < kRefusalsAtOnce)
        asio::co_spawn(shard.io(), reject(shard, std::move(client.socket), by_itself),
                       asio::detached);
      continue;
    }
    next = (next + 1) % shards.size();
    shard.adopt(std::move(client));
  }
}

void Server::Impl::warn_of_no_accept(const ErrorCode& why) {
  const auto now = Steady::now();
  if (warned_at != Instant{} && now - warned_at < kOutOfFilesLog) return;
  warned_at = now;
  log::warn("http: cannot accept a connection: {}", why.message());
}

// A client that takes every file would keep all others out.
void Server::Impl::limit_connections(std::int64_t files) {
  const auto limit = std::max(files - kFilesOfOurOwn, kForOwner);
  if (max_connections <= limit) return;
  log::warn("http: {} connections at once, not {}: this process may have {} files open", limit,
            max_connections.load(), files);
  max_connections = limit;
}

bool Server::Impl::is_full(const Arrival& client) const {
  const std::int64_t all = max_connections, open = traffic.connections;
  if (client.over_socket && is_owner(client.peer)) return open >= all + kForOwner;
  return open >= all ||
         (open >= all - all / 4 && client.load->connections >= kMinCrowdedConnections);
}

Arrival Server::Impl::arrival(Socket socket, bool over_socket) {
  const int fd = socket.native_handle();
  Arrival made{std::move(socket), over_socket, over_socket ? unix_peer(fd) : tcp_peer(fd)};
  if (!over_socket) made.peer.uid = local_user(fd, false).uid;
  made.load = load.find(made.peer.origin());
  return made;
}

void Server::Impl::each_second() {
  if (options.each_second) options.each_second();
  shared.response_cache.evict_expired(Steady::now());
  // Returns memory of finished large requests from the allocator to the system.
  if (memory.should_trim()) trim.post("", FairPool::Work([] { ::malloc_trim(0); }));
}

// 503, with time for the client to read it.
Task<void> Server::Impl::reject(Shard& shard, Socket refused, bool by_itself) {
  ++refusals;
  const auto socket = std::make_shared<Socket>(std::move(refused));  // the timer may outlive us
  ErrorCode failed;
  socket->non_blocking(true, failed);
  socket->write_some(asio::buffer(busy_answer(by_itself)), failed);
  socket->shutdown(asio::socket_base::shutdown_send, failed);
  Timer limit(shard.io(), kRefusalTime);
  limit.async_wait([socket](const ErrorCode& cancelled) {
    if (!cancelled) close_and_discard(*socket);
  });
  char unread[1024];
  while (!failed) co_await socket->async_read_some(asio::buffer(unread), into(failed));
  Timer pause(shard.io());
  while (failed == asio::error::eof && socket->is_open() && unsent_in_kernel(*socket) > 0) {
    ErrorCode ignored;
    pause.expires_after(kLookAtRefusal);
    co_await pause.async_wait(into(ignored));
  }
  close_and_discard(*socket);
  --refusals;
}

void Server::Impl::close_listeners() {
  asio::post(shards[0]->io(), [this] {
    ErrorCode ignored;
    tcp.close(ignored);
    if (tcp6) tcp6->close(ignored);
    if (local) local->close(ignored);
  });
  if (!options.socket_path.empty()) ::unlink(options.socket_path.c_str());
}

bool Server::Impl::stop() {
  if (std::exchange(stopped, true)) return true;
  close_listeners();
  for (auto& shard : shards) shard->drain();
  const auto until = Steady::now() + seconds(drain_timeout_s);
  while (running > 0 && Steady::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const bool clean = running == 0;
  for (auto& shard : shards) shard->abort();
  threads.clear();     // joins
  work.drop_queued();  // the connections are closed; what leases wait for is still done
  work.join();
  leases.join();
  trim.join();
  return clean;
}

Server::Server(Options options, const Router& router, Traffic& traffic)
    : impl_(std::make_unique<Impl>(std::move(options), router, traffic)) {}

Server::~Server() { stop(); }

std::uint16_t Server::port() const noexcept {
  ErrorCode closed;
  return impl_->tcp.local_endpoint(closed).port();
}

const std::string& Server::host() const noexcept { return impl_->host; }
const std::string& Server::socket_path() const noexcept { return impl_->options.socket_path; }
const std::string& Server::why_no_socket() const noexcept { return impl_->why_no_socket; }

void Server::wake_streams() {
  for (auto& shard : impl_->shards) shard->wake_streams();
}

void Server::reload(const ServeConfig& config) {
  require(!config.api_key.empty() || is_loopback(impl_->host),
          "serve.api_key cannot be taken away while " + impl_->host +
              " can be reached from other machines");
  impl_->drain_timeout_s = config.drain_timeout_s;
  for (auto& shard : impl_->shards) shard->reload(limits_of(config), guard_of(config));
}

bool Server::stop() { return impl_->stop(); }

}  // namespace sluice::serve::http
