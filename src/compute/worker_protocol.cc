#include "compute/worker_protocol.h"

#include <cstring>

#include "base/error.h"

namespace sluice::compute {
namespace {

std::size_t in_file(std::size_t bytes) {
  return (bytes + kFileAlignment - 1) / kFileAlignment * kFileAlignment;
}

}  // namespace

std::size_t file_bytes(const Call& call) {
  std::size_t sum = 0;
  for (const Operand& operand : call.in) sum += in_file(operand.bytes(call.items));
  for (const Operand& operand : call.out) sum += in_file(operand.bytes(call.items));
  return sum;
}

CallPacket pack(const Operation& operation, const Call& call) {
  require(call.in.size() + call.out.size() <= kMostOperands &&
              call.parameters_bytes <= kMostParameters &&
              operation.name.size() < CallPacket{}.operation.size(),
          "a call has too many arrays or parameters for a worker");
  CallPacket packet{};
  put_text(packet.operation, operation.name);
  packet.items = call.items;
  packet.first = call.first;
  packet.work = call.work;
  packet.inputs = static_cast<std::uint32_t>(call.in.size());
  packet.outputs = static_cast<std::uint32_t>(call.out.size());
  std::size_t i = 0;
  for (const auto* operands : {&call.in, &call.out})
    for (const Operand& operand : *operands)
      packet.shapes[i++] = {operand.item_bytes, operand.shared_bytes};
  packet.parameters_bytes = static_cast<std::uint32_t>(call.parameters_bytes);
  if (call.parameters_bytes > 0)
    std::memcpy(packet.parameters.data(), call.parameters, call.parameters_bytes);
  return packet;
}

std::optional<Call> unpack(const CallPacket& packet, std::byte* file, std::size_t bytes) {
  const std::size_t operands = std::size_t{packet.inputs} + packet.outputs;
  if (operands > kMostOperands || packet.parameters_bytes > kMostParameters ||
      packet.operation.back() != 0)
    return std::nullopt;
  Call call;
  call.items = packet.items;
  call.first = packet.first;
  call.work = packet.work;
  call.parameters = packet.parameters.data();
  call.parameters_bytes = packet.parameters_bytes;
  std::size_t at = 0;
  for (std::size_t i = 0; i < operands; ++i) {
    const auto& shape = packet.shapes[i];
    std::size_t size = 0;
    if (__builtin_mul_overflow(shape.item_bytes, packet.items, &size) ||
        __builtin_add_overflow(size, shape.shared_bytes, &size) || size > bytes - at)
      return std::nullopt;
    (i < packet.inputs ? call.in : call.out)
        .push_back({file + at, shape.item_bytes, shape.shared_bytes, Side::host});
    at = std::min(at + in_file(size), bytes);
  }
  return call;
}

}  // namespace sluice::compute
