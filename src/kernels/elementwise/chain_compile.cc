#include <algorithm>
#include <optional>

#include "kernels/elementwise/chain_cpu.h"

namespace sluice::kernels::cpu {
namespace {

class Compiler {
 public:
  ChainCode run(const Chain& chain) {
    code_.inputs = chain.inputs;
    for (int i = 0; i < chain.inputs; ++i) values_.push_back({i, false});
    for (const Chain::Instruction& instruction : chain.instructions)
      values_.push_back(lower(instruction));
    allocate_registers();
    return std::move(code_);
  }

 private:
  // A value of the chain: an input, a constant, or the result of instruction `index`.
  struct Value {
    int index;
    bool is_result;
    std::optional<float> constant{};
  };
  // The operands of instructions before register allocation: inputs, constants and results, each
  // with a number of its own.
  struct Name {
    bool is_result;
    int index;
  };

  const Value& value(int i) const { return values_[static_cast<std::size_t>(i)]; }

  int name(const Value& v) {
    names_.push_back({v.is_result, v.constant ? code_.inputs + v.index : v.index});
    return static_cast<int>(names_.size()) - 1;
  }

  Value emit(Chain::Op op, const Value& a, const Value* b) {
    const int left = name(a), right = b != nullptr ? name(*b) : -1;
    code_.instructions.push_back({op, left, right, -1});
    return {static_cast<int>(code_.instructions.size()) - 1, true};
  }

  Value lower(const Chain::Instruction& instruction) {
    if (instruction.op == Chain::Op::constant) {
      code_.constants.push_back(instruction.value);
      return {static_cast<int>(code_.constants.size()) - 1, false, instruction.value};
    }
    const Value a = value(instruction.a);
    if (instruction.b < 0) return emit(instruction.op, a, nullptr);
    const Value b = value(instruction.b);
    if (instruction.op != Chain::Op::power || !b.constant) return emit(instruction.op, a, &b);
    if (*b.constant == 2.0f) return emit(Chain::Op::multiply, a, &a);
    if (*b.constant == 0.5f) return emit(Chain::Op::square_root, a, nullptr);
    if (*b.constant == -1.0f) return emit(Chain::Op::reciprocal, a, nullptr);
    if (*b.constant != 3.0f) return emit(instruction.op, a, &b);
    const Value square = emit(Chain::Op::multiply, a, &a);
    return emit(Chain::Op::multiply, square, &a);
  }

  // A result may reuse the register of an operand that is dead afterwards: each element is read
  // before it is written.
  void allocate_registers() {
    std::vector<ChainCode::Instruction>& all = code_.instructions;
    std::vector<std::size_t> last(all.size(), 0);
    const auto operands = [&](ChainCode::Instruction& of, const auto& body) {
      body(of.a);
      if (of.b >= 0) body(of.b);
    };
    for (std::size_t i = 0; i < all.size(); ++i)
      operands(all[i], [&](int n) {
        if (named(n).is_result) last[static_cast<std::size_t>(named(n).index)] = i;
      });
    std::vector<int> free;
    const int first = code_.first_temporary();
    for (std::size_t i = 0; i < all.size(); ++i) {
      operands(all[i], [&](int& n) {
        const Name by = named(n);
        n = by.is_result ? all[static_cast<std::size_t>(by.index)].to : by.index;
        if (by.is_result && last[static_cast<std::size_t>(by.index)] == i &&
            std::find(free.begin(), free.end(), n) == free.end())
          free.push_back(n);
      });
      if (free.empty()) free.push_back(first + code_.temporaries++);
      all[i].to = free.back();
      free.pop_back();
    }
    if (!all.empty()) all.back().to = code_.registers() - 1;
  }

  const Name& named(int n) const { return names_[static_cast<std::size_t>(n)]; }

  ChainCode code_;
  std::vector<Value> values_;
  std::vector<Name> names_;
};

}  // namespace

ChainCode compile(const Chain& chain) { return Compiler().run(chain); }

}  // namespace sluice::kernels::cpu
