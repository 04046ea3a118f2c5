#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "cli/common/commands.h"
#include "serve/status.h"

namespace sluice::cli {

namespace {

// Sorted by name.
constexpr Command kCommands[] = {
    {"backtest", "backtest trading rules: parameter sweeps, walk-forward, reports", backtest},
    {"bench", "measure this machine: memory, links, GEMM rates, latencies", bench},
    {"canary", "check that a GPU computes correctly", canary, true},
    {"classify", "classify texts, or pairs of texts", classify},
    {"compile", "compile a model into a plan that starts in milliseconds", compile},
    {"detect", "list the GPUs and the CPU with their capabilities", detect},
    {"doctor", "find problems of drivers, GPUs and settings, with their fixes", doctor},
    {"embed", "turn texts into vectors by a sentence encoder", embed},
    {"gpu-limit", "limit the GPU memory of a control group", gpu_limit, true},
    {"gpu-worker", "calculate on a GPU for another process", gpu_worker, true},
    {"lease", "lease GPU memory: request, run a command, list, release, watch", lease},
    {"market", "calculate indicators, options, risk and portfolios from CSV", market_command},
    {"memory", "record and replay GPU allocations; compare pool strategies", memory},
    {"model", "inspect a model; list operators; run ONNX conformance tests", model},
    {"quantize", "quantize a model to int8, int4 or fp8; measure accuracy and speed", quantize},
    {"rerank", "sort passages by their relevance for a query", rerank},
    {"run", "run a model on given or random inputs; profile it", run_model},
    {"sampler", "query the drivers for another process", sampler, true},
    {"serve", "serve metrics, leases, calculations and a dashboard over HTTP", serve},
    {"settings", "show every setting, its value and its source", settings},
    {"tag", "find the entities in texts", tag},
    {"tokenize", "turn texts into token ids, and back", tokenize},
    {"top", "show GPUs, CPU, processes and alerts live in the terminal", top},
    {"tune", "set persistence, power limit and clocks of GPUs, or reset them", tune},
};

const Command* find(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  return found == std::end(kCommands) ? nullptr : &*found;
}

void help(std::ostream& out) {
  out << "Sluice " SLUICE_VERSION
         ": share GPUs between AI services, and keep going without one.\n\n"
         "usage: sluice <command> [options]\n\n";
  for (const auto& c : kCommands)
    if (!c.hidden) out << "  " << c.name << std::string(12 - c.name.size(), ' ') << c.help << "\n";
  out << "\nsluice <command> --help explains one. Start here: sluice doctor; sluice serve\n";
}

[[noreturn]] void unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const auto& c : kCommands)
    if (!c.hidden) names.push_back(c.name);
  throw Error(Code::invalid_argument, "no command named '" + std::string(name) + "'" +
                                          did_you_mean(name, names) + "; sluice --help lists them");
}

int dispatch(Args args, Io& io) {
  if (args.empty() || args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    help(io.out);
    return 0;
  }
  if (args[0] == "--version") {
    io.out << "sluice " SLUICE_VERSION "\n";
    return 0;
  }
  const auto* command = find(args[0]);
  if (command == nullptr) unknown_command(args[0]);
  return command->run(args.subspan(1), io);
}

}  // namespace

int run(Args args, Io& io) {
  try {
    return dispatch(args, io);
  } catch (const Error& e) {
    io.err << "sluice: " << printable_lines(e.what()) << "\n";
    return serve::status_of(e.code()).exit;
  } catch (const std::filesystem::filesystem_error& e) {
    io.err << "sluice: cannot open '" << printable(e.path1().string())
           << "': " << e.code().message() << "\n";
    return 1;
  } catch (const std::bad_alloc&) {
    io.err << "sluice: not enough memory: the system refused to give more\n";
    return serve::status_of(Code::exhausted).exit;
  } catch (const std::exception& e) {
    io.err << "sluice: " << printable_lines(e.what()) << "\n";
    return 1;
  }
}

}  // namespace sluice::cli
