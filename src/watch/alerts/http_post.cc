#include "watch/alerts/http_post.h"

namespace sluice::watch {

PostAnswer http_post(const Url& url, const std::string& json, double timeout_s,
                     const std::string& ca_file, Interrupt& interrupt) {
  HttpClient client({url, {}, ca_file}, interrupt);
  const auto answer = client.call(
      {.method = "POST", .target = url.target, .json = json, .wants_body = false}, timeout_s);
  return {answer.status, answer.error, answer.retry_after_s};
}

}  // namespace sluice::watch
