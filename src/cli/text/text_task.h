// Commands that read texts and write something for each: embed, classify, tag.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/common/command.h"
#include "cli/text/text_output.h"
#include "compute/workers.h"
#include "models/placement.h"
#include "models/text_model.h"

namespace sluice::cli {

// Where a text model computes: --device, --precision, --max-loss.
struct TextDeviceFlags {
  std::string device = "cpu", precision = "auto";
  std::optional<double> max_loss{};
  std::vector<std::string> library_dirs{};  // of CUDA's libraries

  bool on_gpu() const { return device == "cuda"; }
};
void add_text_device_flags(CLI::App& app, TextDeviceFlags& flags);
// Throws unavailable where the build or machine lacks the device, or it the precision.
models::Placement placement_of(const TextDeviceFlags& flags, compute::Workers& workers);

struct TextTaskFlags {
  TextDeviceFlags on;
  std::string model, input, out = "-", format;
  std::int64_t max_length = 0;  // 0: what the model's folder says
  int threads = 0;
  std::string field = "text";
  bool pair = false, fresh = false, json = false;
};

void add_text_task_flags(CLI::App& app, TextTaskFlags& flags, std::string out_help);

class TextTask {
 public:
  using Json = nlohmann::ordered_json;

  explicit TextTask(const TextTaskFlags& flags) : flags_(flags), workers_(flags.threads) {}
  virtual ~TextTask() = default;

  // Texts without an answer get an error and the rest goes on. A run that was ended goes on where
  // it was. The exit code: 1 if a text has no answer.
  int run_all(Io& io);

 protected:
  struct Item {
    std::size_t line;
    models::Text text;
  };
  struct Batch {
    std::vector<std::string> answers;  // what is written of each text, if it has no error
    std::vector<models::TextError> errors{};
    std::size_t truncated = 0;
  };
  virtual Batch run(std::span<const Item> items) = 0;
  virtual std::string error_answer(std::size_t line, const std::string& error) const;
  virtual std::int64_t longest() const = 0;  // tokens that count
  virtual Json options() const = 0;          // that change what is written
  virtual bool writes_npy() const { return false; }
  virtual std::unique_ptr<TextOutput> open_file(const std::string& file, const Json& key) const {
    return output_to_file(file, key);
  }

  // A line of JSON that begins with the line's number.
  static std::string json_line(std::size_t line, const Json& answer);
  compute::Workers& workers() { return workers_; }
  models::Placement placement() { return placement_of(flags_.on, workers_); }
  std::optional<std::int64_t> max_length() const {
    return flags_.max_length > 0 ? std::optional(flags_.max_length) : std::nullopt;
  }

 private:
  class Run;

  const TextTaskFlags& flags_;
  compute::Workers workers_;
};

}  // namespace sluice::cli
