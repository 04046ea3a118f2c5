// Runtime compilation by NVRTC: kernels from source text, or from cubins that a plan stored. NVRTC
// is opened on first use; callers have a fallback where it is not installed.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/exec/cuda/context/backend.h"

namespace sluice::engine::cuda {

// A loaded kernel. Safe to launch from several threads at once.
class CompiledKernel {
 public:
  virtual ~CompiledKernel() = default;
  // `parameters`: the address of each kernel parameter.
  virtual void launch(unsigned blocks, unsigned threads, void** parameters,
                      const KernelArgs& args) const = 0;
};

// The compiled kernels of a session, by source text.
class NvrtcKernels {
 public:
  explicit NvrtcKernels(Context& context);
  ~NvrtcKernels();

  bool available();  // NVRTC is installed
  // The kernel `name` (extern "C") of a source, compiled once. Null if NVRTC is needed but not
  // installed, or if the source does not compile, which is logged.
  std::shared_ptr<const CompiledKernel> get(const std::string& source, const char* name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::map<std::string, std::shared_ptr<const CompiledKernel>> known_;
};

}  // namespace sluice::engine::cuda
