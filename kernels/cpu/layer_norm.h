// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/isa.h"

/// Loops of layer normalisation and, not centred, of root-mean-square normalisation: see
/// ops::LayerNorm and ops::RmsNorm.
namespace lockstep::cpu {

template <typename T>
struct LayerNormArgs {
  const T* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;  ///< null: none
  const T* residual = nullptr;  ///< null: none
  T* y = nullptr;
  float* saved = nullptr;  ///< [rows, 2]; not centred: [rows]
  T* sum = nullptr;        ///< x + residual, may be x; null without residual
  std::int64_t rows = 0, width = 0;
  float eps = 0;
  bool centered = true;  ///< the mean is taken off
};

template <typename T>
struct LayerNormBwdArgs {
  const T* h = nullptr;
  const T* dy = nullptr;
  const float* gamma = nullptr;
  const float* saved = nullptr;
  const T* dh_in = nullptr;  ///< null: none
  T* dh = nullptr;           ///< may be dy
  float* dgamma = nullptr;
  float* dbeta = nullptr;      ///< null: not wanted
  float* workspace = nullptr;  ///< [2, width]
  std::int64_t rows = 0, width = 0;
  bool accumulate_gamma = false, accumulate_beta = false;
  bool centered = true;
};

/// Rows that are summed before their sum is added to dgamma and dbeta: short chains round less.
inline constexpr std::int64_t kLayerNormBlock = 64;

LOCKSTEP_STORED_LOOP(void, layer_norm, (const LayerNormArgs<T>& args));
LOCKSTEP_STORED_LOOP(void, layer_norm_bwd, (const LayerNormBwdArgs<T>& args));

}  // namespace lockstep::cpu
