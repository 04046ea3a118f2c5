// Which addresses only this machine can reach.
#pragma once

#include <string_view>

namespace sluice::serve {

// "localhost", 127.0.0.0/8 and ::1. A name that must be resolved is not.
bool is_loopback(std::string_view host) noexcept;

}  // namespace sluice::serve
