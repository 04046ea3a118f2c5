#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/common/commands.h"
#include "cli/settings/settings_for_tests.h"

namespace sluice::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

struct SettingsCommand : SettingsTest {
  std::istringstream in;
  std::ostringstream out, err;

  int call(std::vector<std::string_view> args, const Environment& environment = {}) {
    out.str(""), err.str("");
    args.insert(args.begin(), "settings");
    Io io{in, out, err, "sluice", environment};
    return run(args, io);
  }
  Json json(std::vector<std::string_view> args, const Environment& environment = {}) {
    args.push_back("--json");
    EXPECT_EQ(call(args, environment), 0) << err.str();
    return Json::parse(out.str());
  }
};

const Json& row(const Json& document, std::string_view key) {
  for (const auto& entry : document["settings"])
    if (entry["key"] == key) return entry;
  throw std::runtime_error("no row " + std::string(key));
}

TEST_F(SettingsCommand, ValueOriginRangeAndHelpAreShown) {
  const auto file = write("s.toml", "[serve]\nport = 9000\n");
  EXPECT_EQ(call({"--config", file}, {{"GPU_ENABLED", "false"}}), 0) << err.str();
  EXPECT_THAT(out.str(), HasSubstr("port = 9000"));
  EXPECT_THAT(out.str(), HasSubstr("file " + file + ":2"));
  EXPECT_THAT(out.str(), HasSubstr("enabled = false"));
  EXPECT_THAT(out.str(), HasSubstr("env GPU_ENABLED"));
  EXPECT_THAT(out.str(), HasSubstr("(0..65535)"));
}

TEST_F(SettingsCommand, FitsEightyColumnsWithDefaults) {
  EXPECT_EQ(call({}, {{"HOME", "/home/someone"}}), 0);
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

TEST_F(SettingsCommand, SecretsAreMaskedEverywhere) {
  const auto file = write(
      "s.toml",
      "[serve]\napi_key = 'hush-1-of-16-characters'\n[watch]\nwebhook = 'https://h/hush-2'\n");
  for (const auto form : {"", "--json"}) {
    std::vector<std::string_view> args{"--config", file};
    if (*form != '\0') args.push_back(form);
    EXPECT_EQ(call(args), 0) << err.str();
    EXPECT_THAT(out.str(), Not(HasSubstr("hush")));
    EXPECT_THAT(out.str(), HasSubstr("***"));
  }
}

TEST_F(SettingsCommand, TheJsonHasTheOriginOfEachValue) {
  const auto document = json({"--set", "serve.port=81", "--set", "gpu.gpu_type=P4"});
  EXPECT_EQ(row(document, "serve.port")["value"], 81);
  EXPECT_EQ(row(document, "serve.port")["default"], 8000);
  EXPECT_EQ(row(document, "serve.port")["origin"], "flag --set serve.port");
  EXPECT_EQ(row(document, "gpu.batch_sizes")["origins"]["scout"], "profile p4");
  EXPECT_EQ(document["values"]["gpu"]["devices"], Json::parse(R"(["all"])"));
  EXPECT_TRUE(document["config_file"].is_null());
}

TEST_F(SettingsCommand, ValuesLoadAgainAsTheSame) {
  const auto first = json({"--set", "gpu.gpu_type=V100", "--set", "gpu.devices=0,GPU-5", "--set",
                           "watch.interval_s=0.3"});
  const auto file = write("again.json", first["values"].dump(2));
  const auto second = json({"--config", file});
  EXPECT_EQ(second["values"], first["values"]);
}

TEST_F(SettingsCommand, SchemaNamesEverySetting) {
  EXPECT_EQ(call({"--schema"}), 0);
  const auto schema = Json::parse(out.str());
  EXPECT_EQ(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(schema["additionalProperties"], false);
  const auto& port = schema["properties"]["serve"]["properties"]["port"];
  EXPECT_EQ(port["type"], "integer");
  EXPECT_EQ(port["maximum"], 65535);
  EXPECT_EQ(port["default"], 8000);
  EXPECT_TRUE(schema["properties"]["alerts"]["items"].is_object());
}

TEST_F(SettingsCommand, SchemaAndMarkdownDoNotDependOnTheMachine) {
  for (const auto* form : {"--schema", "--markdown"}) {
    EXPECT_EQ(call({form}), 0);
    const auto plain = out.str();
    EXPECT_EQ(call({form}, {{"HOME", "/h"}, {"SLUICE_SERVE_PORT", "1"}}), 0);
    EXPECT_EQ(out.str(), plain);
  }
}

TEST_F(SettingsCommand, ProblemsGoToStderrWithExitCodeTwo) {
  EXPECT_EQ(call({"--set", "serve.prot=1"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("did you mean 'serve.port'?"));
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(call({"--json", "--schema"}), 2);
  EXPECT_EQ(call({"--jsno"}), 2);
  EXPECT_THAT(err.str(), HasSubstr("did you mean '--json'?"));
}

TEST_F(SettingsCommand, WarningsAreShown) {
  EXPECT_EQ(call({"--set", "gpu.gpu_type=P4", "--set", "gpu.precision=fp16"}), 0);
  EXPECT_THAT(out.str(), HasSubstr("warning: gpu.precision is fp16"));
}

}  // namespace
}  // namespace sluice::cli
