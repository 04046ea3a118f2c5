// The yardstick for bench/http_bench.py: the plainest Boost.Beast server that
// answers a fixed JSON document with keep-alive, one coroutine per connection, one
// thread. What the machine gives at most changes from minute to minute; the ratio
// to this program measured beside it does not.
#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <cstdlib>
#include <iostream>

namespace asio = boost::asio;
namespace http = boost::beast::http;

namespace {

asio::awaitable<void> answer(asio::ip::tcp::socket socket) {
  boost::beast::flat_buffer buffer;
  try {
    for (;;) {
      http::request<http::string_body> request;
      co_await http::async_read(socket, buffer, request, asio::use_awaitable);
      http::response<http::string_body> response{http::status::ok, request.version()};
      response.set(http::field::content_type, "application/json");
      response.keep_alive(request.keep_alive());
      response.body() = R"({"status":"ok","live":true})";
      response.prepare_payload();
      co_await http::async_write(socket, response, asio::use_awaitable);
      if (!request.keep_alive()) break;
    }
  } catch (const boost::system::system_error&) {
    // the client left
  }
}

asio::awaitable<void> listen(unsigned short port) {
  const auto executor = co_await asio::this_coro::executor;
  asio::ip::tcp::acceptor acceptor(executor, {asio::ip::make_address("127.0.0.1"), port});
  std::cout << "port " << acceptor.local_endpoint().port() << std::endl;
  for (;;) {
    auto socket = co_await acceptor.async_accept(asio::use_awaitable);
    socket.set_option(asio::ip::tcp::no_delay(true));
    asio::co_spawn(executor, answer(std::move(socket)), asio::detached);
  }
}

}  // namespace

int main(int argc, char** argv) {
  asio::io_context io(1);
  const auto port = static_cast<unsigned short>(argc > 1 ? std::atoi(argv[1]) : 0);
  asio::co_spawn(io, listen(port), asio::detached);
  io.run();
}
