// Small pieces that every JSON document of the broker is made of.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "broker/lease/lease.h"
#include "broker/store/store.h"

namespace sluice::broker {

// GB of 2^30 bytes, rounded down so that nothing is promised by rounding: to three decimal
// places, six below 1.
double gb(std::uint64_t bytes);
double thousandths(double value);

// `name` as a time and `name`_in_s or _age_s beside it; nothing for a moment that never came.
void put_future(Json& json, const std::string& name, Instant t, const Moment& at);
void put_past(Json& json, const std::string& name, Instant t, const Moment& at);

// Adds problems: over_use in bytes, and while it is asked to yield the reason and the deadline.
void put_trouble(Json& json, const Lease& lease, const Moment& at);

// Adds the cost of a completed preemption: seconds from the request until the memory was free.
void put_yield_cost(Json& json, const Lease& lease);

// The public fields of a lease.
Json lease_json(const Lease& lease, const Moment& at);

}  // namespace sluice::broker
