// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/linear/split_product.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "kernels/cuda/linear/column_sums.h"
#include "kernels/cuda/linear/product_helpers.h"

namespace lockstep::cuda {
namespace {

constexpr std::int64_t kTile = 128, kFewTiles = 4;
constexpr std::int64_t kAligned = 8;        // rows of results that cuBLASLt's fast kernels want
constexpr std::int64_t kWantedTiles = 132;  // multiprocessors of an H100
constexpr std::int64_t kRowStep = 32, kMinRows = 256, kMinSum = 4096;
static_assert(kRowStep * std::int64_t(sizeof(std::uint16_t)) % kProductAlignment == 0);

std::int64_t tiles_of(std::int64_t m, std::int64_t n) {
  return (m + kTile - 1) / kTile * ((n + kTile - 1) / kTile);
}

class SplitProduct final : public MatrixProduct {
 public:
  /// `parts` has results of spec.m rows or more, the rest of which are of no use.
  SplitProduct(const Device& device,
               const MatrixProductSpec& spec,
               std::int64_t rows_of_part,
               std::unique_ptr<MatrixProduct> parts)
      : device_(device),
        spec_(spec),
        elems_of_part_(rows_of_part * spec.n),
        parts_(std::move(parts)) {}

  std::size_t workspace_bytes() const override {
    return sums_offset() + column_sums_workspace(spec_.parts, elems());
  }

  void run(const MatrixArguments& arguments) override {
    LOCKSTEP_ASSERT(arguments.alpha == 1 && arguments.beta == 0);
    check_workspace(arguments.workspace, workspace_bytes());
    auto* const workspace = static_cast<std::byte*>(arguments.workspace);
    void* const results = workspace + results_offset();
    parts_->run({.a = arguments.a,
                 .b = arguments.b,
                 .c = results,
                 .workspace = parts_->workspace_bytes() > 0 ? workspace : nullptr});
    column_sums(device_,
                {.values = results,
                 .rows = spec_.parts,
                 .columns = elems(),
                 .pitch = elems_of_part_,
                 .sums = static_cast<float*>(arguments.c),
                 .accumulate = arguments.accumulate,
                 .workspace = workspace + sums_offset()});
  }

 private:
  std::int64_t elems() const { return spec_.m * spec_.n; }
  std::size_t results_offset() const { return aligned(parts_->workspace_bytes()); }
  std::size_t sums_offset() const {
    return results_offset() + aligned(std::size_t(spec_.parts * elems_of_part_) * sizeof(float));
  }

  Device device_;
  MatrixProductSpec spec_;
  std::int64_t elems_of_part_;
  std::unique_ptr<MatrixProduct> parts_;
};

}  // namespace

std::int64_t parts_of_sum(std::int64_t m, std::int64_t n, std::int64_t k) {
  if (k < kMinSum || k % kRowStep != 0) return 1;
  for (std::int64_t parts = kWantedTiles / tiles_of(m, n); parts > 1; --parts)
    if (k / kRowStep % parts == 0 && k / parts >= kMinRows) return parts;
  return 1;
}

std::unique_ptr<MatrixProduct> make_split_product(const Device& device,
                                                  MatrixProductSpec spec,
                                                  const std::string& what) {
  LOCKSTEP_ASSERT(spec.result == DType::f32 && spec.parts == 1);
  const std::int64_t parts = parts_of_sum(spec.m, spec.n, spec.k);
  if (parts == 1 || tiles_of(spec.m, spec.n) > kFewTiles) {
    auto whole = make_matrix_product(device, spec, what);
    if (parts == 1 || whole->splits_sums()) return whole;
  }
  spec.parts = parts;
  MatrixProductSpec padded = spec;
  padded.m =
      std::max(spec.m, std::min(spec.a_pitch, (spec.m + kAligned - 1) / kAligned * kAligned));
  return std::make_unique<SplitProduct>(
      device, spec, padded.m, make_matrix_product(device, padded, what));
}

}  // namespace lockstep::cuda
