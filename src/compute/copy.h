// Items of one byte from the first input to the first output: how fast memory can be moved.
#pragma once

#include "compute/operation.h"

namespace sluice::compute {

const Operation& copy_operation();

}  // namespace sluice::compute
