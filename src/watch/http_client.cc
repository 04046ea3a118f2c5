#include "watch/http_client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <charconv>
#include <chrono>
#include <limits>
#include <variant>

#include "base/clock.h"

namespace sluice::watch {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;

void Interrupt::now() {
  const Lock lock(mutex_);
  asked_ = true;
  if (stop_ != nullptr) stop_(what_);
}

bool Interrupt::asked() const {
  const Lock lock(mutex_);
  return asked_;
}

void Interrupt::watch(void (*stop)(void*), void* what) {
  const Lock lock(mutex_);
  stop_ = stop, what_ = what;
  if (asked_) stop_(what_);
}

void Interrupt::unwatch() {
  const Lock lock(mutex_);
  stop_ = nullptr;
}

namespace {

constexpr std::uint64_t kLargestBody = 64 << 20;

// What failed and how; turned into HttpAnswer::error.
struct Failed {
  std::string what;
};

struct Unwatch {
  Interrupt& interrupt;
  ~Unwatch() { interrupt.unwatch(); }
};

Instant after(double seconds) {
  return Steady::now() + std::chrono::duration_cast<Steady::duration>(Seconds(seconds));
}

void prepare(asio::ssl::context& tls, const std::string& ca_file) {
  error_code ec;
  if (ca_file.empty())
    tls.set_default_verify_paths(ec);
  else
    tls.load_verify_file(ca_file, ec);
  if (ec) throw Failed{"certificates " + ca_file + ": " + ec.message()};
  tls.set_verify_mode(asio::ssl::verify_peer);
  SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
}

http::request<http::string_body> message_of(const HttpCall& call, const std::string& host) {
  http::request<http::string_body> request;
  request.version(11);
  request.method_string({call.method.data(), call.method.size()});
  request.target(call.target);
  request.set(http::field::host, host);
  request.set(http::field::user_agent, "sluice");
  for (const auto& [name, value] : call.headers) request.set(name, value);
  if (!call.wants_body) request.set(http::field::connection, "close");
  if (call.json.empty()) return request;
  request.set(http::field::content_type, "application/json");
  request.body() = call.json;
  request.prepare_payload();
  return request;
}

template <class Parser>
HttpAnswer answer_of(const Parser& parser) {
  HttpAnswer answer;
  answer.status = static_cast<int>(parser.get().result_int());
  const auto when = parser.get()[http::field::retry_after];
  int seconds = 0;
  if (std::from_chars(when.data(), when.data() + when.size(), seconds).ec == std::errc{})
    answer.retry_after_s = seconds;
  return answer;
}

// Whole lines at the front of `text`, which is shortened by them. False: no more wanted.
bool hand_over(std::string& text, const std::function<bool(std::string_view)>& line) {
  std::size_t begin = 0;
  bool goes_on = true;
  for (auto end = text.find('\n'); goes_on && end != text.npos; end = text.find('\n', begin)) {
    auto one = std::string_view(text).substr(begin, end - begin);
    if (one.ends_with('\r')) one.remove_suffix(1);
    goes_on = line(one);
    begin = end + 1;
  }
  text.erase(0, begin);
  return goes_on;
}

}  // namespace

// Asynchronous steps, each waited for: the only way to have one time limit over
// connect, handshake, send and answer. One that failed leaves operations behind, so the
// connection ends with it.
struct HttpClient::Connection {
  Connection(const Server& server, Interrupt& to_watch, double timeout_s)
      : host(server.socket.empty() ? server.url.host_header() : "localhost"),
        interrupt(to_watch),
        deadline(after(timeout_s)) {
    if (server.socket.empty())
      connect_to(server.url, server.ca_file);
    else
      connect_local(server.socket);
  }

  // Runs until the step called its handler. Throws Failed when it reports an error,
  // did not finish in time or was interrupted.
  template <class Start>
  void wait(const std::string& what, Start start) {
    interrupt.watch([](void* p) { static_cast<asio::io_context*>(p)->stop(); }, &io);
    const Unwatch at_the_end{interrupt};
    if (interrupt.asked()) throw Failed{what + ": given up"};
    error_code result = asio::error::timed_out;
    bool done = false;
    start([&](error_code ec, auto&&...) { result = ec, done = true; });
    io.restart();
    while (!done && !interrupt.asked() && io.run_one_until(deadline) > 0) {
    }
    if (!done && interrupt.asked()) throw Failed{what + ": given up"};
    if (result == beast::error::timeout) result = asio::error::timed_out;
    if (result) throw Failed{what + ": " + result.message()};
  }

  tcp::resolver::results_type resolve(const Url& url) {
    tcp::resolver::results_type found;
    auto resolver = std::make_shared<tcp::resolver>(io);
    wait("look up " + url.host, [&](auto done) {
      resolver->async_resolve(url.host, url.port,
                              [&found, done](error_code ec, tcp::resolver::results_type r) mutable {
                                found = std::move(r);
                                done(ec);
                              });
    });
    return found;
  }

