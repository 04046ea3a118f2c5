#include "compute/operation.h"

namespace sluice::compute {
namespace {

void move_to(std::vector<Operand>& operands, std::size_t begin) {
  for (Operand& operand : operands)
    operand.data = static_cast<std::byte*>(operand.data) + operand.item_bytes * begin;
}

std::size_t host_bytes(const std::vector<Operand>& operands, std::size_t items) {
  std::size_t sum = 0;
  for (const Operand& operand : operands)
    if (operand.side == Side::host) sum += operand.bytes(items);
  return sum;
}

}  // namespace

Call slice(const Call& call, std::size_t begin, std::size_t end) {
  Call part = call;
  part.items = end - begin;
  part.first += begin;
  move_to(part.in, begin);
  move_to(part.out, begin);
  return part;
}

Traffic traffic(const Call& call) {
  return {host_bytes(call.in, call.items), host_bytes(call.out, call.items)};
}

}  // namespace sluice::compute
