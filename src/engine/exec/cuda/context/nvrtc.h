// Kernels from source text, compiled while kernels are made, or as a plan brought them. NVRTC is
// opened at run time, when it is first needed; where there is none, whoever asks has another way.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/exec/cuda/context/backend.h"

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

  bool available();  // NVRTC is here
  // The kernel `name` (extern "C") of a source, compiled once; null where it would have to be
  // and NVRTC is not here, and where it does not compile, which is logged.
  std::shared_ptr<const CompiledKernel> get(const std::string& source, const char* name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::map<std::string, std::shared_ptr<const CompiledKernel>> known_;
};

}  // namespace sluice::engine::cuda
