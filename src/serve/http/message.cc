#include "serve/http/message.h"

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/memory_budget.h"
#include "serve/status.h"

namespace sluice::serve::http {

namespace {

struct Reason {
  int status;
  std::string_view text;
};
constexpr Reason kReasons[] = {
    {200, "OK"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {505, "HTTP Version Not Supported"},
};

constexpr std::string_view kMethods[] = {"GET",   "HEAD",   "POST",    "PUT",
                                         "PATCH", "DELETE", "OPTIONS", "other"};

std::string_view word_of(Code code) {
  switch (code) {
    case Code::invalid_argument: return "invalid_argument";
    case Code::not_found: return "not_found";
    case Code::exhausted: return "exhausted";
    case Code::unavailable: return "unavailable";
    case Code::internal: return "internal";
  }
  return "internal";
}

std::string_view fix_of(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "Change the request as the message says; docs/http.md and docs/market.md list the "
             "fields.";
    case Code::not_found:
      return "GET /v1/devices, /v1/alerts, /v1/leases and /v1/market list what there is.";
    case Code::exhausted: return "Try again in a moment.";
    case Code::unavailable: return "This server cannot do it; its log says why.";
    case Code::internal: return "This is a fault of the server; its log has more.";
  }
  return "";
}

}  // namespace

std::string_view to_string(Method method) noexcept {
  return kMethods[static_cast<std::size_t>(method)];
}

std::string_view Request::method_name() const noexcept {
  return method == Method::other && !other_method.empty() ? other_method : to_string(method);
}

std::string_view Request::path() const noexcept {
  return std::string_view(target).substr(0, target.find('?'));
}

std::string_view Request::query() const noexcept {
  const auto mark = target.find('?');
  return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
}

namespace {

template <class R>
auto texts(R& r) {
  return std::array{&r.other_method,  &r.target,        &r.host,    &r.origin,
                    &r.content_type,  &r.authorization, &r.api_key, &r.if_none_match,
                    &r.last_event_id, &r.body};
}

}  // namespace

void Request::release_memory() {
  constexpr std::size_t kMaxKeptBytes = 1 << 10;
  for (auto* text : texts(*this))
    if (text->capacity() > kMaxKeptBytes) std::string().swap(*text);
  idempotency_key.reset();
  std::vector<std::string>().swap(captures);
}

std::size_t Request::fields_capacity() const {
  std::size_t sum = idempotency_key ? idempotency_key->capacity() : 0;
  for (const auto* text : texts(*this))
    if (text != &body) sum += text->capacity();
  for (const auto& capture : captures) sum += capture.capacity();
  return sum;
}

void Request::clear() {
  method = Method::other;
  for (auto* text : texts(*this)) text->clear();
  idempotency_key.reset();
  captures.clear();
  version = 11;
  keep_alive = true;
  expects_continue = repeated_host = has_body = false;
}

namespace {

// Limits messages that quote long input: the thread that writes them serves others, too.
std::string shortened(std::string_view message) {
  constexpr std::size_t kMaxMessageBytes = 4 << 10;
  if (message.size() <= kMaxMessageBytes) return std::string(message);
  auto end = kMaxMessageBytes;
  while (end > 0 && (static_cast<unsigned char>(message[end]) & 0xC0) == 0x80) --end;
  return std::string(message.substr(0, end)) + "...";
}

}  // namespace

Response error_response(int status, std::string_view code, std::string_view message,
                        std::string_view fix) {
  // The message may contain text of the caller: invalid UTF-8 is replaced and does not throw.
  const Json json = {{"error", {{"code", code}, {"message", shortened(message)}, {"fix", fix}}}};
  Response made;
  made.status = status;
  made.body = json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (status == 503) made.headers.emplace_back("Retry-After", "1");
  return made;
}

Response error_response(const Error& error) {
  const bool is_full = dynamic_cast<const BudgetExhausted*>(&error) != nullptr;
  auto made = error_response(is_full ? 503 : status_of(error.code()).http, word_of(error.code()),
                             error.reason(), fix_of(error.code()));
  if (error.code() == Code::exhausted && made.status != 503)
    made.headers.emplace_back("Retry-After", "1");
  return made;
}

Response out_of_memory_response() {
  return error_response(BudgetExhausted("there is no memory left for this request now"));
}

std::string_view reason(int status) noexcept {
  for (const auto& r : kReasons)
    if (r.status == status) return r.text;
  return "Unknown";
}

std::string http_date(WallTime t) {
  const auto seconds = std::chrono::system_clock::to_time_t(t);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[64];
  const auto n = std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text, n};
}

void write_response(const Response& response, const Framing& framing, std::string& out) {
  const auto body = response.fixed.empty() ? std::string_view(response.body) : response.fixed;
  const bool bodiless = response.status == 204 || response.status == 304;
  out.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  out.append(reason(response.status)).append("\r\n");
  if (!bodiless) out.append("Content-Type: ").append(response.type).append("\r\n");
  const bool chunked = response.chunks != nullptr && framing.version == 11;
  if (chunked) out.append("Transfer-Encoding: chunked\r\n");
  if (!bodiless && response.stream == nullptr && response.chunks == nullptr)
    out.append("Content-Length: ")
        .append(std::to_string(framing.body_behind + body.size()))
        .append("\r\n");
  out.append("Date: ").append(framing.date).append("\r\n");
  out.append("X-Content-Type-Options: nosniff\r\n");
  bool cached = false;
  for (const auto& [name, value] : response.headers) {
    cached |= name == "Cache-Control";
    out.append(name).append(": ").append(value).append("\r\n");
  }
  if (!cached) out.append("Cache-Control: no-store\r\n");
  if (!framing.keep_alive)
    out.append("Connection: close\r\n");
  else if (framing.version == 10)
    out.append("Connection: keep-alive\r\n");
  out.append("\r\n");
  if (!framing.head_only && !bodiless) out.append(body);
}

}  // namespace sluice::serve::http
