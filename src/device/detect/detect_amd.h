// AMD GPUs: from sysfs, and better named through AMD SMI where it is installed.
//
// ROCm SMI (librocm_smi64) is never opened: a process that has it loaded makes
// AMD SMI see no device.
#pragma once

#include <string>

#include "device/detect/found.h"
#include "device/sysfs.h"

namespace sluice::device {

// `library`: AMD SMI's file; opened only when sysfs shows an AMD card, and not at
// all when empty. Never throws for what it finds. AMD SMI may be initialised once
// per process, so one call at a time.
Found detect_amd(const Path& root = "/", const std::string& library = "libamd_smi.so");

}  // namespace sluice::device
