// Numbers as people read them: 139.8 GiB, 4.31 TB/s, 2 min 5 s.
#pragma once

#include <cstdint>
#include <string>

namespace sluice {

std::string human_bytes(std::uint64_t bytes);                 // binary: KiB, MiB, GiB, TiB
std::string human_rate(double per_second, const char* unit);  // decimal: 4.31 TB/s, 790 TFLOP/s
std::string human_duration(double seconds);  // 350 us, 1.2 s, 2 min 5 s, 3 h 4 min, 2 d 3 h

}  // namespace sluice
