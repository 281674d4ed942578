// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "core/base/check.h"
#include "kernels/cuda/device/algorithm_key.h"
#include "kernels/cuda/libraries/cublaslt_choice.h"
#include "kernels/cuda/libraries/cublaslt_library.h"
#include "kernels/cuda/libraries/product_trial.h"
#include "kernels/cuda/linear/matrix_product.h"
#include "kernels/cuda/linear/product_helpers.h"

// Note [Row-major GEMMs in cuBLASLt]
//
// cuBLASLt's fast paths are column-major. Memory that holds a row-major matrix holds, read column
// by column, its transpose; and C = A B is C^T = B^T A^T. So cuBLASLt's A is our B, its B our A,
// its m our n, its n our m; a matrix that we do not transpose it does not either, and its bias, one
// element for each of its rows, is ours, one for each column. Leading dimensions are our rows'
// lengths, or pitches.
//
// Sums over k may be split among blocks, but only
//   - where the parts are fp32, go into the workspace and are added by a kernel of its own: the
//     other schemes round parts to bf16, or add in the order in which blocks come;
//   - where the number of parts divides k: cuBLASLt 13.1 on an H200 dropped the last rows of k
//     otherwise, where whole tiles came before them (k = 8193 in two parts, 65537 in eight; not in
//     seven);
//   - where nothing is to follow a result in bf16: the bias was added to what was rounded before.
namespace lockstep::cuda {
namespace {

constexpr std::size_t kMaxProductWorkspace = std::size_t(32) << 20;
constexpr std::uint32_t kPointerAlignment = kProductAlignment;
/// Asked of the heuristic: where one is taken, and where all are timed.
constexpr int kCandidates = 8, kTimedCandidates = 24;

cudaDataType_t cublas_type_of(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

cublasLtEpilogue_t cublas_epilogue(MatrixEpilogue epilogue) {
  switch (epilogue) {
    case MatrixEpilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case MatrixEpilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case MatrixEpilogue::bias_gelu_tanh:
      return CUBLASLT_EPILOGUE_GELU_BIAS;
    case MatrixEpilogue::bias_gelu_tanh_kept:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case MatrixEpilogue::gelu_tanh_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
  }
  throw InternalError("unknown epilogue of a GEMM");
}

cublasComputeType_t compute_type(const Device& device, DType factors) {
  const bool tf32 = device.tf32 && factors == DType::f32;
  return tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/// One of cuBLASLt's descriptions, destroyed with its owner.
template <typename Description>
using Owned = std::unique_ptr<Description, cublasStatus_t (*)(Description*)>;

using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;
using Operation = Owned<cublasLtMatmulDescOpaque_t>;
using Preference = Owned<cublasLtMatmulPreferenceOpaque_t>;

/// Of the row-major matrix [rows, columns], whose rows begin `pitch` elements apart; 0: no gaps.
Layout layout(DType dtype,
              std::int64_t rows,
              std::int64_t columns,
              const std::string& what,
              std::int64_t pitch = 0) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublaslt().cublasLtMatrixLayoutCreate(&made,
                                              cublas_type_of(dtype),
                                              std::uint64_t(columns),
                                              std::uint64_t(rows),
                                              pitch > 0 ? pitch : columns),
        what);
  return {made, cublaslt().cublasLtMatrixLayoutDestroy};
}

class CublasLtProduct final : public MatrixProduct {
 public:
  CublasLtProduct(const Device& device, const MatrixProductSpec& spec, const std::string& what)
      : what_(what),
        spec_(spec),
        stream_(device.compute),
        a_(spec.transpose_a ? layout(spec.factors, spec.k / spec.parts, spec.m, what, spec.a_pitch)
                            : layout(spec.factors, spec.m, spec.k, what, spec.a_pitch)),
        b_(spec.transpose_b ? layout(spec.factors, spec.n, spec.k, what)
                            : layout(spec.factors, spec.k / spec.parts, spec.n, what)),
        c_(layout(spec.result, spec.m, spec.n, what)) {
    describe_operation(device);
    if (spec.parts == 1) return;
    LOCKSTEP_ASSERT(spec.k % spec.parts == 0 && spec.transpose_a && !spec.transpose_b &&
                    spec.epilogue == MatrixEpilogue::none);
    one_after_another(a_, spec.k / spec.parts * (spec.a_pitch > 0 ? spec.a_pitch : spec.m));
    one_after_another(b_, spec.k / spec.parts * spec.n);
    one_after_another(c_, spec.m * spec.n);
  }

