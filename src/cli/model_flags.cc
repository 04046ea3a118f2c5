#include "cli/model_flags.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>

#include "base/clock.h"
#include "base/error.h"

namespace sluice::cli {
namespace {

constexpr int kTensorCores = 70;  // compute capability from which f16 is the quickest

[[noreturn]] void refuse(const DeviceFlags& flags, const std::string& known) {
  const bool quantized = flags.precision == "int8" || flags.precision == "fp8";
  throw Error(Code::unavailable, flags.device + " does not run a model as it is in " +
                                     flags.precision + " (" + known + ")" +
                                     (quantized ? "; sluice quantize makes one that it runs" : ""));
}

}  // namespace

void add_options(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--precision", flags.precision,
                 "fp32; on a GPU tf32, fp16 and bf16; auto: the quickest the device is good at")
      ->check(CLI::IsMember({"fp32", "tf32", "fp16", "bf16", "fp8", "int8", "auto"}));
}

void add_skip_padding(CLI::App& app, bool& flag) {
  app.add_flag("--skip-padding", flag,
               "of encoders: compute nothing where the mask is 0; outputs are 0 there");
}

OnDevice on_device(const DeviceFlags& flags, const std::vector<std::string>& library_dirs) {
  OnDevice made;
  made.session.skip_padding = flags.skip_padding;
  made.precision = flags.precision;
  if (flags.device == "cpu") {
    if (made.precision == "auto") made.precision = "fp32";
    if (made.precision != "fp32") refuse(flags, "fp32; --device cuda has others");
    return made;
  }
  const std::map<std::string, DType> known{{"fp32", DType::f32},
                                           {"tf32", DType::f32},
                                           {"fp16", DType::f16},
                                           {"bf16", DType::bf16},
                                           {"auto", DType::f16}};
  const auto as = known.find(made.precision);
  if (as == known.end()) refuse(flags, "fp32, tf32, fp16, bf16");
  made.session.precision = as->second;
  engine::cuda::Options options;
  options.library_dirs = library_dirs;
  options.tf32 = made.precision == "tf32";
  const auto from = Steady::now();
  made.session.gpu = engine::make_cuda_context(std::move(options));
  made.seconds = seconds_between(from, Steady::now());
  if (made.precision == "auto") {
    const bool quick = made.session.gpu->capability() >= kTensorCores;
    made.precision = quick ? "fp16" : "fp32";
    made.session.precision = quick ? DType::f16 : DType::f32;
  }
  return made;
}

}  // namespace sluice::cli