  void connect_to(const Url& url, const std::string& ca_file) {
    const auto addresses = resolve(url);
    if (!url.tls) {
      auto& plain = stream.emplace<beast::tcp_stream>(io);
      return wait("connect", [&](auto done) { plain.async_connect(addresses, done); });
    }
    prepare(tls.emplace(asio::ssl::context::tls_client), ca_file);
    auto& secure = stream.emplace<Tls>(io, *tls);
    auto& below = beast::get_lowest_layer(secure);
    wait("connect", [&](auto done) { below.async_connect(addresses, done); });
    handshake(secure, url.host);
  }

  void connect_local(const std::string& path) {
    if (path.size() >= sizeof(sockaddr_un::sun_path)) throw Failed{"connect: the path is too long"};
    auto& local = stream.emplace<LocalStream>(io);
    wait("connect", [&](auto done) { local.async_connect(Local::endpoint(path), done); });
  }

  using Tls = beast::ssl_stream<beast::tcp_stream>;
  using LocalStream = beast::basic_stream<Local>;

  void handshake(Tls& secure, const std::string& name) {
    error_code not_an_address;
    asio::ip::make_address(name, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(secure.native_handle(), name.c_str());
    secure.set_verify_callback(asio::ssl::host_name_verification(name));
    wait("TLS", [&](auto done) { secure.async_handshake(asio::ssl::stream_base::client, done); });
  }

  // `use` with the stream, whichever it is.
  template <class Use>
  void with_stream(Use use) {
    std::visit(
        [&](auto& s) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(s)>, std::monostate>) use(s);
        },
        stream);
  }

  void send(const HttpCall& call) {
    const auto request = message_of(call, host);
    with_stream(
        [&](auto& s) { wait("send", [&](auto done) { http::async_write(s, request, done); }); });
  }

  template <class Parser>
  void read_header(Parser& parser, std::uint64_t limit) {
    parser.body_limit(limit);
    with_stream([&](auto& s) {
      wait("answer", [&](auto done) { http::async_read_header(s, buffer, parser, done); });
    });
  }

  template <class Parser>
  void read_some(Parser& parser) {
    with_stream([&](auto& s) {
      wait("answer", [&](auto done) { http::async_read_some(s, buffer, parser, done); });
    });
  }

  asio::io_context io{1};
  std::optional<asio::ssl::context> tls;
  std::variant<std::monostate, beast::tcp_stream, LocalStream, Tls> stream;
  beast::flat_buffer buffer;
  const std::string host;
  Interrupt& interrupt;
  Instant deadline;
  bool is_used = false;
};

HttpClient::HttpClient(Server server, Interrupt& interrupt)
    : server_(std::move(server)), interrupt_(interrupt) {}
HttpClient::~HttpClient() = default;

void HttpClient::close() { connection_.reset(); }

HttpClient::Connection& HttpClient::connected(double timeout_s) {
  if (!connection_) connection_ = std::make_unique<Connection>(server_, interrupt_, timeout_s);
  connection_->deadline = after(timeout_s);
  return *connection_;
}

HttpAnswer HttpClient::call(const HttpCall& call, double timeout_s) {
  const bool is_reused = connection_ && connection_->is_used;
  auto answer = once(call, timeout_s);
  if (answer.status == 0 && is_reused && !interrupt_.asked()) answer = once(call, timeout_s);
  return answer;
}

HttpAnswer HttpClient::once(const HttpCall& call, double timeout_s) try {
  auto& connection = connected(timeout_s);
  connection.send(call);
  http::response_parser<http::string_body> parser;
  connection.read_header(parser, kLargestBody);
  while (call.wants_body && !parser.is_done()) connection.read_some(parser);
  auto answer = answer_of(parser);
  answer.body = std::move(parser.get().body());
  connection.is_used = true;
  if (!call.wants_body || !parser.get().keep_alive()) close();
  return answer;
} catch (const Failed& f) {
  close();
  return {0, f.what, {}, {}};
} catch (const std::exception& e) {
  close();
  return {0, e.what(), {}, {}};
}

HttpAnswer HttpClient::lines(const HttpCall& call, double silence_s,
                             const std::function<bool(std::string_view)>& line) try {
  close();
  auto& connection = connected(silence_s);
  connection.send(call);
  http::response_parser<http::string_body> parser;
  connection.read_header(parser, std::numeric_limits<std::uint64_t>::max());
  auto answer = answer_of(parser);
  auto& body = parser.get().body();
  while (!parser.is_done()) {
    connection.deadline = after(silence_s);
    connection.read_some(parser);
    if (answer.status == 200 && !hand_over(body, line)) break;
  }
  answer.body = std::move(body);
  close();
  return answer;
} catch (const Failed& f) {
  close();
  return {0, f.what, {}, {}};
} catch (const std::exception& e) {
  close();
  return {0, e.what(), {}, {}};
}

}  // namespace sluice::watch
