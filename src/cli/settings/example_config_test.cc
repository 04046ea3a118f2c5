// Loads the configuration blocks and variables of the stacks that Sluice replaces, as their
// documents show them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/settings/settings_for_tests.h"

namespace sluice::cli {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr const char* kGpuBlock = R"({
  "gpu": {
    "enabled": true,
    "devices": [0, 1],
    "memory_allocation": {
      "synthesizer": 6.0,
      "analyst": 4.0,
      "scout": 8.0
    },
    "batch_sizes": {
      "synthesizer": 16,
      "analyst": 32,
      "scout": 64
    },
    "precision": "fp16",
    "memory_pooling": true
  }
}
)";

constexpr const char* kNewsEnvironment = R"(# GPU Configuration
GPU_ENABLED=true
CUDA_VISIBLE_DEVICES=0,1
GPU_MEMORY_FRACTION=0.8

# Agent-specific settings
SYNTHESIZER_GPU_CACHE=/models/synthesizer
ANALYST_GPU_CACHE=/models/analyst
SCOUT_GPU_CACHE=/models/scout

# Performance tuning
GPU_BATCH_SIZE_SYNTHESIZER=16
GPU_BATCH_SIZE_ANALYST=32
GPU_BATCH_SIZE_SCOUT=64
)";

constexpr const char* kComposeEnvironment = R"(    environment:
      - NVIDIA_VISIBLE_DEVICES=all
      - GPU_ENABLED=true
)";

constexpr const char* kTrainingEnvironment = R"(NVIDIA_VISIBLE_DEVICES=all
NVIDIA_DRIVER_CAPABILITIES=compute,utility
CUDA_VISIBLE_DEVICES=0  # Optional: restrict to specific GPU
)";

constexpr const char* kAutoscaling = R"([[autoscaling]]
metric = "gpu_utilization"
target = 80
min_instances = 1
max_instances = 5
scale_up_cooldown = "5m"
scale_down_cooldown = "10m"
)";

// Lines NAME=value as a shell (or a compose list) reads them, comments left out.
Environment shell(const char* text) {
  Environment environment;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (const auto comment = line.find('#'); comment != line.npos) line.resize(comment);
    line.erase(line.find_last_not_of(' ') + 1);
    line.erase(0, line.find_first_not_of(" -"));
    if (const auto equals = line.find('='); equals != line.npos)
      environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  return environment;
}

struct ExampleConfig : SettingsTest {};

TEST_F(ExampleConfig, GpuBlockLoadsUnchanged) {
  const auto settings = load_file("gpu.json", kGpuBlock);
  EXPECT_TRUE(settings.gpu.enabled);
  EXPECT_THAT(settings.gpu.devices, ElementsAre(Ident{"0"}, Ident{"1"}));
  EXPECT_THAT(
      settings.gpu.memory_allocation,
      UnorderedElementsAre(Pair("synthesizer", 6.0), Pair("analyst", 4.0), Pair("scout", 8.0)));
  EXPECT_THAT(
      settings.gpu.batch_sizes,
      UnorderedElementsAre(Pair("synthesizer", 16), Pair("analyst", 32), Pair("scout", 64)));
  EXPECT_EQ(settings.gpu.precision, "fp16");
  EXPECT_TRUE(settings.gpu.memory_pooling);
  EXPECT_THAT(settings.warnings, IsEmpty());
  EXPECT_EQ(origin(settings, "gpu.batch_sizes.scout"), "file " + path("gpu.json") + ":13");
}

TEST_F(ExampleConfig, NewsStackEnvironmentLoadsUnchanged) {
  const auto environment = shell(kNewsEnvironment);
  ASSERT_EQ(environment.size(), 9u);
  const auto settings = load_settings({}, environment);
  EXPECT_TRUE(settings.gpu.enabled);
  EXPECT_THAT(settings.gpu.devices, ElementsAre(Ident{"0"}, Ident{"1"}));
  EXPECT_EQ(settings.gpu.memory_fraction, 0.8);
  EXPECT_THAT(settings.gpu.cache, UnorderedElementsAre(Pair("synthesizer", "/models/synthesizer"),
                                                       Pair("analyst", "/models/analyst"),
                                                       Pair("scout", "/models/scout")));
  EXPECT_THAT(
      settings.gpu.batch_sizes,
      UnorderedElementsAre(Pair("synthesizer", 16), Pair("analyst", 32), Pair("scout", 64)));
  EXPECT_EQ(origin(settings, "gpu.enabled"), "env GPU_ENABLED");
  EXPECT_EQ(origin(settings, "gpu.cache.scout"), "env SCOUT_GPU_CACHE");
}

