// The audit log: each attempt to change the property of another peer is one line of JSON, appended
// to audit.log in the state folder. Ordinary use (a lease asked for, renewed, given back by its
// holder) is not written here; `recent` and the timeline have that.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/state_file.h"

namespace sluice::serve {

// Thread-safe. Nothing here throws: where a line cannot be written, the log says so once, and
// has the line.
class AuditLog {
 public:
  struct Entry {
    std::string who{};      // "uid:1000", "key:admin", "addr:10.0.0.9", "broker"
    std::string key{};      // the name of the one that was shown: "admin", "api"
    std::string address{};  // of TCP; empty over the Unix socket
    std::int64_t pid = 0;   // of the Unix socket; 0: unknown
    std::string what{};     // "POST /v1/alerts/silence"
    std::string detail{};   // as the client sent it; every text is cut when it is long
    std::string result{};   // "done", or why not
    bool refused = false;   // such lines are few a minute, of each `who` and in all; the rest are
                            // counted
  };

  // audit.log and audit.log.1, the one before it, have at most `max_bytes` together. Without a
  // folder lines go to the program's log alone.
  AuditLog(std::string folder, std::uint64_t max_bytes);

  void add(const Entry& entry, WallTime at = std::chrono::system_clock::now());

  void set_max_bytes(std::uint64_t max_bytes);

 private:
  // So many at once, and again with time.
  struct TokenBucket {
    double left;
    WallTime at{};
    bool take(double capacity, double per_second, WallTime now);
  };
  bool may_log_refusal(const std::string& who, WallTime at) REQUIRES(mutex_);
  void write(const std::string& line) REQUIRES(mutex_);
  void open() REQUIRES(mutex_);

  Mutex mutex_;
  const std::string path_;  // empty: none
  std::uint64_t max_bytes_ GUARDED_BY(mutex_);
  std::unique_ptr<StateFile> file_ GUARDED_BY(mutex_);
  bool is_failing_ GUARDED_BY(mutex_) = false;
  TokenBucket known_ GUARDED_BY(mutex_), fresh_ GUARDED_BY(mutex_);  // of refusals
  std::map<std::string, TokenBucket> refused_ GUARDED_BY(mutex_);    // lately, by `who`
  std::uint64_t left_out_ GUARDED_BY(mutex_) = 0;
};

}  // namespace sluice::serve
