// SPDX-License-Identifier: Apache-2.0
#include "core/nn/whitening.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/base/check.h"

namespace lockstep {
namespace {

constexpr double kEps = 5e-4;  // the paper's, of normalised images

/// Symmetric, [size, size].
struct Matrix {
  explicit Matrix(std::size_t n) : size(n), values(n * n) {}
  double& operator()(std::size_t i, std::size_t j) { return values[i * size + j]; }
  double operator()(std::size_t i, std::size_t j) const { return values[i * size + j]; }

  std::size_t size;
  std::vector<double> values;
};

/// The image as a model sees it.
std::vector<double> seen(const data::SampleSpec& spec, const std::vector<std::byte>& image) {
  const auto elems = std::size_t(spec.input.shape.elems());
  const auto channels = std::size_t(spec.input.shape[2]);
  std::vector<double> values(elems);
  for (std::size_t i = 0; i < elems; ++i) {
    float value = 0;
    if (spec.input.dtype == DType::u8)
      value = float(std::to_integer<int>(image[i]));
    else
      std::memcpy(&value, image.data() + i * sizeof value, sizeof value);
    values[i] = value;
    if (spec.scale.empty()) continue;
    const std::size_t c = spec.scale.size() == 1 ? 0 : i % channels;
    values[i] = value * double(spec.scale[c]) + double(spec.shift[c]);
  }
  return values;
}

/// Filters of one such value would be NaN, all of them.
void expect_finite(const std::vector<double>& values,
                   const data::Dataset& images,
                   std::int64_t sample) {
  const auto bad = std::ranges::find_if_not(values, [](double v) { return std::isfinite(v); });
  LOCKSTEP_CHECK(bad == values.end(),
                 DataError,
                 "whitening: sample {} of {} has the value {}, expected finite numbers",
                 sample,
                 images.describe(),
                 *bad);
}

/// Adds p p^T of every k x k patch p of the image, the upper half; returns how many there are.
std::int64_t add_patches(const std::vector<double>& image,
                         const Shape& shape,
                         std::int64_t k,
                         Matrix& sum) {
  const std::int64_t h = shape[0], w = shape[1], row = k * shape[2];
  std::vector<double> patch(sum.size);
  for (std::int64_t y = 0; y + k <= h; ++y)
    for (std::int64_t x = 0; x + k <= w; ++x) {
      for (std::int64_t r = 0; r < k; ++r)
        std::copy_n(image.begin() + ((y + r) * w + x) * shape[2], row, patch.begin() + r * row);
      for (std::size_t i = 0; i < sum.size; ++i)
        for (std::size_t j = i; j < sum.size; ++j) sum(i, j) += patch[i] * patch[j];
    }
  return std::max<std::int64_t>(0, h - k + 1) * std::max<std::int64_t>(0, w - k + 1);
}

Matrix second_moment(const data::Dataset& images,
                     std::int64_t k,
                     std::size_t size,
                     bool skips_bad,
                     const std::function<void()>& looked_at) {
  const data::SampleSpec& spec = images.specs()[images.spec_of(0)];
  std::vector<std::byte> image(spec.input.bytes()), target(spec.target.bytes());
  const std::int64_t all = images.size(), count = std::min(all, kWhiteningImages);
  Matrix sum(size);
  std::int64_t patches = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t sample = i * all / count;
    try {
      images.load(0, sample, image.data(), target.data());
      const std::vector<double> values = seen(spec, image);
      expect_finite(values, images, sample);
      patches += add_patches(values, spec.input.shape, k, sum);
    } catch (const DataError&) {
      if (!skips_bad) throw;
    }
    if (looked_at) looked_at();
  }
  LOCKSTEP_CHECK(patches > 0,
                 DataError,
                 "whitening: none of the {} images that were tried has a patch of {}x{} pixels",
                 count,
                 k,
                 k);
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = i; j < size; ++j) sum(j, i) = sum(i, j) /= double(patches);
  return sum;
}

/// Turns rows and columns p and q of `m` so that m(p, q) becomes 0, and the rows of `vectors`
/// alike.
void rotate(Matrix& m, Matrix& vectors, std::size_t p, std::size_t q) {
  if (m(p, q) == 0) return;
  const double theta = (m(q, q) - m(p, p)) / (2 * m(p, q));
  const double t = (theta < 0 ? -1 : 1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
  const double c = 1 / std::sqrt(t * t + 1), s = t * c;
  for (std::size_t i = 0; i < m.size; ++i) {
    const double a = m(i, p), b = m(i, q);
    m(i, p) = c * a - s * b;
    m(i, q) = s * a + c * b;
  }
  for (Matrix* const rows : {&m, &vectors})
    for (std::size_t i = 0; i < m.size; ++i) {
      const double a = (*rows)(p, i), b = (*rows)(q, i);
      (*rows)(p, i) = c * a - s * b;
      (*rows)(q, i) = s * a + c * b;
    }
}

/// Jacobi's method (Golub and Van Loan 2013, "Matrix Computations", section 8.5): `m` becomes
/// diagonal, its eigenvalues; returns its eigenvectors as rows.
Matrix diagonalise(Matrix& m) {
  // Convergence is quadratic: matrices of this size take about ten.
  constexpr int kSweeps = 30;
  Matrix vectors(m.size);
  for (std::size_t i = 0; i < m.size; ++i) vectors(i, i) = 1;
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (std::size_t p = 0; p < m.size; ++p)
      for (std::size_t q = p + 1; q < m.size; ++q) rotate(m, vectors, p, q);
  return vectors;
}

}  // namespace

std::vector<float> whitening_filters(const data::Dataset& images,
                                     const Shape& filters,
                                     bool skips_bad,
                                     const std::function<void()>& looked_at) {
  const TensorType& input = images.spec().input;
  LOCKSTEP_CHECK(input.shape.rank() == 3 && input.shape[2] == filters[3] &&
                     (input.dtype == DType::u8 || input.dtype == DType::f32),
                 ConfigError,
                 "whitening: expected images of {} channels, but {} has samples of {}",
                 filters[3],
                 images.describe(),
                 input.to_string());
  const auto size = std::size_t(filters[1] * filters[2] * filters[3]);
  LOCKSTEP_ASSERT(filters[1] == filters[2] && std::size_t(filters[0]) == 2 * size);
  Matrix moment = second_moment(images, filters[1], size, skips_bad, looked_at);
  const Matrix vectors = diagonalise(moment);
  std::vector<std::size_t> order(size);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, std::ranges::greater(), [&](std::size_t i) { return moment(i, i); });
  std::vector<float> values(2 * size * size);
  for (std::size_t i = 0; i < size; ++i) {
    // Rounding may leave an eigenvalue of 0 a little below.
    const double scale = 1 / std::sqrt(std::max(0.0, moment(order[i], order[i])) + kEps);
    for (std::size_t j = 0; j < size; ++j) {
      values[i * size + j] = float(vectors(order[i], j) * scale);
      values[(size + i) * size + j] = -values[i * size + j];
    }
  }
  return values;
}

}  // namespace lockstep
