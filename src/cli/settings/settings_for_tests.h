// A folder for configuration files, and loading from it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cli/common/program_settings.h"

namespace sluice::cli {

struct SettingsTest : testing::Test {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("sluice_settings." + std::to_string(getpid()));

  SettingsTest() { std::filesystem::create_directories(folder); }
  ~SettingsTest() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string& name) const { return folder / name; }

  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder / name, std::ios::binary) << text;
    return path(name);
  }

  ProgramSettings load_file(const std::string& name, const std::string& text,
                            const Environment& environment = {}) const {
    SettingsOptions options;
    options.config_file = write(name, text);
    return load_settings(options, environment);
  }

  static std::string origin(const ProgramSettings& settings, const std::string& key) {
    const auto found = settings.origins.find(key);
    return to_string(found == settings.origins.end() ? Origin{} : found->second);
  }
};

}  // namespace sluice::cli
