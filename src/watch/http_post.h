// One POST of a JSON document, with a time limit. Blocks its thread.
#pragma once

#include <optional>
#include <string>

#include "base/mutex.h"
#include "watch/url.h"

namespace sluice::watch {

// Lets another thread end a post in progress. Thread-safe.
class Interrupt {
 public:
  void now();  // this and every later post fail at once
  bool asked() const;

  // For http_post: while set, `stop` (with `what`) is called by now().
  void watch(void (*stop)(void*), void* what);
  void unwatch();

 private:
  mutable Mutex mutex_;
  bool asked_ GUARDED_BY(mutex_) = false;
  void (*stop_)(void*) GUARDED_BY(mutex_) = nullptr;
  void* what_ GUARDED_BY(mutex_) = nullptr;
};

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
