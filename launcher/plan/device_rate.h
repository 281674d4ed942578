// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/exec/backend.h"
#include "lockstep/train_options.h"

namespace lockstep {

/// A GPU as its data sheet has it. Rates are peaks, without sparsity.
struct DeviceSheet {
  std::string_view name;
  double bf16_flops = 0, tf32_flops = 0, fp32_flops = 0;  ///< a second
  double bytes_per_s = 0;                                 ///< of its memory
  double memory_bytes = 0;
  double nvlink_bytes_per_s = 0;  ///< in each direction
};

/// A100, H100, H200 or B200, each as SXM module; case does not count. Sources: "NVIDIA A100 Tensor
/// Core GPU" (data sheet, 2021, A100 80GB SXM), "NVIDIA H100 Tensor Core GPU" (data sheet, 2023,
/// H100 SXM), "NVIDIA H200 Tensor Core GPU" (data sheet, 2024, H200 SXM), "NVIDIA DGX B200" (data
/// sheet, 2024) and "NVIDIA Blackwell Architecture Technical Brief" (2024, HGX B200). The sheets
/// give tensor cores with sparsity, which is twice what is here, and NVLink in both directions
/// together, which is twice as well.
std::optional<DeviceSheet> device_sheet(std::string_view name);

/// Shares of a data sheet's peaks that a training is taken to reach. Assumptions, not measurements
/// of Lockstep. Large language models were trained at 38 to 43% of the dense bf16 peak of H100s
/// (Llama Team 2024, "The Llama 3 Herd of Models") and at 44 to 52% of that of A100s (Narayanan et
/// al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM").
inline constexpr double kAssumedFlopsShare = 0.4, kAssumedBytesShare = 0.8;

/// What computes, in a prediction.
struct DeviceRate {
  std::optional<DeviceSheet> sheet;  ///< nothing: `flops` is given
  double flops = 0;                  ///< a second, as given
};

/// --device-rate: a name of device_sheet(), or TFLOP/s that a rank reaches. Throws ConfigError:
/// neither.
DeviceRate parse_device_rate(const std::string& text);

/// What kernels reach at `rate`: of a sheet the assumed shares of its peaks, tf32's for fp32 with
/// Precision::tf32. Of a given rate that, whatever the precision; memory then costs nothing.
DevicePeaks peaks_of(const DeviceRate& rate, Precision precision);

/// "H100, predicted: 40% of 989 TFLOP/s (dense bf16) and 80% of 3.35 TB/s, ..."
std::string format_rate(const DeviceRate& rate, Precision precision);

}  // namespace lockstep
