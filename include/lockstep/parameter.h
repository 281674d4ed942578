// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/shape.h"

namespace lockstep {

/// What a tensor of a model holds, and how a step changes it.
enum class ParameterKind : std::uint8_t {
  trained,            ///< the optimizer updates it by the gradient of all ranks (unless frozen)
  running_statistic,  ///< a batch-norm average: value += momentum * (sum - weight * value)
  metric,             ///< a sum over samples (loss, correct answers), of all ranks
};

/// How a parameter starts. Values depend on (seed, parameter name, element) alone, those of
/// `whitening` on the training data too, so every rank starts with the same ones.
struct Init {
  enum class Kind : std::uint8_t {
    constant,
    uniform,
    normal,
    /// of a convolution without groups: uniform, but each of the first `in` filters passes a
    /// channel on, being 1 at its middle (torch.nn.init.dirac_ of these)
    dirac,
    /// of a first convolution: whitening_filters() of the training images, which
    /// Replica::initialise_from() puts in; uniform until then
    whitening
  };
  Kind kind = Kind::constant;
  float value = 0.0f;  ///< the constant, the uniform bound (+-value) or the standard deviation
};

/// How the stored tensor becomes the one in files, which have PyTorch's layouts: view the stored
/// elements as `stored`, permute the dimensions (file dimension i is stored dimension
/// `permutation[i]`), and give them the shape `file`. No permutation: as stored.
struct FileLayout {
  Shape stored;
  std::vector<int> permutation;
  Shape file;
};

/// One tensor of a model's parameters; models declare them in a fixed order.
struct Parameter {
  std::string name;  ///< PyTorch's: "layer1.0.conv1.weight"
  Shape shape;       ///< as stored: convolution weights are [out, kernel_h, kernel_w, in / groups]
  ParameterKind kind = ParameterKind::trained;
  Init init;
  FileLayout file_layout;
  /// trained: keeps its value; it has no gradient, and the optimizer leaves it alone
  bool frozen = false;
  bool normalisation_or_bias = false;  ///< excluded from weight decay by default
  float momentum = 0.0f;               ///< running_statistic: share of the new value
  int weight_parameter = -1;           ///< running_statistic: the metric that holds its weight
};

}  // namespace lockstep
