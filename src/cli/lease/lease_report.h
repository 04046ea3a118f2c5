// Text reports of leases. Pure functions: the server's JSON in, text out.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <string_view>

#include "base/json.h"
#include "cli/common/terminal.h"

namespace sluice::cli {

// The answer of GET /v1/leases: who holds what, who waits, and what is left of each GPU.
void print_leases(const Json& leases, std::ostream& out, const Terminal& terminal);

// The answer to a request, or of GET /v1/leases/ID.
void print_lease(const Json& answer, std::ostream& out, const Terminal& terminal);

// The variables of the answer's env. Throws unavailable for one that a lease does not set: a false
// server would run code of its own (LD_PRELOAD) with the rights of the caller.
std::map<std::string, std::string> lease_environment(const Json& answer);

// "export NAME='value'" for each of the answer's env, the lease's id and token. Throws as
// lease_environment() does.
std::string export_lines(const Json& answer);

// One event: "07:17:29 granted  lease 4  scout  8.0 GB  best fit on …".
std::string event_line(std::string_view type, const Json& event);

}  // namespace sluice::cli
