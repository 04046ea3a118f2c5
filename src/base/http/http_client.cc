#include "base/http/http_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/read_size.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <chrono>
#include <limits>

#include "base/clock.h"

namespace sluice {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;
using Local = asio::local::stream_protocol;
using Parser = http::response_parser<http::string_body>;

void Interrupt::now() {
  const Lock lock(mutex_);
  asked_ = true;
  if (stop_ != nullptr) stop_(what_);
}

bool Interrupt::requested() const {
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

constexpr std::uint64_t kMaxBodyBytes = 64 << 20;
constexpr std::size_t kMaxAtOnce = 64 << 10;

// The failed operation and its error; becomes HttpAnswer::error.
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

std::string text_of(const HttpCall& call, const std::string& host) {
  http::fields fields;
  fields.set(http::field::host, host);
  fields.set(http::field::user_agent, "sluice");
  for (const auto& [name, value] : call.headers) fields.set(name, value);
  if (!call.wants_body) fields.set(http::field::connection, "close");
  if (!call.json.empty()) {
    fields.set(http::field::content_type, "application/json");
    fields.set(http::field::content_length, std::to_string(call.json.size()));
  }
  std::string text = std::string(call.method) + " " + call.target + " HTTP/1.1\r\n";
  for (const auto& field : fields) {
    text.append(field.name_string().data(), field.name_string().size()).append(": ");
    text.append(field.value().data(), field.value().size()).append("\r\n");
  }
  return text + "\r\n" + call.json;
}

HttpAnswer answer_of(const Parser& parser) {
  HttpAnswer answer;
  answer.status = static_cast<int>(parser.get().result_int());
  const auto when = parser.get()[http::field::retry_after];
  int seconds = 0;
  if (std::from_chars(when.data(), when.data() + when.size(), seconds).ec == std::errc{})
    answer.retry_after_s = seconds;
  return answer;
}

// Whole lines at the front of `text`, which is shortened by them. False: stop.
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
// connection ends with it. The socket is one of any family, and all steps have one handler:
// each combination is compiled for itself, which took half a minute.
struct HttpClient::Connection {
  Connection(const Server& server, Interrupt& to_watch, double timeout_s)
      : host(server.socket.empty() ? server.url.host_header() : "localhost"),
        interrupt(to_watch),
        deadline(after(timeout_s)) {
    if (server.socket.empty())
      connect_to(server.url, server.ca_file);
    else
      connect_local(server.socket);
    if (server.check) server.check(socket.native_handle());
  }

  // The handler of each step.
  struct Done {
    error_code& result;
    bool& is_done;
    void operator()(error_code ec, const auto&...) const { result = ec, is_done = true; }
  };

  // Runs until the step called its handler. Throws Failed when it reports an error,
  // did not finish in time or was interrupted.
  template <class Start>
  void wait(const std::string& what, Start start) {
    interrupt.watch([](void* p) { static_cast<asio::io_context*>(p)->stop(); }, &io);
    const Unwatch at_the_end{interrupt};
    if (interrupt.requested()) throw Failed{what + ": given up"};
    error_code result = asio::error::timed_out;
    bool done = false;
    start(Done{result, done});
    io.restart();
    while (!done && !interrupt.requested() && io.run_one_until(deadline) > 0) {
    }
    if (!done && interrupt.requested()) throw Failed{what + ": given up"};
    if (result) throw Failed{what + ": " + result.message()};
  }

  using Socket = asio::generic::stream_protocol::socket;
  using Addresses = std::vector<Socket::endpoint_type>;
  using Tls = asio::ssl::stream<Socket&>;

  Addresses resolve(const Url& url) {
    Addresses found;
    tcp::resolver resolver(io);
    wait("look up " + url.host, [&](Done done) {
      resolver.async_resolve(url.host, url.port,
                             [&found, done](error_code ec, const tcp::resolver::results_type& r) {
                               for (const auto& one : r) found.emplace_back(one.endpoint());
                               done(ec);
                             });
    });
    return found;
  }

  void connect(const Addresses& to) {
    wait("connect", [&](Done done) { asio::async_connect(socket, to, done); });
  }

  void connect_to(const Url& url, const std::string& ca_file) {
    const auto addresses = resolve(url);
    if (url.tls) prepare(tls.emplace(asio::ssl::context::tls_client), ca_file);
    connect(addresses);
    if (url.tls) handshake(secure.emplace(socket, *tls), url.host);
  }

  void connect_local(const std::string& path) {
    if (path.size() >= sizeof(sockaddr_un::sun_path)) throw Failed{"connect: the path is too long"};
    connect({Local::endpoint(path)});
  }

  void handshake(Tls& stream, const std::string& name) {
    error_code not_an_address;
    asio::ip::make_address(name, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(stream.native_handle(), name.c_str());
    stream.set_verify_callback(asio::ssl::host_name_verification(name));
    wait("TLS", [&](Done done) { stream.async_handshake(asio::ssl::stream_base::client, done); });
  }

  void send(const HttpCall& call) {
    const std::string text = text_of(call, host);
    wait("send", [&](Done done) {
      if (secure)
        asio::async_write(*secure, asio::buffer(text), done);
      else
        asio::async_write(socket, asio::buffer(text), done);
    });
  }

  // More bytes into the buffer; false when the server ended the stream.
  bool receive() {
    bool goes_on = true;
    const auto free_space = buffer.prepare(beast::read_size(buffer, kMaxAtOnce));
    wait("answer", [&](Done done) {
      const auto received = [this, done, &goes_on](error_code ec, std::size_t bytes) {
        buffer.commit(bytes);
        goes_on = ec != asio::error::eof;
        done(goes_on ? ec : error_code());
      };
      secure ? secure->async_read_some(free_space, received)
             : socket.async_read_some(free_space, received);
    });
    return goes_on;
  }

  // The parser one step further, whatever has to be received for it.
  void read_some(Parser& parser) {
    error_code ec = http::error::need_more;
    for (;;) {
      if (buffer.size() > 0) buffer.consume(parser.put(buffer.data(), ec));
      if (ec != http::error::need_more) break;
      if (receive()) continue;
      ec = {};
      if (parser.got_some())
        parser.put_eof(ec);
      else
        ec = http::error::end_of_stream;
      break;
    }
    if (ec) throw Failed{"answer: " + ec.message()};
  }

  void read_header(Parser& parser, std::uint64_t limit) {
    parser.body_limit(limit);
    while (!parser.is_header_done()) read_some(parser);
  }

  asio::io_context io{1};
  std::optional<asio::ssl::context> tls;
  Socket socket{io};
  std::optional<Tls> secure;  // over the socket
  beast::flat_buffer buffer;
  const std::string host;
  Interrupt& interrupt;
  Instant deadline;
  bool is_used = false;
};

HttpClient::HttpClient(Server server, Interrupt& interrupt)
    : server_(std::move(server)), interrupt_(interrupt) {}
HttpClient::~HttpClient() = default;

namespace {

// The answer for the exception that is being handled.
HttpAnswer failure() {
  try {
    throw;
  } catch (const Failed& f) {
    return {0, f.what, {}, {}};
  } catch (const std::exception& e) {
    return {0, e.what(), {}, {}};
  }
}

}  // namespace

void HttpClient::close() { connection_.reset(); }

HttpClient::Connection& HttpClient::connected(double timeout_s) {
  if (!connection_) connection_ = std::make_unique<Connection>(server_, interrupt_, timeout_s);
  connection_->deadline = after(timeout_s);
  return *connection_;
}

HttpAnswer HttpClient::call(const HttpCall& call, double timeout_s) {
  const bool is_reused = connection_ && connection_->is_used;
  auto answer = once(call, timeout_s);
  if (answer.status == 0 && is_reused && !interrupt_.requested()) answer = once(call, timeout_s);
  return answer;
}

HttpAnswer HttpClient::once(const HttpCall& call, double timeout_s) try {
  auto& connection = connected(timeout_s);
  connection.send(call);
  Parser parser;
  connection.read_header(parser, kMaxBodyBytes);
  while (call.wants_body && !parser.is_done()) connection.read_some(parser);
  auto answer = answer_of(parser);
  answer.body = std::move(parser.get().body());
  connection.is_used = true;
  if (!call.wants_body || !parser.get().keep_alive()) close();
  return answer;
} catch (...) {
  close();
  return failure();
}

HttpAnswer HttpClient::lines(const HttpCall& call, double silence_s,
                             const std::function<bool(std::string_view)>& line) try {
  close();
  auto& connection = connected(silence_s);
  connection.send(call);
  Parser parser;
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
} catch (...) {
  close();
  return failure();
}

}  // namespace sluice
