#include "watch/http_post.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <charconv>
#include <chrono>

namespace sluice::watch {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using boost::system::error_code;

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

// What failed and how; turned into PostAnswer::error.
struct Failed {
  std::string what;
};

// Asynchronous steps, each waited for: the only way to have one time limit over
// connect, handshake, send and answer.
class Exchange {
 public:
  Exchange(double timeout_s, Interrupt& interrupt)
      : deadline_(std::chrono::steady_clock::now() +
                  std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                      std::chrono::duration<double>(timeout_s))),
        interrupt_(interrupt) {
    interrupt_.watch([](void* io) { static_cast<asio::io_context*>(io)->stop(); }, &io_);
  }
  ~Exchange() { interrupt_.unwatch(); }

  PostAnswer run(const Url& url, const std::string& json, const std::string& ca_file) {
    const auto addresses = resolve(url);
    if (!url.tls) {
      beast::tcp_stream stream(io_);
      connect(stream, addresses);
      return converse(stream, url, json);
    }
    asio::ssl::context tls(asio::ssl::context::tls_client);
    prepare(tls, ca_file);
    beast::ssl_stream<beast::tcp_stream> stream(io_, tls);
    connect(beast::get_lowest_layer(stream), addresses);
    handshake(stream, url.host);
    return converse(stream, url, json);
  }

 private:
  // Runs until the step called its handler. Throws Failed when it reports an error,
  // did not finish in time or was interrupted.
  template <class Start>
  void wait(const char* what, Start start) {
    if (interrupt_.asked()) throw Failed{std::string(what) + ": given up"};
    error_code result = asio::error::timed_out;
    bool done = false;
    start([&](error_code ec, auto&&...) { result = ec, done = true; });
    io_.restart();
    while (!done && !interrupt_.asked() && io_.run_one_until(deadline_) > 0) {
    }
    if (!done && interrupt_.asked()) throw Failed{std::string(what) + ": given up"};
    if (result == beast::error::timeout) result = asio::error::timed_out;
    if (result) throw Failed{std::string(what) + ": " + result.message()};
  }

  tcp::resolver::results_type resolve(const Url& url) {
    tcp::resolver::results_type found;
    auto resolver = std::make_shared<tcp::resolver>(io_);
    wait("look up " + url.host, [&](auto done) {
      resolver->async_resolve(url.host, url.port,
                              [&found, done](error_code ec, tcp::resolver::results_type r) mutable {
                                found = std::move(r);
                                done(ec);
                              });
    });
    return found;
  }
  template <class Start>
  void wait(const std::string& what, Start start) {
    wait(what.c_str(), std::move(start));
  }

  void connect(beast::tcp_stream& stream, const tcp::resolver::results_type& addresses) {
    stream.expires_at(deadline_);
    wait("connect", [&](auto done) { stream.async_connect(addresses, done); });
  }

  static void prepare(asio::ssl::context& tls, const std::string& ca_file) {
    error_code ec;
    if (ca_file.empty())
      tls.set_default_verify_paths(ec);
    else
      tls.load_verify_file(ca_file, ec);
    if (ec) throw Failed{"certificates " + ca_file + ": " + ec.message()};
    tls.set_verify_mode(asio::ssl::verify_peer);
    SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
  }

  void handshake(beast::ssl_stream<beast::tcp_stream>& stream, const std::string& host) {
    error_code not_an_address;
    asio::ip::make_address(host, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(stream.native_handle(), host.c_str());
    stream.set_verify_callback(asio::ssl::host_name_verification(host));
    wait("TLS", [&](auto done) { stream.async_handshake(asio::ssl::stream_base::client, done); });
  }

  template <class Stream>
  PostAnswer converse(Stream& stream, const Url& url, const std::string& json) {
    http::request<http::string_body> request{http::verb::post, url.target, 11};
    request.set(http::field::host, url.host_header());
    request.set(http::field::user_agent, "sluice");
    request.set(http::field::content_type, "application/json");
    request.set(http::field::connection, "close");
    request.body() = json;
    request.prepare_payload();
    wait("send", [&](auto done) { http::async_write(stream, request, done); });

    beast::flat_buffer buffer;
    http::response_parser<http::empty_body> answer;  // the status is all we want
    wait("answer", [&](auto done) { http::async_read_header(stream, buffer, answer, done); });
    PostAnswer result;
    result.status = static_cast<int>(answer.get().result_int());
    const auto after = answer.get()[http::field::retry_after];
    int seconds = 0;
    if (std::from_chars(after.data(), after.data() + after.size(), seconds).ec == std::errc{})
      result.retry_after_s = seconds;
    return result;
  }

  std::chrono::steady_clock::time_point deadline_;
  Interrupt& interrupt_;
  asio::io_context io_;
};

}  // namespace

PostAnswer http_post(const Url& url, const std::string& json, double timeout_s,
                     const std::string& ca_file, Interrupt& interrupt) try {
  Exchange exchange(timeout_s, interrupt);
  return exchange.run(url, json, ca_file);
} catch (const Failed& f) {
  return {0, f.what, {}};
} catch (const std::exception& e) {
  return {0, e.what(), {}};
}

}  // namespace sluice::watch
