// A short, repeatable run of http_fuzz.cc: requests with bytes changed, cut out and
// doubled.
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr int kVariants = 4000;  // of each request

const std::string kRequests[] = {
    "GET /v1/history?device=GPU-1&metrics=power,utilization&from=-60&points=10 HTTP/1.1\r\n"
    "Host: localhost:8000\r\nAuthorization: Basic bWU6a2V5\r\nAccept: */*\r\n\r\n",
    "POST /v1/leases/a%2Fb/renew HTTP/1.1\r\nHost: [::1]:8000\r\nOrigin: http://[::1]:8000\r\n"
    "Content-Type: application/json\r\nX-API-Key: key\r\nTransfer-Encoding: chunked\r\n\r\n"
    "4;x=\"y\"\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\nTrailer: x\r\n\r\n",
    "POST http://name/v1/leases/x/renew?a=b&a HTTP/1.0\r\nHost: name\r\nContent-Length: 2\r\n"
    "Expect: 100-continue\r\nConnection: keep-alive, upgrade\r\nUpgrade: h2c\r\n\r\n{}",
    "OPTIONS * HTTP/1.1\r\nHost: x\r\nFolded: a\r\n b\r\n\tc\r\nAuthorization: Bearer  key\r\n\r\n",
    "GET /assets/%E2%82%AC/..%2f?%zz=+&&= HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: b\r\n\r\n",
};

std::string damaged(std::string text, std::mt19937& random) {
  const char kInteresting[] = "\r\n :;,%?&=/*[]\"{}0fF\t\x7f\xff";
  const auto below = [&](std::size_t n) { return random() % n; };
  for (std::size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
    const std::size_t at = below(text.size()), length = 1 + below(24);
    switch (below(4)) {
      case 0: text[at] = kInteresting[below(sizeof kInteresting)]; break;  // NUL included
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, length * length * 8, text[at]); break;
      default: text.insert(at, text.substr(at, length));
    }
  }
  return text;
}

void feed(const std::string& text) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
}

}  // namespace

int main() {
  std::mt19937 random(1);
  int fed = 0;
  for (const auto& request : kRequests) {
    for (std::size_t cut = 0; cut <= request.size(); ++cut, ++fed) feed(request.substr(0, cut));
    for (int i = 0; i < kVariants; ++i, ++fed) feed(damaged(request, random));
  }
  std::printf("http_fuzz_smoke: %d requests\n", fed);
}
