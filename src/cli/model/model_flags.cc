#include "cli/model/model_flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "cli/common/open_gpu.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTensorCores = 70;  // compute capability from which f16 is the fastest

[[noreturn]] void refuse(const DeviceFlags& flags, const std::string& known) {
  const bool quantized = flags.precision == "int8" || flags.precision == "fp8";
  const std::string where = flags.device == "cpu" ? "the CPU" : "CUDA";
  const std::string other = quantized ? "sluice quantize makes a model of " + flags.precision
                                      : flags.precision + " needs --device cuda";
  throw Error(Code::unavailable, where + " computes in " + known + ": " + other);
}

std::string how_measured(const engine::PrecisionReport& report) {
  if (report.measured == "gpu") return "on the GPU";
  return report.measured == "another shape" ? "measured for another shape" : report.measured;
}

}  // namespace

void add_options(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option(
         "--precision", flags.precision,
         "fp32; on a GPU tf32, fp16 and bf16; auto: the fastest precision with hardware support")
      ->check(CLI::IsMember({"fp32", "tf32", "fp16", "bf16", "fp8", "int8", "auto"}));
  add_max_loss(app, flags.max_loss);
}

void add_max_loss(CLI::App& app, std::optional<double>& max_loss) {
  app.add_option("--max-loss", max_loss,
                 "the most that fp16 and bf16 may differ from fp32, of the largest output: 0.01, "
                 "for bf16 0.08, otherwise; inf: do not measure")
      ->check([](const std::string& text) {
        double loss = 0;  // infinity is one, what is no number is not
        return CLI::detail::lexical_cast(text, loss) && loss >= 0
                   ? ""
                   : text + " is no loss: 0 or more, or inf";
      });
}

void add_skip_padding(CLI::App& app, bool& flag) {
  app.add_flag("--skip-padding", flag,
               "of encoders: compute nothing where the mask is 0; outputs are 0 there");
}

OnDevice on_device(const DeviceFlags& flags, const std::vector<std::string>& library_dirs) {
  OnDevice made;
  made.session.skip_padding = flags.skip_padding;
  made.session.max_loss = flags.max_loss;
  made.chosen = flags.precision == "auto";
  made.precision = flags.precision;
  if (flags.device == "cpu") {
    if (made.precision == "auto") made.precision = "fp32";
    if (made.precision != "fp32") refuse(flags, "fp32");
    return made;
  }
  const std::map<std::string, DType> known{{"fp32", DType::f32},
                                           {"tf32", DType::f32},
                                           {"fp16", DType::f16},
                                           {"bf16", DType::bf16},
                                           {"auto", DType::f16}};
  const auto as = known.find(made.precision);
  if (as == known.end()) refuse(flags, "fp32, tf32, fp16 and bf16");
  made.session.precision = as->second;
  engine::cuda::Options options;
  options.library_dirs = library_dirs;
  options.tf32 = made.precision == "tf32";
  const auto from = Steady::now();
  made.session.gpu = open_gpu(std::move(options));
  made.seconds = seconds_between(from, Steady::now());
  if (made.precision == "auto") {
    const bool quick = made.session.gpu->capability() >= kTensorCores;
    made.precision = quick ? "fp16" : "fp32";
    made.session.precision = quick ? DType::f16 : DType::f32;
  }
  return made;
}

PrecisionResult precision_result(const OnDevice& on, const engine::Session::Compiled& compiled) {
  PrecisionResult seen{on.precision, compiled.precision};
  if (!seen.report || seen.report->refused.empty()) return seen;
  if (!on.chosen)
    throw Error(Code::unavailable,
                seen.report->refused + "; --precision auto or fp32 runs it in fp32, and " +
                    (seen.report->loss ? "a larger --max-loss" : "--max-loss inf") + " as it is");
  seen.name = "fp32";
  return seen;
}

std::string precision_text(const PrecisionResult& seen) {
  if (!seen.report || (seen.report->allowed_loss == 0 && seen.report->measured.empty())) return "";
  const engine::PrecisionReport& report = *seen.report;
  if (!report.refused.empty()) return "Precision: fp32, because " + report.refused + "\n";
  std::string text = report.loss
                         ? fmt::format("Precision: {}, off by {:.2g} of the largest output ({})\n",
                                       seen.name, *report.loss, how_measured(report))
                         : fmt::format("Precision: {}, not measured\n", seen.name);
  constexpr std::size_t kShown = 8;
  for (std::size_t i = 0; i < std::min(report.wide.size(), kShown); ++i)
    text += fmt::format("  in fp32: {}, which {}\n", report.wide[i].node, report.wide[i].why);
  if (report.wide.size() > kShown)
    text += fmt::format("  and {} more\n", report.wide.size() - kShown);
  return text;
}

Json precision_json(const PrecisionResult& seen) {
  if (!seen.report) return nullptr;
  Json wide = Json::array();
  for (const engine::WideNode& node : seen.report->wide)
    wide.push_back({{"node", node.node}, {"output", node.value}, {"why", node.why}});
  Json json{{"requested", seen.report->requested},
            {"measured", seen.report->measured},
            {"max_loss", seen.report->requested_loss},
            {"narrow_nodes", seen.report->narrow},
            {"fp32_nodes", wide},
            {"measuring_seconds", seen.report->seconds}};
  if (seen.report->loss) json["loss"] = *seen.report->loss;
  if (!seen.report->refused.empty()) json["refused"] = seen.report->refused;
  return json;
}

}  // namespace sluice::cli
