// The magic bytes of plan files.
#pragma once

#include <filesystem>
#include <string_view>

namespace sluice::engine {

inline constexpr std::string_view kPlanMagic = "SLUICEP";  // of any version

bool is_plan(const std::filesystem::path& file);

}  // namespace sluice::engine
