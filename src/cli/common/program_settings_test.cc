#include "cli/common/program_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "cli/settings/settings_for_tests.h"

namespace sluice::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Program : SettingsTest {};

const watch::Rule* rule(const ProgramSettings& settings, std::string_view name) {
  const auto found = std::ranges::find(settings.watch.rules, name, &watch::Rule::name);
  return found == settings.watch.rules.end() ? nullptr : &*found;
}

TEST_F(Program, NoConfigurationIsRequired) {
  const auto settings = load_settings({}, {});
  EXPECT_EQ(settings.serve.port, 8000);
  EXPECT_EQ(settings.config_file, "");
  EXPECT_EQ(settings.state_dir, "/var/lib/sluice");
  EXPECT_EQ(settings.cache_dir, "/var/cache/sluice");
  EXPECT_THAT(settings.warnings, IsEmpty());
}

TEST_F(Program, FoldersFollowXdg) {
  EXPECT_EQ(load_settings({}, {{"HOME", "/home/a"}}).state_dir, "/home/a/.local/state/sluice");
  EXPECT_EQ(load_settings({}, {{"HOME", "/home/a"}}).cache_dir, "/home/a/.cache/sluice");
  const auto xdg = load_settings({}, {{"HOME", "/home/a"}, {"XDG_STATE_HOME", "/s"}});
  EXPECT_EQ(xdg.state_dir, "/s/sluice");
  EXPECT_EQ(origin(xdg, "state_dir"), "env XDG_STATE_HOME");
  const auto relative = load_settings({}, {{"HOME", "/home/a"}, {"XDG_STATE_HOME", "s"}});
  EXPECT_EQ(relative.state_dir, "/home/a/.local/state/sluice");
  EXPECT_THAT(relative.warnings, ElementsAre(HasSubstr("XDG_STATE_HOME is not an absolute path")));
  EXPECT_EQ(load_settings({}, {{"HOME", "/h"}, {"SLUICE_STATE_DIR", "/x"}}).state_dir, "/x");
}

TEST_F(Program, ExportedLeaseVariablesAreIgnored) {
  const Environment lease{{"SLUICE_LEASE_ID", "7"},
                          {"SLUICE_LEASE_TOKEN", "7.0.1"},
                          {"GPU_MEMORY_FRACTION", "0.0071"},
                          {"CUDA_VISIBLE_DEVICES", "GPU-5"}};
  const auto settings = load_settings({}, lease);
  EXPECT_EQ(settings.gpu.memory_fraction, load_settings({}, {}).gpu.memory_fraction);
  EXPECT_EQ(settings.gpu.devices.at(0).text, "all");
  EXPECT_THROW(load_settings({}, {{"GPU_MEMORY_FRACTION", "0.0071"}}), Error);
  EXPECT_EQ(without_lease(lease).size(), 2U);
}

TEST_F(Program, TheFileIsNamedByFlagThenByVariable) {
  const auto by_variable = write("v.toml", "[serve]\nport = 1111\n");
  SettingsOptions options;
  EXPECT_EQ(load_settings(options, {{"SLUICE_CONFIG", by_variable}}).serve.port, 1111);
  options.config_file = write("f.toml", "[serve]\nport = 2222\n");
  EXPECT_EQ(load_settings(options, {{"SLUICE_CONFIG", by_variable}}).serve.port, 2222);
}

TEST_F(Program, SourcesOverrideEachOtherInTheDocumentedOrder) {
  SettingsOptions options;
  options.config_file = write("s.toml",
                              "log_level = 'warn'\n"
                              "[gpu]\n"
                              "gpu_type = 'A100-80GB'\n"
                              "batch_size = 100\n"
                              "[gpu.batch_sizes]\n"
                              "analyst = 48\n"
                              "[serve]\n"
                              "port = 9000\n");
  options.assignments = {"watch.interval_s=2", "gpu.batch_sizes.editor=7"};
  options.flag("--port", "serve.port", "9002");
  const Environment environment{{"SLUICE_SERVE_PORT", "9001"}, {"GPU_BATCH_SIZE_SCOUT", "50"}};
  const auto s = load_settings(options, environment);
  const auto file = "file " + path("s.toml");
  EXPECT_EQ(s.serve.port, 9002);
  EXPECT_EQ(origin(s, "serve.port"), "flag --port");
  EXPECT_EQ(origin(s, "watch.interval_s"), "flag --set watch.interval_s");
  EXPECT_EQ(origin(s, "log_level"), file + ":1");
  EXPECT_EQ(origin(s, "gpu.batch_size"), file + ":4");
  EXPECT_EQ(origin(s, "gpu.batch_sizes.analyst"), file + ":6");
  EXPECT_EQ(origin(s, "gpu.batch_sizes.scout"), "env GPU_BATCH_SIZE_SCOUT");
  EXPECT_EQ(origin(s, "gpu.batch_sizes.synthesizer"), "profile a100-80");
  EXPECT_EQ(origin(s, "gpu.batch_sizes.editor"), "flag --set gpu.batch_sizes.editor");
  EXPECT_EQ(origin(s, "gpu.precision"), "profile a100-80");
  EXPECT_EQ(origin(s, "serve.host"), "default");
  EXPECT_EQ(s.gpu.precision, "bf16");
  EXPECT_EQ(s.gpu.memory_gb, 80);
  EXPECT_EQ(log_level(s), log::Level::warn);
}

