// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/device_rate.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

#include "core/base/check.h"
#include "core/base/text/suggest.h"

namespace lockstep {
namespace {

constexpr double kTeraflops = 1e12, kGigabytes = 1e9;

constexpr std::array<DeviceSheet, 4> kSheets{{
    {"A100", 312e12, 156e12, 19.5e12, 2039e9, 80e9, 300e9},
    {"H100", 989.4e12, 494.7e12, 66.9e12, 3350e9, 80e9, 450e9},
    {"H200", 989.4e12, 494.7e12, 66.9e12, 4800e9, 141e9, 450e9},
    {"B200", 2250e12, 1100e12, 80e12, 8000e9, 180e9, 900e9},
}};

double matmul_peak(const DeviceSheet& sheet, Precision precision) {
  return precision == Precision::bf16   ? sheet.bf16_flops
         : precision == Precision::tf32 ? sheet.tf32_flops
                                        : sheet.fp32_flops;
}

}  // namespace

std::optional<DeviceSheet> device_sheet(std::string_view name) {
  const auto same = [&](const DeviceSheet& sheet) { return edit_distance(sheet.name, name) == 0; };
  const auto found = std::ranges::find_if(kSheets, same);
  return found == kSheets.end() ? std::nullopt : std::optional(*found);
}

DeviceRate parse_device_rate(const std::string& text) {
  if (auto sheet = device_sheet(text)) return {sheet, 0};
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value)) {
    LOCKSTEP_CHECK(value >= 1e-6 && value <= 1e6,
                   ConfigError,
                   "--device-rate must be from 1e-06 to 1e+06 TFLOP/s, got {}",
                   text);
    return {std::nullopt, value * kTeraflops};
  }
  std::array<std::string_view, kSheets.size()> names;
  std::ranges::transform(kSheets, names.begin(), &DeviceSheet::name);
  const std::string best = nearest(text, names);
  throw ConfigError(fmt::format("--device-rate '{}' is neither A100, H100, H200 or B200 nor a "
                                "number of TFLOP/s",
                                text),
                    best.empty() ? std::string("--device-rate H100, or the TFLOP/s that a rank "
                                               "reached: a run prints them with its steps")
                                 : fmt::format("did you mean {}?", best));
}

DevicePeaks peaks_of(const DeviceRate& rate, Precision precision) {
  if (!rate.sheet)
    return {.fp32_flops = rate.flops,
            .bf16_flops = rate.flops,
            .bytes = std::numeric_limits<double>::infinity()};
  const double fp32 =
      precision == Precision::tf32 ? rate.sheet->tf32_flops : rate.sheet->fp32_flops;
  return {.fp32_flops = kAssumedFlopsShare * fp32,
          .bf16_flops = kAssumedFlopsShare * rate.sheet->bf16_flops,
          .bytes = kAssumedBytesShare * rate.sheet->bytes_per_s};
}

std::string format_rate(const DeviceRate& rate, Precision precision) {
  if (!rate.sheet)
    return fmt::format(
        "predicted at {:g} TFLOP/s a rank (--device-rate); memory bandwidth is not "
        "counted",
        rate.flops / kTeraflops);
  return fmt::format(
      "predicted for {}: {:.0f}% of {:g} TFLOP/s (dense {}) and {:.0f}% of {:g} GB/s; peaks are "
      "NVIDIA's data sheet's, both shares are assumptions",
      rate.sheet->name,
      100 * kAssumedFlopsShare,
      matmul_peak(*rate.sheet, precision) / kTeraflops,
      name_of(precision),
      100 * kAssumedBytesShare,
      rate.sheet->bytes_per_s / kGigabytes);
}

}  // namespace lockstep
