// A short, repeatable run of http_fuzz.cc.
#include "smoke.h"

namespace {

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

}  // namespace

int main() {
  return sluice::fuzz::run("http_fuzz_smoke", kRequests,
                           {.variants = 4000, .alphabet = "\r\n :;,%?&=/*[]\"{}0fF\t\x7f\xff"});
}
