#include "device/detect/detect.h"

#include <iterator>
#include <utility>

#include "base/error.h"
#include "device/detect/detect_amd.h"
#include "device/detect/detect_apple.h"
#include "device/detect/detect_intel.h"
#include "device/detect/detect_nvidia.h"
#include "device/host/cpu.h"
#include "device/nvml/driver_timeout.h"

namespace sluice::device {

namespace {

void add(Found found, Inventory& inventory) {
  std::ranges::move(found.gpus, std::back_inserter(inventory.gpus));
  std::ranges::move(found.notes, std::back_inserter(inventory.notes));
  if (!found.driver_trouble.empty()) inventory.driver_trouble = std::move(found.driver_trouble);
}

Found ask_driver(const DetectOptions& options) {
  Found found;
  const auto nvml =
      options.demo.empty() ? Nvml::open() : open_demo(options.demo, options.demo_options);
  found.gpus = detect_nvidia(*nvml, found.notes);
  return found;
}

Found find_nvidia(const DetectOptions& options) try {
  return within(options.timeout, [options] { return ask_driver(options); });
} catch (const Error& e) {
  if (e.code() == Code::invalid_argument) throw;
  const bool is_demo = !options.demo.empty();
  const auto why =
      unusable_nvidia(is_demo ? std::vector<std::string>() : nvidia_cards("/"), e.reason());
  return {{}, {why}, is_demo || has_nvidia_driver() ? why : ""};
}

// One vendor's trouble must not cost the others.
template <class Look>
void look(const char* vendor, Inventory& inventory, Look look_now) {
  try {
    add(look_now(), inventory);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    inventory.notes.push_back(std::string(vendor) + ": " + e.what());
  }
}

}  // namespace

Inventory detect(const DetectOptions& options) {
  Inventory inventory;
  const bool here = options.root == "/";
  if (here || !options.demo.empty())
    look("NVIDIA", inventory, [&] { return find_nvidia(options); });
  if (options.demo.empty()) {
    look("AMD", inventory,
         [&] { return here ? detect_amd(options.root) : detect_amd(options.root, ""); });
    look("Intel", inventory, [&] { return detect_intel(options.root); });
    if (here) look("Apple", inventory, [] { return detect_apple(); });
  } else {
    inventory.notes.push_back("demo scenario '" + options.demo + "': these GPUs are not real");
  }
  inventory.cpu = detect_cpu(options.root);
  return inventory;
}

}  // namespace sluice::device
