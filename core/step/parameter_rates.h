// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/optimizer.h"
#include "lockstep/parameter.h"
#include "lockstep/parameter_group.h"

namespace lockstep {

/// How parameters differ in what the optimizer does to them.
struct ParameterRules {
  bool decay_all = false;                  ///< biases and parameters of norms decay as well
  std::vector<std::string> no_decay = {};  ///< NamePatterns of parameters that do not decay
  std::vector<ParameterGroup> groups = {};
  float layer_decay = 1;
};

/// What holds for one parameter.
struct ParameterRates {
  float weight_decay = 0;
  float lr_scale = 1;  ///< of the optimizer's learning rate
  int group = -1;      ///< index into ParameterRules::groups; -1: none
};

/// Of each parameter, in their order; those that are not trained have a decay of 0 and belong to no
/// group. With layer_decay d, rates of layer l of L (from 0) are d^(L - 1 - l) of what they were,
/// see layers_of() (Clark et al. 2020, "ELECTRA"; Bao et al. 2021, "BEiT").
///
/// Throws ConfigError: a pattern is not a regular expression, or is found in no trained parameter
/// or, of the first group, in all of them; names without numbers where layers decay; a group
/// without a setting or with one that the optimizer refuses; a group's rate with an optimizer whose
/// rate is 0; a layer decay outside (0, 1].
std::vector<ParameterRates> parameter_rates(std::span<const Parameter> parameters,
                                            const Optimizer& optimizer,
                                            const ParameterRules& rules);

/// The layer of each parameter, from 0. Of ConvNeXt they are those of timm's group_matcher(); a
/// ViT's final norm is with the head, as in BEiT, where timm has it with the last block;
/// MobileNetV2's last convolution is a layer of its own, where timm has it with the last block. A
/// layer is what shares a name up to the first part that is a number ("layer1.0.conv1.weight":
/// "layer1.0"), or the second of two where that counts blocks (ConvNeXt's "features.1.0"). What
/// lies between two such blocks (its downsampling) belongs to the one after it. Parameters without
/// a number belong to layer 0 before the first numbered one (stem, embeddings), to a last layer of
/// their own after the last one (final norm, head), and to the layer before them otherwise; so do
/// all of `classifier`, with numbers or without.
std::vector<int> layers_of(std::span<const Parameter> parameters);

/// How many parameters a group has.
struct ParameterGroupUse {
  std::string text;  ///< to_string() of the group
  int tensors = 0;
  std::int64_t elems = 0;
};

/// "^fc: lr=0.1 (2 tensors, 1,290 values)"
std::string to_string(const ParameterGroupUse& use);

/// One a group, in their order.
std::vector<ParameterGroupUse> group_uses(std::span<const Parameter> parameters,
                                          std::span<const ParameterRates> rates,
                                          std::span<const ParameterGroup> groups);

}  // namespace lockstep
