#include "device/detect/detect_apple.h"

namespace sluice::device {

Found detect_apple() { return {}; }

}  // namespace sluice::device
