// Kernels from source text, compiled while kernels are made. NVRTC is opened at run time;
// where there is none, whoever asks has another way.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/cuda/kernels.h"

namespace sluice::engine::cuda {

// One kernel, loaded. Safe to launch from several threads at once.
class CompiledKernel {
 public:
  virtual ~CompiledKernel() = default;
  // `parameters`: the address of each.
  virtual void launch(unsigned blocks, unsigned threads, void** parameters,
                      const KernelArgs& args) const = 0;
};

// What a session has compiled, by source text.
class Sources {
 public:
  explicit Sources(Context& context);
  ~Sources();

  bool available() const noexcept;
  // The kernel `name` (extern "C") of a source, compiled once. Throws internal, with the
  // compiler's words, where it is wrong.
  std::shared_ptr<const CompiledKernel> get(const std::string& source, const char* name);

 private:
  struct Compiler;
  std::unique_ptr<Compiler> compiler_;  // null: there is none
  std::map<std::string, std::shared_ptr<const CompiledKernel>> known_;
};

}  // namespace sluice::engine::cuda
