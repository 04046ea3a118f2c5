// Tells tests whether they run under a sanitizer, which is several times slower and keeps freed
// memory.
#pragma once

namespace sluice {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Times by which a limit on time is longer.
inline constexpr int kPatience = kSanitized ? 20 : 1;

}  // namespace sluice
