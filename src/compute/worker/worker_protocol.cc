#include "compute/worker/worker_protocol.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/error.h"

namespace sluice::compute {
namespace {

std::size_t in_file(std::size_t bytes) {
  return (bytes + kFileAlignment - 1) / kFileAlignment * kFileAlignment;
}

// Calls visit(s.field, p.field) for each number of a pool's statistics and their packet.
template <class Statistics, class Packet, class Visit>
void visit_fields(Statistics& s, Packet& p, Visit visit) {
  visit(s.used, p.used), visit(s.taken, p.taken), visit(s.committed, p.committed);
  visit(s.ceiling, p.ceiling), visit(s.count, p.count);
  visit(s.peak_used, p.peak_used), visit(s.peak_taken, p.peak_taken);
  visit(s.peak_committed, p.peak_committed);
  visit(s.allocations, p.allocations), visit(s.failures, p.failures), visit(s.commits, p.commits);
  visit(s.remapped_bytes, p.remapped_bytes), visit(s.largest_free, p.largest_free);
  visit(s.grantable, p.grantable), visit(s.stranded, p.stranded);
  visit(s.internal_fragmentation, p.internal_fragmentation);
  visit(s.external_fragmentation, p.external_fragmentation);
  visit(s.efficiency, p.efficiency);
}

}  // namespace

std::size_t file_bytes(const Call& call) {
  std::size_t sum = 0;
  for (const Operand& operand : call.in) sum += in_file(operand.bytes(call.items));
  for (const Operand& operand : call.out) sum += in_file(operand.bytes(call.items));
  return sum;
}

CallPacket pack(const Operation& operation, const Call& call) {
  require(call.in.size() + call.out.size() <= kMaxOperands &&
              call.parameters_bytes <= kMaxParameters &&
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
  if (operands > kMaxOperands || packet.parameters_bytes > kMaxParameters ||
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

std::array<PoolPacket, kMaxPools> pack(const std::vector<memory::PoolStatistics>& pools) {
  std::array<PoolPacket, kMaxPools> packets{};
  for (std::size_t i = 0; i < std::min(pools.size(), kMaxPools); ++i) {
    const memory::PoolStatistics& s = pools[i];
    PoolPacket& p = packets[i];
    put_text(p.name, s.name);
    p.strategy = static_cast<std::uint32_t>(s.strategy);
    visit_fields(s, p, [](const auto& from, auto& to) { to = from; });
  }
  return packets;
}

std::vector<memory::PoolStatistics> unpack(const std::array<PoolPacket, kMaxPools>& packets) {
  std::vector<memory::PoolStatistics> pools;
  for (const PoolPacket& p : packets) {
    if (p.name[0] == 0 || p.name.back() != 0 || p.strategy >= std::size(memory::kStrategyKinds))
      continue;
    memory::PoolStatistics s;
    s.name = p.name.data();
    s.strategy = static_cast<memory::StrategyKind>(p.strategy);
    visit_fields(s, p, [](auto& to, const auto& from) { to = from; });
    pools.push_back(std::move(s));
  }
  return pools;
}

}  // namespace sluice::compute
