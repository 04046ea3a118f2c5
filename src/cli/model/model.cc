// sluice model: inspects models, lists operators and runs the ONNX conformance tests.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/error.h"
#include "base/process/spawn.h"
#include "cli/common/actions.h"
#include "cli/common/commands.h"
#include "cli/common/library_dirs.h"
#include "cli/common/progress.h"
#include "cli/model/model_actions.h"
#include "engine/conformance.h"
#include "engine/exec/cuda/cuda_program.h"

namespace sluice::cli {

namespace {

namespace fs = std::filesystem;
using engine::CaseResult;
using engine::CaseStatus;
using Json = nlohmann::ordered_json;

constexpr std::string_view kModelExamples =
    "  sluice model test node-tests.tar.xz\n"
    "  sluice model test cases/ --match softmax --json\n"
    "A case is a folder with model.onnx and test_data_set_0/{input_0,output_0}.pb.";

// The files of an archive, in a folder that goes with this.
class Unpacked {
 public:
  explicit Unpacked(const fs::path& archive) {
    std::string name = (fs::temp_directory_path() / "sluice-cases-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(Code::exhausted,
                  "no folder could be made in " + fs::temp_directory_path().string());
    folder_ = name;
    try {
      extract(archive);
    } catch (...) {
      remove();
      throw;
    }
  }
  ~Unpacked() { remove(); }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  const fs::path& folder() const noexcept { return folder_; }

 private:
  void extract(const fs::path& archive) {
    std::vector<std::string> words{"tar", "-xf", fs::absolute(archive).string(), "-C",
                                   folder_.string()};
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t pid = 0;
    int status = 0;
    if (::posix_spawnp(&pid, "tar", nullptr, nullptr, argv.data(), environ) != 0)
      throw Error(Code::unavailable,
                  "tar is needed to read an archive: install it, or unpack yourself");
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    require(WIFEXITED(status) && WEXITSTATUS(status) == 0,
            archive.string() + " could not be unpacked: tar ended with " + how_it_ended(status));
  }

  void remove() noexcept {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  fs::path folder_;
};

struct Totals {
  int passed = 0, failed = 0, unsupported = 0;
};

Totals count(const std::vector<CaseResult>& results) {
  Totals totals;
  for (const CaseResult& result : results)
    ++(result.status == CaseStatus::passed   ? totals.passed
       : result.status == CaseStatus::failed ? totals.failed
                                             : totals.unsupported);
  return totals;
}

std::size_t count(const std::vector<CaseResult>& results, engine::RanOn where) {
  return static_cast<std::size_t>(std::ranges::count_if(results, [&](const CaseResult& result) {
    return result.status == CaseStatus::passed && result.ran_on == where;
  }));
}

void print_json(const std::vector<CaseResult>& results, bool on_gpu, std::ostream& out) {
  const Totals totals = count(results);
  Json cases = Json::array();
  for (const CaseResult& result : results) {
    cases.push_back({{"name", result.name},
                     {"status", engine::to_string(result.status)},
                     {"reason", result.reason}});
    if (on_gpu && result.status == CaseStatus::passed)
      cases.back()["ran_on"] = engine::to_string(result.ran_on);
  }
  Json report{{"total", results.size()},
              {"passed", totals.passed},
              {"failed", totals.failed},
              {"unsupported", totals.unsupported}};
  if (on_gpu)
    for (const auto where : {engine::RanOn::gpu, engine::RanOn::both, engine::RanOn::cpu})
      report["passed_on_" + std::string(engine::to_string(where))] = count(results, where);
  report["cases"] = std::move(cases);
  out << report.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
}

void print_text(const std::vector<CaseResult>& results, bool on_gpu, std::ostream& out) {
  for (const CaseResult& result : results)
    if (result.status != CaseStatus::passed)
      out << fmt::format("{:<11} {}: {}\n", engine::to_string(result.status), result.name,
                         result.reason);
  const Totals totals = count(results);
  const double share =
      results.empty() ? 0 : 100.0 * totals.passed / static_cast<double>(results.size());
  out << fmt::format("{} of {} cases passed ({:.1f} %), {} failed, {} unsupported\n", totals.passed,
                     results.size(), share, totals.failed, totals.unsupported);
  if (on_gpu)
    out << fmt::format("{} ran on the GPU, {} there and in part on the CPU, {} on the CPU alone\n",
                       count(results, engine::RanOn::gpu), count(results, engine::RanOn::both),
                       count(results, engine::RanOn::cpu));
}

std::vector<CaseResult> run_all(const fs::path& where, const std::string& match,
                                const std::string& backend, Io& io) {
  require(fs::exists(where), "'" + where.string() + "' is not there");
  std::optional<Unpacked> unpacked;
  if (!fs::is_directory(where)) unpacked.emplace(where);
  std::vector<fs::path> models = engine::find_cases(unpacked ? unpacked->folder() : where);
  std::erase_if(models, [&](const fs::path& model) {
    return model.parent_path().filename().string().find(match) == std::string::npos &&
           model.stem().string().find(match) == std::string::npos;
  });
  require(!models.empty(), "there are no cases in '" + where.string() + "'");
  compute::Workers workers;
  std::shared_ptr<engine::cuda::Context> gpu;
  if (backend == "cuda") gpu = engine::make_cuda_context({.library_dirs = library_dirs(io)});
  Progress progress(io.err);
  std::vector<CaseResult> results;
  for (const fs::path& model : models) {
    progress.show(static_cast<double>(results.size()) / static_cast<double>(models.size()),
                  model.parent_path().filename().string());
    results.push_back(engine::run_case(model, workers, gpu));
  }
  return results;
}

int model_test(Args args, Io& io) {
  CLI::App app("Runs test cases in the layout of the ONNX conformance tests.", "sluice model test");
  std::string where, match, backend = "cpu";
  bool json = false;
  app.add_option("where", where, "folder or tar archive of cases")->required();
  app.add_option("--match", match, "only cases with this in their name");
  app.add_option("--backend", backend, "where operators run")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_flag("--json", json, "print JSON");
  if (!parse(app, args.subspan(1), io, kModelExamples)) return 0;
  const std::vector<CaseResult> results = run_all(where, match, backend, io);
  const bool on_gpu = backend == "cuda";
  json ? print_json(results, on_gpu, io.out) : print_text(results, on_gpu, io.out);
  return count(results).failed == 0 ? 0 : 1;
}

constexpr Action kActions[] = {
    {"add", "keep a copy of a model's folder under a name", model_add},
    {"inspect", "show inputs, operators, parameters, FLOPs, memory and kernels of a model",
     model_inspect},
    {"list", "list the models that are kept", model_list},
    {"operators", "list every operator with its versions and types", model_operators},
    {"remove", "remove a model that is kept", model_remove},
    {"show", "show a kept model's source, license and files", model_show},
    {"test", "run the ONNX conformance tests", model_test},
    {"verify", "compare a kept model's files with their hashes", model_verify},
};

}  // namespace

int model(Args args, Io& io) {
  const auto* action = find_action(
      {"model", "action", kActions, "Example: sluice model inspect model.onnx"}, args, io);
  return action == nullptr ? 0 : action->run(args, io);
}

}  // namespace sluice::cli
