// One POST of a JSON document, with a time limit. Blocks its thread.
#pragma once

#include <optional>
#include <string>

#include "base/http/http_client.h"

namespace sluice::watch {

struct PostAnswer {
  int status = 0;                       // 0 when there was no answer
  std::string error;                    // then why: "connect: Connection refused"
  std::optional<double> retry_after_s;  // from the header, when it is a number
};

// Never throws for what the network does. https verifies certificate and name
// against `ca_file`, or the system's store when that is empty.
PostAnswer http_post(const Url& url, const std::string& json, double timeout_s,
                     const std::string& ca_file, Interrupt& interrupt);

}  // namespace sluice::watch
