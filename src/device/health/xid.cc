// NVIDIA's catalogue of XID codes, as far as it concerns whether a GPU may be
// given work. The driver's recovery action has the first word; this is the second
// opinion, and the only one on drivers that do not know that field.
#include <algorithm>
#include <iterator>

#include "device/health/health.h"

namespace sluice::device {

namespace {

using enum XidAction;

// Sorted by code. An error of a program ends that program and says nothing about
// the GPU: none or restart_app.
constexpr XidInfo kXids[] = {
    {8, "the GPU stopped processing a program's work", restart_app},
    {11, "a program sent an invalid command stream", restart_app},
    {12, "the driver could not handle a GPU exception", restart_app},
    {13, "a program caused a graphics engine exception", restart_app},
    {31, "a program touched memory that is not its own (MMU fault)", restart_app},
    {32, "a program sent a corrupt push buffer", restart_app},
    {37, "a program hit a driver firmware error", restart_app},
    {38, "driver firmware error", reset_gpu},
    {39, "copy engine exception", restart_app},
    {40, "copy engine exception", restart_app},
    {41, "copy engine exception", restart_app},
    {42, "video processor exception", restart_app},
    {43, "a program's channel was reset after its own fault", none},
    {44, "a program caused a graphics engine fault during a context switch", restart_app},
    {45, "a program's work was removed after it ended or failed", none},
    {46, "the GPU stopped processing", reset_gpu},
    {48, "double-bit memory error (not correctable)", drain_and_reset},
    {54, "the auxiliary power cable is not connected", reboot},
    {61, "internal micro-controller breakpoint", reset_gpu},
    {62, "internal micro-controller halted", reset_gpu},
    {63, "a memory row or page was marked for replacement", none},
    {64, "a memory row or page could not be replaced", drain_and_reset},
    {66, "a program made an illegal access", restart_app},
    {68, "video decoder exception", restart_app},
    {69, "a program caused a graphics engine class error", restart_app},
    {74, "NVLink error", check},
    {78, "a virtual GPU could not start", check},
    {79, "the GPU has fallen off the bus", reboot},
    {80, "corrupt data was sent to the GPU", check},
    {92, "high rate of single-bit memory errors", check},
    {93, "the card's configuration memory is worn", check},
    {94, "a contained memory error ended the program that used the memory", restart_app},
    {95, "an uncontained memory error: every program on the GPU is affected", reset_gpu},
    {96, "video decoder exception", restart_app},
    {97, "video decoder exception", restart_app},
    {109, "context switch timed out", reset_gpu},
    {110, "security fault", reset_gpu},
    {119, "the GPU's system processor does not answer (GSP RPC timeout)", reset_gpu},
    {120, "the GPU's system processor failed (GSP error)", reset_gpu},
    {121, "corrected error on the chip-to-chip link", none},
    {122, "the power unit's serial memory failed", reset_gpu},
    {123, "the power management unit does not answer", reset_gpu},
    {136, "link training failed", reset_gpu},
    {137, "a program made an illegal access over NVLink", restart_app},
    {140, "memory error that was not recovered", reset_gpu},
    {143, "the GPU could not be initialised", reset_gpu},
    {144, "NVLink: SAW error", check},
    {145, "NVLink: RLW error", check},
    {146, "NVLink: TLW error", check},
    {147, "NVLink: TREX error", check},
    {148, "NVLink: NVLPW_CTRL error", check},
    {149, "NVLink: NETIR error", check},
    {150, "NVLink: MSE error", check},
    {151, "key rotation failed", restart_app},
    {154, "the recovery action changed", none},
    {155, "NVLink: link is down", check},
    {156, "part of the GPU was taken out of use", none},
    {157, "part of the GPU could not be taken out of use", check},
    {158, "fatal timeout in the GPU", reset_gpu},
    {160, "a memory channel was taken out of use", drain_and_reset},
    {161, "a memory channel could not be taken out of use", check},
};
static_assert(std::ranges::is_sorted(kXids, {}, &XidInfo::code));

}  // namespace

XidInfo xid_info(unsigned code) noexcept {
  const auto* at = std::ranges::lower_bound(kXids, code, {}, &XidInfo::code);
  if (at != std::end(kXids) && at->code == code) return *at;
  return {code, "an event that the catalogue does not know", check};
}

std::string_view recovery_action_name(int action) noexcept {
  constexpr std::string_view kNames[] = {"none",
                                         "reset the GPU",
                                         "reboot the machine",
                                         "drain peer-to-peer work",
                                         "drain and reset the GPU",
                                         "recover the IMEX domain",
                                         "reset the bus",
                                         "reboot the system"};
  if (action < 0 || action >= static_cast<int>(std::size(kNames))) return "unknown action";
  return kNames[action];
}

std::string_view to_string(XidAction action) noexcept {
  switch (action) {
    case none: return "none";
    case restart_app: return "restart_app";
    case check: return "check";
    case drain_and_reset: return "drain_and_reset";
    case reset_gpu: return "reset_gpu";
    case reboot: return "reboot";
  }
  return "check";
}

}  // namespace sluice::device
