#include "model.h"

namespace sluice::fake {

namespace {

constexpr Model kModels[] = {
    {"p4", "Tesla P4", 2560, 1531, 3003, 0, 0, true, false},
    {"p40", "Tesla P40", 3840, 1531, 3615, 0, 0, true, false},
    {"p100", "Tesla P100-PCIE-16GB", 3584, 1328, 715, 0, 0, true, false},
    {"p100-sxm2", "Tesla P100-SXM2-16GB", 3584, 1480, 715, 4, 1, true, false},
    {"gtx-1080-ti", "NVIDIA GeForce GTX 1080 Ti", 3584, 1911, 5505, 0, 0, false, true},
    {"v100-16", "Tesla V100-SXM2-16GB", 5120, 1530, 877, 6, 3, true, false},
    {"v100-32", "Tesla V100-SXM2-32GB", 5120, 1530, 877, 6, 3, true, false},
    {"t4", "Tesla T4", 2560, 1590, 5001, 0, 0, true, false},
    {"a10", "NVIDIA A10", 9216, 1695, 6251, 0, 0, true, false},
    {"a100-40", "NVIDIA A100-SXM4-40GB", 6912, 1410, 1215, 12, 5, true, false},
    {"a100-80", "NVIDIA A100-SXM4-80GB", 6912, 1410, 1593, 12, 5, true, false},
    {"a6000", "NVIDIA RTX A6000", 10752, 2100, 8001, 4, 5, true, true},
    {"rtx-3060", "NVIDIA GeForce RTX 3060", 3584, 2130, 7501, 0, 0, false, true},
    {"rtx-3060-ti", "NVIDIA GeForce RTX 3060 Ti", 4864, 2100, 7001, 0, 0, false, true},
    {"rtx-3080", "NVIDIA GeForce RTX 3080", 8704, 2100, 9501, 0, 0, false, true},
    {"rtx-3090", "NVIDIA GeForce RTX 3090", 10496, 2100, 9751, 4, 5, false, true},
    {"jetson-orin", "Orin (nvgpu)", 2048, 1300, 3200, 0, 0, false, false},
    {"l4", "NVIDIA L4", 7424, 2040, 6251, 0, 0, true, false},
    {"l40s", "NVIDIA L40S", 18176, 2520, 9001, 0, 0, true, false},
    {"rtx-4090", "NVIDIA GeForce RTX 4090", 16384, 3105, 10501, 0, 0, false, true},
    {"h100", "NVIDIA H100 80GB HBM3", 16896, 1980, 2619, 18, 6, true, false},
    {"h100-pcie", "NVIDIA H100 PCIe", 14592, 1755, 1593, 0, 0, true, false},
    {"h100-nvl", "NVIDIA H100 NVL", 16896, 1785, 2619, 0, 0, true, false},
    {"h200", "NVIDIA H200", 16896, 1980, 3201, 18, 6, true, false},
    {"h200-nvl", "NVIDIA H200 NVL", 16896, 1785, 3201, 0, 0, true, false},
    {"b200", "NVIDIA B200", 18944, 1965, 3996, 18, 7, true, false},
    {"rtx-5090", "NVIDIA GeForce RTX 5090", 21760, 3090, 14001, 0, 0, false, true},
};

}  // namespace

const Model* find_model(std::string_view key) noexcept {
  for (const Model& model : kModels)
    if (model.key == key) return &model;
  return nullptr;
}

}  // namespace sluice::fake
