// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/gpu.h"
#include "lockstep/error.h"

namespace lockstep::doctor {
namespace {

constexpr const char* kSpeed = "GPU speed";
// What large copies and products reach of a data sheet's numbers on a GPU that is well.
constexpr double kCopyShare = 0.75, kProductShare = 0.5;

/// A data sheet: memory's bandwidth, and dense bf16 matmul with fp32 sums.
struct Model {
  std::string_view name;  ///< all of its words are in the GPU's name
  double bytes;           ///< a second
  double bf16_flops;
};

/// More special names first.
constexpr Model kModels[] = {{"B200", 7.7e12, 2250e12},
                             {"GH200", 4.0e12, 989e12},
                             {"H200", 4.8e12, 989e12},
                             {"H100 NVL", 3.9e12, 835e12},
                             {"H100 PCIe", 2.0e12, 756e12},
                             {"H100", 3.35e12, 989e12},
                             {"H800", 3.35e12, 989e12},
                             {"H20", 4.0e12, 148e12},
                             {"A100 80GB PCIe", 1.935e12, 312e12},
                             {"A100 80GB", 2.039e12, 312e12},
                             {"A100", 1.555e12, 312e12},
                             {"A800", 1.935e12, 312e12},
                             {"L40S", 0.864e12, 362e12},
                             {"L40", 0.864e12, 181e12},
                             {"L4", 0.3e12, 121e12},
                             {"A40", 0.696e12, 149.7e12},
                             {"A30", 0.933e12, 165e12},
                             {"A10G", 0.6e12, 70e12},
                             {"A10", 0.6e12, 125e12},
                             {"A6000", 0.768e12, 154.8e12},
                             {"RTX 4090", 1.008e12, 165e12},
                             {"RTX 3090", 0.936e12, 71e12},
                             {"RTX 5090", 1.792e12, 209e12}};

bool is_word_of(std::string_view text, std::string_view word) {
  const std::string padded = fmt::format(" {} ", text);
  std::string plain = padded;
  std::ranges::replace(plain, '-', ' ');
  return plain.find(fmt::format(" {} ", word)) != std::string::npos;
}

/// "A100 80GB PCIe": every word on its own, in any place.
bool is_model(std::string_view gpu, std::string_view words) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (!is_word_of(gpu, words.substr(0, end))) return false;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return true;
}

const Model* model_of(const Gpu& gpu) {
  if (gpu.part) return nullptr;
  const auto found = std::ranges::find_if(
      kModels, [&](const Model& model) { return is_model(gpu.name, model.name); });
  return found == std::end(kModels) ? nullptr : found;
}

const char* generation(int capability) {
  if (capability >= 120) return "Blackwell, workstation or consumer";
  if (capability >= 100) return "Blackwell, data centre";
  if (capability >= 90) return "Hopper, data centre";
  if (capability >= 89) return "Ada";
  if (capability > 80) return "Ampere";
  if (capability == 80) return "Ampere, data centre";
  return "older than Ampere";
}

std::string share_text(double reached, double expected) {
  return fmt::format("{:.0f}%", 100 * reached / expected);
}

std::string rates_text(const DevicePeaks& peaks, const Model* model) {
  std::string text = fmt::format("copies {:.2f} TB/s", peaks.bytes * 1e-12);
  if (model != nullptr)
    text += fmt::format(" ({} of the model's)", share_text(peaks.bytes, model->bytes));
  text += fmt::format(", bf16 matmul {:.0f} TFLOP/s", peaks.bf16_flops * 1e-12);
  if (model != nullptr)
    text += fmt::format(" ({})", share_text(peaks.bf16_flops, model->bf16_flops));
  return text + fmt::format(", fp32 {:.0f}", peaks.fp32_flops * 1e-12);
}

Finding judge(const Gpu& gpu, const DevicePeaks& peaks, const std::string& what) {
  const Model* const model = model_of(gpu);
  const std::string text = fmt::format("{}: {}", what, rates_text(peaks, model));
  if (model == nullptr) return pass(kSpeed, text + "; no figures of this model to compare with");
  if (peaks.bytes >= kCopyShare * model->bytes &&
      peaks.bf16_flops >= kProductShare * model->bf16_flops)
    return pass(kSpeed, text);
  return warn(kSpeed,
              fmt::format("GPU {} is slower than its model should be; {}", gpu.ordinal, text),
              fmt::format("nvidia-smi -i {} -q -d PERFORMANCE,CLOCK,POWER shows what throttles it; "
                          "lockstep doctor again when nothing else runs on it",
                          gpu.address));
}

}  // namespace

Finding check_gpu_speed(const Environment& environment, const GpuFacts& facts) {
  const std::vector<Gpu> gpus = own_gpus(environment, facts);
  if (gpus.empty()) return none(kSpeed, "no GPU to measure");
  const Gpu& first = gpus[0];
  const std::string what = fmt::format("{}{} ({})",
                                       gpus.size() > 1 ? fmt::format("{} x ", gpus.size()) : "",
                                       first.name,
                                       generation(first.capability));
  if (!environment.measure_gpu)
    return none(kSpeed, what + "; this program is built without CUDA and measures nothing");
  Finding worst;
  double least = 0;
  for (const Gpu& gpu : gpus) {
    environment.begin(kSpeed);  // every GPU has its own time
    try {
      const DevicePeaks peaks = environment.measure_gpu(gpu.ordinal);
      Finding finding = judge(gpu, peaks, what);
      if (least == 0 || peaks.bf16_flops < least) least = peaks.bf16_flops;
      if (worst.subject.empty() || finding.verdict > worst.verdict) worst = finding;
    } catch (const Error& error) {
      return fail(
          kSpeed,
          fmt::format("{}: computing on GPU {} failed: {}", what, gpu.ordinal, error.what()),
          error.hint());
    }
  }
  worst.rate = least;
  worst.trait = first.name;
  return worst;
}

}  // namespace lockstep::doctor
