#include "base/cancellation.h"

namespace sluice::detail {

constinit thread_local const std::stop_token* cancel_token = nullptr;

}  // namespace sluice::detail
