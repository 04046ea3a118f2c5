// The server's routes: what each path means in terms of the Service. The tables of routes are at
// the end of monitor_routes.cc, lease_routes.cc and market_routes.cc.
#pragma once

#include <string>
#include <vector>

#include "serve/http/router.h"
#include "serve/service.h"

namespace sluice::serve::http {

// `service` must outlive the routes.
std::vector<Route> make_routes(Service& service);

// Their patterns in order, without needing a Service: Traffic is made before it.
std::vector<std::string> route_names();

}  // namespace sluice::serve::http
