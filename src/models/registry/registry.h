// Models that were added under a name: a folder for each, with the hashes of its files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sluice::models {

struct RegisteredFile {
  std::string path;  // in the model's folder
  std::uint64_t bytes;
  std::string sha256;
};

struct RegisteredModel {
  std::string name;
  std::string source;   // where it was added from
  std::string license;  // that its README.md names; empty: none
  std::string added;    // "2026-11-19T20:15:00Z"
  std::vector<RegisteredFile> files;
  std::filesystem::path folder;

  std::uint64_t bytes() const;
};

// Several processes may use one folder: a model appears whole, or not at all.
class Registry {
 public:
  // Bytes done of all.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;

  explicit Registry(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Copies what a model needs: weights of other frameworks, and hidden files, are left out. Links
  // to files are followed, as caches of hubs have them. Throws invalid_argument for a name that is
  // taken or no name, not_found for a folder without a model, unavailable if it cannot be written.
  RegisteredModel add(const std::filesystem::path& source, const std::string& name,
                      const Progress& progress = {}) const;
  std::vector<RegisteredModel> list() const;  // by name
  // None if there is no such model. Throws invalid_argument if its manifest is damaged.
  std::optional<RegisteredModel> find(const std::string& name) const;
  // Throws not_found.
  void remove(const std::string& name) const;
  // Lists what differs from when the model was added: "model.safetensors has other contents".
  std::vector<std::string> verify(const RegisteredModel& model,
                                  const Progress& progress = {}) const;

  const std::filesystem::path& folder() const noexcept { return folder_; }

 private:
  std::filesystem::path folder_;
};

// The folder of a model: a path (also of a hub's cache, whose main snapshot counts), or else a name
// in the registry. Throws not_found with advice, invalid_argument for a file.
std::filesystem::path find_model(const std::string& path_or_name, const Registry& registry);

}  // namespace sluice::models