TEST_F(Program, AProfileFromTheEnvironmentApplies) {
  const auto s = load_settings({}, {{"SLUICE_GPU_GPU_TYPE", "P4"}});
  EXPECT_EQ(origin(s, "gpu.precision"), "profile p4");
  EXPECT_NE(s.gpu.precision, "fp16");
}

TEST_F(Program, AContradictionToAProfileIsAWarning) {
  const auto s = load_file("p4.toml", "[gpu]\ngpu_type = 'P4'\nprecision = 'fp16'\n");
  EXPECT_EQ(s.gpu.precision, "fp16");
  EXPECT_THAT(s.warnings, ElementsAre(HasSubstr("Tesla P4")));
}

TEST_F(Program, AlertsChangeDefaultsByNameOrAddNewOnes) {
  const auto defaults = watch::default_rules();
  ASSERT_FALSE(defaults.empty());
  const auto name = defaults[0].name;
  const auto s =
      load_file("a.toml", "[[alerts]]\nname = '" + name + "'\nenabled = false\n" +
                              "[[alerts]]\nname = 'mine'\nmetric = '" + defaults[0].metric +
                              "'\ncondition = 'above'\nthreshold = 50\n");
  ASSERT_NE(rule(s, name), nullptr);
  EXPECT_FALSE(rule(s, name)->enabled);
  EXPECT_EQ(rule(s, name)->threshold, defaults[0].threshold);
  ASSERT_NE(rule(s, "mine"), nullptr);
  EXPECT_EQ(rule(s, "mine")->threshold, 50);
  EXPECT_EQ(s.watch.rules.size(), defaults.size() + 1);
}

TEST_F(Program, VariablesOfTheFakeDriverAreIgnored) {
  EXPECT_NO_THROW(load_settings({}, {{"SLUICE_FAKE_NVML", "/x"}, {"SLUICE_CONFIG", ""}}));
}

TEST_F(Program, AllProblemsOfAllSourcesAreReportedTogether) {
  SettingsOptions options;
  options.config_file = write("s.toml", "[serve]\nport = 'x'\nhots = 'y'\n[gpu]\nbatch_size = 0\n");
  options.assignments = {"serve.threads=many", "nonsense"};
  options.flag("--port", "serve.port", "70000");
  try {
    load_settings(options, {{"GPU_ENABLED", "perhaps"}, {"SLUICE_SEVRE_PORT", "1"}});
    FAIL() << "loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::invalid_argument);
    const std::string what = e.what();
    EXPECT_THAT(what, HasSubstr("8 problems in the configuration"));
    for (const auto* part :
         {"s.toml:2: serve.port: must be an integer, not text 'x'",
          "s.toml:3: serve.hots: no such setting in [serve]; did you mean 'host'?",
          "s.toml:5: gpu.batch_size: 0 is too small; allowed is 1..65536",
          "env GPU_ENABLED: gpu.enabled: must be true or false, not text 'perhaps'",
          "env SLUICE_SEVRE_PORT: no setting has this variable; did you mean 'SLUICE_SERVE_PORT'?",
          "flag --set serve.threads: serve.threads: must be an integer, not text 'many'",
          "flag --port: serve.port: 70000 is too large; allowed is 0..65535",
          "flag --set: nonsense: must be written as section.name=value"})
      EXPECT_THAT(what, HasSubstr(part));
  }
}

TEST_F(Program, ReloadSeparatesLiveChangesFromRestartOnes) {
  auto running =
      load_file("s.toml", "[serve]\nport = 8000\napi_key = 'old-key-of-16-characters'\n");
  const auto loaded = load_file(
      "s.toml",
      "[watch]\ninterval_s = 2\n[serve]\nport = 9000\napi_key = 'new-key-of-16-characters'\n"
      "[[autoscaling]]\nmax_instances = 2\n"
      "[[alerts]]\nname = '" +
          watch::default_rules()[0].name + "'\nenabled = false\n");
  const auto keys = [](const std::vector<Change>& changes) {
    std::vector<std::string> out;
    for (const auto& c : changes) out.push_back(c.key);
    return out;
  };
  const auto planned = diff(running, loaded);
  EXPECT_THAT(keys(planned.now), ElementsAre("watch.interval_s", "serve.api_key", "alerts"));
  EXPECT_THAT(keys(planned.restart), ElementsAre("serve.port", "autoscaling"));
  EXPECT_EQ(running.watch.interval_s, 1) << "diff changes nothing";

  const auto done = apply_live(running, loaded);
  EXPECT_EQ(running.watch.interval_s, 2);
  EXPECT_EQ(running.serve.api_key.reveal(), "new-key-of-16-characters");
  EXPECT_EQ(running.serve.port, 8000);
  EXPECT_TRUE(running.autoscaling.empty());
  EXPECT_EQ(running.watch.rules, loaded.watch.rules);
  EXPECT_EQ(origin(running, "watch.interval_s"), "file " + path("s.toml") + ":2");
  EXPECT_EQ(to_string(done.now[0]), "watch.interval_s: 1 -> 2");
  EXPECT_EQ(to_string(done.now[1]), "serve.api_key: changed");
  EXPECT_THAT(keys(diff(running, loaded).now), IsEmpty());
}

TEST_F(Program, LoadingTheSameAgainChangesNothing) {
  const auto settings = load_file("s.toml", "[gpu]\ngpu_type = 'V100'\n[gpu.batch_sizes]\nx = 3\n");
  const auto reload = diff(settings, settings);
  EXPECT_THAT(reload.now, IsEmpty());
  EXPECT_THAT(reload.restart, IsEmpty());
}

}  // namespace
}  // namespace sluice::cli
