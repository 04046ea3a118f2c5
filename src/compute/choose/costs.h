// Measured costs of operations on this machine, by kind of processor and amount of work.
// Each run measures them; a file keeps them, so that a program has them from its
// first call. Not thread-safe.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace sluice::compute {

enum class Processor { cpu, gpu };
std::string_view to_string(Processor processor) noexcept;

// Copies between host and GPU are operations too; their work is bytes.
inline constexpr std::string_view kCopyIn = "copy to the GPU", kCopyOut = "copy from the GPU";

struct Estimate {
  double seconds = 0;
  int runs = 0;  // that it is based on
};

class Costs {
 public:
  // Recent runs count more. `work` and `seconds` must be positive.
  void note(std::string_view operation, Processor on, double work, double seconds);

  // Interpolates linearly between measured sizes; above them it uses the rate of the largest,
  // below the time of the smallest. Nothing when none was measured.
  std::optional<Estimate> estimate(std::string_view operation, Processor on, double work) const;

  nlohmann::json to_json() const;
  // Throws invalid_argument for what to_json() cannot have written.
  static Costs from_json(const nlohmann::json& json);

 private:
  struct Seen {
    double work = 0, seconds = 0;
    int runs = 0;
  };
  // Keyed by the power of two below the work.
  using BySize = std::map<int, Seen>;
  std::map<std::string, BySize, std::less<>> seen_[2];
};

}  // namespace sluice::compute
