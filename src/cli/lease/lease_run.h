// `sluice lease request AGENT … -- COMMAND`: a command under a lease.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cli/common/command.h"
#include "cli/lease/lease_server.h"

namespace sluice::cli {

// Runs `command` with what `answer` says to export, renews the lease over `server` (the
// connection it was granted over) and releases it in the end. When the holder is asked to
// yield, or the lease is lost, the command gets SIGTERM; signals from other processes are
// passed on. Returns the command's exit code, 128 + N when signal N ended it, 127 or 126
// when it could not be started.
int run_under_lease(const std::vector<std::string>& command, const Json& answer,
                    LeaseServer& server, const ServerAddress& address, Io& io);

}  // namespace sluice::cli