  /// Whether there is an algorithm; without one this must not run.
  bool choose_algorithm(const Device& device) {
    handle_ = cublaslt_handle(device);
    const AlgorithmChoice& choice = device.algorithms->choice(
        algorithm_key(device, spec_), [&]() -> AlgorithmChoice { return choose(device); });
    if (choice.text.empty()) return false;
    take(choice.text);
    return true;
  }

  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  bool splits_sums() const override {
    return configuration<std::int32_t>(algorithm_, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) > 1;
  }

  void run(const MatrixArguments& arguments) override {
    LOCKSTEP_ASSERT(!arguments.accumulate || spec_.epilogue == MatrixEpilogue::none);
    check_workspace(arguments.workspace, workspace_bytes_);
    if (has_bias(spec_.epilogue)) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, arguments.bias);
    if (spec_.epilogue == MatrixEpilogue::bias_gelu_tanh_kept)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, arguments.kept);
    if (spec_.epilogue == MatrixEpilogue::gelu_tanh_gradient)
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, arguments.slope_at);
    const float alpha = arguments.alpha, beta = arguments.accumulate ? 1.0f : arguments.beta;
    const void* const summand = arguments.summand ? arguments.summand : arguments.c;
    check(cublaslt().cublasLtMatmul(handle_.get(),
                                    operation_.get(),
                                    &alpha,
                                    arguments.b,
                                    b_.get(),
                                    arguments.a,
                                    a_.get(),
                                    &beta,
                                    summand,
                                    c_.get(),
                                    arguments.c,
                                    c_.get(),
                                    &algorithm_,
                                    arguments.workspace,
                                    workspace_bytes_,
                                    stream_),
          what_);
  }

 private:
  AlgorithmChoice choose(const Device& device) {
    std::string why_none;
    const int most = device.times_algorithms ? kTimedCandidates : kCandidates;
    std::vector<std::string> candidates =
        ask_heuristic(most, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, why_none);
    // Those that split sums may have taken all places.
    if (candidates.empty())
      candidates = ask_heuristic(most, CUBLASLT_REDUCTION_SCHEME_NONE, why_none);
    if (candidates.empty()) return {.text = "", .why_none = why_none};
    if (!device.times_algorithms || !ProductTrial::fits(spec_, kMaxProductWorkspace))
      return {.text = candidates[0], .why_none = ""};
    return time(device, candidates);
  }

  /// The fastest of `candidates`; none where the GEMM and its epilogue are faster one by one.
  AlgorithmChoice time(const Device& device, const std::vector<std::string>& candidates) {
    const AlgorithmTimer timer(*device.algorithms);
    ProductTrial trial(device,
                       spec_,
                       kMaxProductWorkspace,
                       [&](std::size_t candidate, const MatrixArguments& arguments) {
                         take(candidates[candidate]);
                         run(arguments);
                       });
    const TrialResult result = try_candidates(candidates.size(), trial);
    if (!result.fastest)
      return {.text = "",
              .why_none =
                  fmt::format("{} algorithms store other bits in a second run", candidates.size())};
    MatrixProductSpec less = spec_;
    less.epilogue = ProductTrial::without_own_part(spec_.epilogue);
    const auto product =
        less.epilogue == spec_.epilogue ? nullptr : make_matrix_product(device, less, what_);
    if (product) {
      const double apart = trial.seconds_apart(*product);
      if (apart < result.seconds * (1 - kTrialMargin)) {
        device.algorithms->note_other_choice();
        return {.text = "",
                .why_none = fmt::format(
                    "{:.3g} ms in one, {:.3g} ms one by one", 1e3 * result.seconds, 1e3 * apart)};
      }
    }
    if (*result.fastest != 0) device.algorithms->note_other_choice();
    return {.text = candidates[*result.fastest], .why_none = ""};
  }

  /// The algorithms that sum as the note says and can be had, the heuristic's favourite first.
  /// Empty: `why_none` says why.
  std::vector<std::string> ask_heuristic(int most,
                                         cublasLtReductionScheme_t splits,
                                         std::string& why_none) const {
    const Preference preference = describe_preference(splits);
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status = cublaslt().cublasLtMatmulAlgoGetHeuristic(handle_.get(),
                                                                            operation_.get(),
                                                                            b_.get(),
                                                                            a_.get(),
                                                                            c_.get(),
                                                                            c_.get(),
                                                                            preference.get(),
                                                                            most,
                                                                            found.data(),
                                                                            &count);
    // So it may call an epilogue that does not go with the types.
    const bool refused =
        status == CUBLAS_STATUS_NOT_SUPPORTED ||
        (status == CUBLAS_STATUS_INVALID_VALUE && spec_.epilogue != MatrixEpilogue::none);
    if (refused) {
      why_none = cublaslt().cublasLtGetStatusName(status);
      return {};
    }
    check(status, what_);
    std::vector<std::string> candidates;
    for (int i = 0; i < count; ++i) {
      const auto& candidate = found[std::size_t(i)];
      cublasLtMatmulHeuristicResult_t here{};
      if (sums_well(candidate) && check_here(candidate.algo, here) == CUBLAS_STATUS_SUCCESS &&
          here.workspaceSize <= kMaxProductWorkspace)
        candidates.push_back(to_text({candidate.algo, here.workspaceSize}));
    }
    why_none = fmt::format("none of {} proposals sums as it must and passes", count);
    return candidates;
  }

  /// `here`: what the algorithm takes.
  cublasStatus_t check_here(const cublasLtMatmulAlgo_t& algorithm,
                            cublasLtMatmulHeuristicResult_t& here) const {
    return cublaslt().cublasLtMatmulAlgoCheck(
        handle_.get(), operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(), &algorithm, &here);
  }

  /// cuBLASLt says that an algorithm may be kept as its bytes, for the same version of the library.
  void take(const std::string& text) {
    const CublasLtChoice choice = cublaslt_choice(text);
    cublasLtMatmulHeuristicResult_t here{};
    const cublasStatus_t status = check_here(choice.algorithm, here);
    if (status != CUBLAS_STATUS_SUCCESS)
      throw_cannot_follow(what_,
                          "an algorithm of cuBLASLt",
                          fmt::format("{} ({})",
                                      cublaslt().cublasLtGetStatusName(status),
                                      cublaslt().cublasLtGetStatusString(status)));
    if (here.workspaceSize > choice.workspace_bytes)
      throw_cannot_follow(what_,
                          "an algorithm of cuBLASLt",
                          fmt::format("it wants a workspace of {} bytes here, of {} there",
                                      here.workspaceSize,
                                      choice.workspace_bytes));
    algorithm_ = choice.algorithm;
    workspace_bytes_ = choice.workspace_bytes;
  }

  void describe_operation(const Device& device) {
    cublasLtMatmulDesc_t made = nullptr;
    check(
        cublaslt().cublasLtMatmulDescCreate(&made, compute_type(device, spec_.factors), CUDA_R_32F),
        what_);
    operation_ = {made, cublaslt().cublasLtMatmulDescDestroy};
    set(CUBLASLT_MATMUL_DESC_TRANSA, std::int32_t(spec_.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N));
    set(CUBLASLT_MATMUL_DESC_TRANSB, std::int32_t(spec_.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (spec_.epilogue != MatrixEpilogue::none) describe_epilogue();
  }

  /// spec_.parts of the matrix, `elems` elements apart.
  void one_after_another(const Layout& matrix, std::int64_t elems) const {
    const auto set_of_layout = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
      check(cublaslt().cublasLtMatrixLayoutSetAttribute(
                matrix.get(), attribute, &value, sizeof(value)),
            what_);
    };
    set_of_layout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t(spec_.parts));
    set_of_layout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, elems);
  }

  void describe_epilogue() {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t(cublas_epilogue(spec_.epilogue)));
    // The heuristic reads from a pointer how well it is aligned; run() sets the real ones.
    const auto aligned = reinterpret_cast<const void*>(std::uintptr_t(kPointerAlignment));
    if (has_second_matrix(spec_.epilogue)) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned);
      set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, spec_.n);
    }
    if (spec_.epilogue == MatrixEpilogue::gelu_tanh_gradient) return;
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t(cublas_type_of(spec_.result)));
  }

  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    check(cublaslt().cublasLtMatmulDescSetAttribute(
              operation_.get(), attribute, &value, sizeof(value)),
          what_);
  }

  Preference describe_preference(cublasLtReductionScheme_t splits) const {
    cublasLtMatmulPreference_t made = nullptr;
    check(cublaslt().cublasLtMatmulPreferenceCreate(&made), what_);
    Preference preference{made, cublaslt().cublasLtMatmulPreferenceDestroy};
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublaslt().cublasLtMatmulPreferenceSetAttribute(
                preference.get(), attribute, &value, sizeof(value)),
            what_);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t(kMaxProductWorkspace));
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t(splits));
    for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                 CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      prefer(attribute, kPointerAlignment);
    return preference;
  }

  /// As the note at the head of this file says.
  bool sums_well(const cublasLtMatmulHeuristicResult_t& candidate) const {
    if (candidate.state != CUBLAS_STATUS_SUCCESS) return false;
    const auto scheme =
        configuration<std::uint32_t>(candidate.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
    const auto parts = configuration<std::int32_t>(candidate.algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
    if (scheme != CUBLASLT_REDUCTION_SCHEME_NONE &&
        scheme != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
      return false;
    if (parts <= 1) return true;
    const bool rounds_twice = spec_.result == DType::bf16 && spec_.epilogue != MatrixEpilogue::none;
    return spec_.k / spec_.parts % parts == 0 && !rounds_twice;
  }

  template <typename Value>
  Value configuration(const cublasLtMatmulAlgo_t& algorithm,
                      cublasLtMatmulAlgoConfigAttributes_t attribute) const {
    Value value{};
    check(cublaslt().cublasLtMatmulAlgoConfigGetAttribute(
              &algorithm, attribute, &value, sizeof(value), nullptr),
          what_);
    return value;
  }

  std::string what_;
  MatrixProductSpec spec_;
  cudaStream_t stream_;
  std::shared_ptr<cublasLtContext> handle_;
  Operation operation_{nullptr, nullptr};
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
};

}  // namespace

std::unique_ptr<MatrixProduct> make_matrix_product(const Device& device,
                                                   const MatrixProductSpec& spec,
                                                   const std::string& what) {
  // Rules that cuBLASLt states but need not check: its second matrix begins every row at a multiple
  // of eight elements.
  if (has_second_matrix(spec.epilogue) && spec.n % 8 != 0) return nullptr;
  auto product = std::make_unique<CublasLtProduct>(device, spec, what);
  if (product->choose_algorithm(device)) return product;
  if (spec.epilogue != MatrixEpilogue::none) return nullptr;
  throw Error(fmt::format("{}: cuBLASLt has no algorithm for {} GEMM(s) of {} x {} x {}, {} -> {}",
                          what,
                          spec.parts,
                          spec.m,
                          spec.n,
                          spec.k / spec.parts,
                          name_of(spec.factors),
                          name_of(spec.result)),
              "CUBLASLT_LOG_LEVEL=5 makes cuBLASLt say why");
}

}  // namespace lockstep::cuda
