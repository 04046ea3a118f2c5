// main() of monitor_test: the monitor starts this same program as its sampler and
// its canaries, so that the test needs no other one.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "device/health/canary.h"
#include "device/sampler/sampler.h"

namespace {

using Arguments = std::map<std::string, std::string>;  // "--fd" to "3"

int sampler(Arguments& a) {
  sluice::device::SamplerOptions options;
  options.fd = std::stoi(a.at("--fd"));
  options.demo = a["--demo"];
  if (a.contains("--epoch")) options.demo_epoch_ns = std::stoll(a["--epoch"]);
  return sluice::device::run_sampler(options);
}

int canary(Arguments& a) {
  sluice::device::CanaryOptions options{a.at("--uuid"), a["--demo"], std::nullopt};
  if (a.contains("--epoch")) options.demo_epoch_ns = std::stoll(a["--epoch"]);
  const auto report = sluice::device::run_canary(options);
  const auto line = std::string(R"({"passed":)") + (report.passed ? "true" : "false") +
                    R"(,"note":")" + report.note + "\"}\n";
  return write(std::stoi(a.at("--fd")), line.data(), line.size()) < 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  Arguments arguments;
  for (int i = 2; i + 1 < argc; i += 2) arguments[argv[i]] = argv[i + 1];
  if (command == "sampler") return sampler(arguments);
  if (command == "canary") return canary(arguments);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
