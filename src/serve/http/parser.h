// Beast's request parser, filling our Request in place: one parser per message,
// nothing allocated once the strings have grown to their usual size.
#pragma once

#include <boost/beast/http/basic_parser.hpp>

#include "serve/http/message.h"

namespace sluice::serve::http {

class Parser final : public boost::beast::http::basic_parser<true> {
 public:
  // `into` must outlive the parser and is cleared.
  Parser(Request& into, std::uint32_t header_limit);

  // Call when the header is done: takes over what only then is known.
  void finish_header();

 private:
  using string_view = boost::beast::string_view;
  using error_code = boost::beast::error_code;
  using verb = boost::beast::http::verb;
  using field = boost::beast::http::field;

  void on_request_impl(verb method, string_view name, string_view target, int version,
                       error_code&) override;
  void on_field_impl(field name, string_view name_text, string_view value, error_code&) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override;
  std::size_t on_body_impl(string_view bytes, error_code&) override;
  std::size_t on_chunk_body_impl(std::uint64_t, string_view bytes, error_code&) override;
  void on_response_impl(int, string_view, int, error_code&) override {}
  void on_header_impl(error_code&) override { has_header_ = true; }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  void on_finish_impl(error_code&) override {}

  std::size_t append(string_view bytes);

  Request& request_;
  std::uint64_t length_ = ~std::uint64_t{0};  // of the body, where it was announced
  bool has_host_ = false;                     // an empty one counts
  bool has_encoding_ = false;
  bool has_header_ = false;  // fields that come now are trailers
};

// 413, naming the limit in bytes.
Response body_too_large(std::uint64_t limit);

// The answer to bytes that are no request within the limits; the connection
// cannot go on after it. `unread`: from where the parser stopped.
Response parse_failure(const boost::system::error_code& failed, std::string_view unread = {});

}  // namespace sluice::serve::http
