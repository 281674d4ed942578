// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/isa.h"

/// Loops of layer normalisation: see ops::LayerNorm.
namespace lockstep::cpu {

struct LayerNormArgs {
  const float* x = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;      ///< null: none
  const float* residual = nullptr;  ///< null: none
  float* y = nullptr;
  float* saved = nullptr;  ///< [rows, 2]
  float* sum = nullptr;    ///< x + residual, may be x; null without residual
  std::int64_t rows = 0, width = 0;
  float eps = 0;
};

struct LayerNormBwdArgs {
  const float* h = nullptr;
  const float* dy = nullptr;
  const float* gamma = nullptr;
  const float* saved = nullptr;
  const float* dh_in = nullptr;  ///< null: none
  float* dh = nullptr;           ///< may be dy
  float* dgamma = nullptr;
  float* dbeta = nullptr;      ///< null: not wanted
  float* workspace = nullptr;  ///< [2, width]
  std::int64_t rows = 0, width = 0;
  bool accumulate_gamma = false, accumulate_beta = false;
};

/// Rows that are summed before their sum is added to dgamma and dbeta: short chains round less.
inline constexpr std::int64_t kLayerNormBlock = 64;

LOCKSTEP_LOOP(void, layer_norm, (const LayerNormArgs& args));
LOCKSTEP_LOOP(void, layer_norm_bwd, (const LayerNormBwdArgs& args));

}  // namespace lockstep::cpu
