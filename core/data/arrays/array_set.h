// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/data/arrays/npy_array.h"

namespace lockstep::data {

/// Inputs [N, ...] and their targets [N] or [N, K].
struct LabelledArrays {
  NpyArray inputs, targets;
};

/// The parts of a set of arrays. Either `train` and perhaps `validation`, or `whole`.
struct ArraySet {
  std::optional<LabelledArrays> train, validation, whole;
};

/// What `path` holds: an .npz, a folder of .npy files, or a folder with train.npz and val.npz.
/// Names are those that users know, x being X, images, data, features or inputs, and y being Y,
/// labels, target or targets as well:
/// - x_train, y_train and x_val, y_val (Keras), or train_x, train_y and val_x, val_y (MedMNIST's
///   train_images, train_labels, ...); `val` may be valid, validation or test, the first that is
///   there;
/// - x, y, or what numpy.savez() calls arrays without names, arr_0, arr_1: no parts.
/// Throws DataError naming the arrays found: other names, inputs without targets or the other way
/// round, as many targets as inputs they are not; and as NpyArray does.
ArraySet open_array_set(const std::string& path);

}  // namespace lockstep::data
