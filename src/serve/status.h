// HTTP status, gRPC code and exit code of each error code.
#pragma once

#include "base/error.h"

namespace sluice::serve {

struct Status {
  int http;
  int grpc;
  int exit;  // 1 the work failed, 2 the caller used it wrongly
};

constexpr Status status_of(Code code) noexcept {
  switch (code) {
    case Code::invalid_argument: return {400, 3, 2};
    case Code::not_found: return {404, 5, 1};
    case Code::exhausted: return {429, 8, 1};
    case Code::unavailable: return {503, 14, 1};
    case Code::internal: return {500, 13, 1};
  }
  return {500, 13, 1};
}

}  // namespace sluice::serve
