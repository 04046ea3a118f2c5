// The rules about single GPUs, for the table in doctor.cc.
#pragma once

#include <optional>

#include "device/doctor/doctor.h"

namespace sluice::device {

using MaybeCheck = std::optional<Check>;  // nothing when the rule does not apply

MaybeCheck check_answers(const Facts& facts);
MaybeCheck check_compute(const Facts& facts);
MaybeCheck check_gpu_code(const Facts& facts);
MaybeCheck check_cuda_version(const Facts& facts);
MaybeCheck check_gpu_memory(const Facts& facts);
MaybeCheck check_persistence(const Facts& facts);
MaybeCheck check_ecc(const Facts& facts);
MaybeCheck check_rows(const Facts& facts);
MaybeCheck check_throttle(const Facts& facts);
MaybeCheck check_recovery(const Facts& facts);

}  // namespace sluice::device