TEST_F(ExampleConfig, EnvironmentOverridesTheGpuBlock) {
  auto environment = shell(kNewsEnvironment);
  environment["GPU_BATCH_SIZE_SCOUT"] = "128";
  environment["CUDA_VISIBLE_DEVICES"] = "1";
  const auto settings = load_file("gpu.json", kGpuBlock, environment);
  EXPECT_EQ(settings.gpu.batch_sizes.at("scout"), 128);
  EXPECT_THAT(settings.gpu.devices, ElementsAre(Ident{"1"}));
}

TEST_F(ExampleConfig, ComposeEnvironmentLoadsUnchanged) {
  const auto settings = load_settings({}, shell(kComposeEnvironment));
  EXPECT_THAT(settings.gpu.container_devices, ElementsAre(Ident{"all"}));
  EXPECT_TRUE(settings.gpu.enabled);
}

TEST_F(ExampleConfig, TrainingServiceEnvironmentLoadsUnchanged) {
  const auto settings = load_settings({}, shell(kTrainingEnvironment));
  EXPECT_THAT(settings.gpu.container_devices, ElementsAre(Ident{"all"}));
  EXPECT_THAT(settings.gpu.driver_capabilities, ElementsAre("compute", "utility"));
  EXPECT_THAT(settings.gpu.devices, ElementsAre(Ident{"0"}));
}

TEST_F(ExampleConfig, AutoscalingBlockLoadsUnchanged) {
  const auto settings = load_file("fly.toml", kAutoscaling);
  ASSERT_EQ(settings.autoscaling.size(), 1u);
  const auto& rule = settings.autoscaling[0];
  EXPECT_EQ(rule.metric, "gpu_utilization");
  EXPECT_EQ(rule.target, 80);
  EXPECT_EQ(rule.min_instances, 1);
  EXPECT_EQ(rule.max_instances, 5);
  EXPECT_EQ(rule.scale_up_cooldown, Duration{300});
  EXPECT_EQ(rule.scale_down_cooldown, Duration{600});
}

TEST_F(ExampleConfig, CudaLaunchBlockingIsRead) {
  EXPECT_TRUE(load_settings({}, {{"CUDA_LAUNCH_BLOCKING", "1"}}).gpu.launch_blocking);
}

TEST_F(ExampleConfig, EveryPrecisionModeLoads) {
  for (const auto* mode : {"mixed", "bf16", "fp16", "fp32", "int8", "fp8", "tf32", "auto"}) {
    SettingsOptions options;
    options.assignments = {std::string("gpu.precision=") + mode};
    EXPECT_EQ(load_settings(options, {}).gpu.precision, mode);
  }
}

TEST_F(ExampleConfig, EveryCardHasAProfile) {
  for (const auto* card : {"A100-40GB", "A100-80GB", "V100-16GB", "V100-32GB", "RTX-4090",
                           "RTX-3090", "RTX-A6000", "A100", "V100", "RTX", "P4", "Tesla P4", "T4",
                           "RTX 3060", "RTX 3060 Ti", "RTX 3080", "GTX 1080 Ti"}) {
    const auto settings = load_file("t.toml", std::string("[gpu]\ngpu_type = \"") + card + "\"\n");
    EXPECT_GT(settings.gpu.memory_gb, 0) << card;
    EXPECT_FALSE(settings.gpu.batch_sizes.empty()) << card;
    EXPECT_NE(settings.gpu.precision, "auto") << card;
  }
}

TEST_F(ExampleConfig, VisibleDevicesFollowTheRulesOfCuda) {
  const auto devices = [](const char* text) {
    return load_settings({}, {{"CUDA_VISIBLE_DEVICES", text}}).gpu.devices;
  };
  EXPECT_THAT(devices(""), IsEmpty());
  EXPECT_THAT(devices("-1"), IsEmpty());
  EXPECT_THAT(devices("NoDevFiles"), IsEmpty());
  EXPECT_THAT(devices("GPU-8932f937-d72c,GPU-1"),
              ElementsAre(Ident{"GPU-8932f937-d72c"}, Ident{"GPU-1"}));
  EXPECT_THAT(load_settings({}, {}).gpu.devices, ElementsAre(Ident{"all"}));
}

TEST_F(ExampleConfig, ContainerVariablesAcceptEveryDocumentedValue) {
  for (const auto* text : {"all", "none", "void", "", "0,1", "GPU-fef8089b"})
    EXPECT_NO_THROW(load_settings({}, {{"NVIDIA_VISIBLE_DEVICES", text}})) << text;
}

}  // namespace
}  // namespace sluice::cli
