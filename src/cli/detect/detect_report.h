// An inventory as text.
#pragma once

#include "cli/common/report.h"
#include "device/gpu.h"

namespace sluice::cli {

// GPUs of one make and the same settings share a block, so that a machine with
// eight of them still fits a small terminal.
void print(const device::Inventory& inventory, Report& report);

}  // namespace sluice::cli
