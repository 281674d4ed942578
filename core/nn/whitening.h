// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/shape.h"

namespace lockstep {

/// The images that whitening_filters() looks at, where a source has as many.
inline constexpr std::int64_t kWhiteningImages = 5000;

/// Filters [2 D, k, k, C], D = k k C, that whiten the k x k patches p of images [H, W, C] as a
/// model sees them: with l_i the eigenvalues of the patches' second moment E[p p^T], falling, and
/// v_i its eigenvectors, filter i is v_i / sqrt(l_i + 5e-4) and filter D + i its negative, so that
/// the first D outputs have the second moments l_i / (l_i + 5e-4) and no correlation. The images
/// are spread evenly over `images`, those of epoch 0; without bad ones where `skips_bad`. In fp64
/// and one order: the same on every machine. `looked_at` is called after each image. Throws
/// DataError: what an image throws, a value of one is not finite, or none is left; ConfigError:
/// samples are not images of C channels. Source: Jordan 2024, arXiv 2404.00498, section 3.2, after
/// Page 2018, "How to train your ResNet".
std::vector<float> whitening_filters(const data::Dataset& images,
                                     const Shape& filters,
                                     bool skips_bad,
                                     const std::function<void()>& looked_at = {});

}  // namespace lockstep
