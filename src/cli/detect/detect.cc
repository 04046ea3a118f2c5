// sluice detect: what this machine has.
#include "device/detect/detect.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>
#include <ostream>

#include "cli/common/commands.h"
#include "cli/common/demo_flags.h"
#include "cli/detect/detect_report.h"

namespace sluice::cli {

namespace {

constexpr std::string_view kDetectExamples =
    "  sluice detect\n"
    "  sluice detect --json | jq -r '.gpus[].uuid'\n"
    "  sluice detect --demo eight-gpus      a machine you do not have";

}  // namespace

int detect(Args args, Io& io) {
  CLI::App app("Lists GPUs of every vendor and the CPU, with what each can do", "sluice detect");
  bool json = false;
  DemoFlags demo;
  app.add_flag("--json", json, "as JSON; docs/schemas/detect.schema.json describes it");
  demo.add_to(app);
  if (!parse(app, args, io, kDetectExamples)) return 0;

  device::DetectOptions options;
  options.demo = demo.scenario;
  options.demo_options = demo.options();
  const auto inventory = device::detect(options);
  if (json) {
    Json document = {{"schema", "sluice/detect/1"}, {"version", SLUICE_VERSION}};
    document.update(to_json(inventory));
    io.out << document.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  } else {
    Report report(io.out, terminal_behind(io.out));
    print(inventory, report);
  }
  return 0;
}

}  // namespace sluice::cli
