// What the C interfaces share: error codes and texts, since no exception may cross the boundary.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "base/error.h"

namespace sluice::bindings {

inline constexpr int kOk = 0;

inline void set_error(std::string_view text, char* error, std::size_t error_size) {
  if (error == nullptr || error_size == 0) return;
  const std::size_t length = std::min(text.size(), error_size - 1);
  std::memcpy(error, text.data(), length);
  error[length] = '\0';
}

// As the enums of the C headers have them.
inline int code_of(Code code) {
  switch (code) {
    case Code::invalid_argument: return 1;
    case Code::not_found: return 2;
    case Code::exhausted: return 3;
    case Code::unavailable: return 4;
    case Code::internal: return 5;
  }
  return 5;
}

template <class Work>
int catch_errors(char* error, std::size_t error_size, Work work) {
  try {
    work();
    return kOk;
  } catch (const Error& e) {
    set_error(e.reason(), error, error_size);
    return code_of(e.code());
  } catch (const std::bad_alloc&) {
    set_error("out of memory", error, error_size);
    return code_of(Code::exhausted);
  } catch (const std::exception& e) {
    set_error(e.what(), error, error_size);
    return code_of(Code::internal);
  }
}

}  // namespace sluice::bindings
