// Apple GPUs, through Metal. CMake links detect_apple.mm on macOS and
// detect_apple_off.cc, which finds none, elsewhere.
#pragma once

#include "device/detect/found.h"

namespace sluice::device {

// Memory is unified with the machine's: memory_total is what Metal recommends to
// use at most, and free memory is not known. Thread-safe.
Found detect_apple();

}  // namespace sluice::device
