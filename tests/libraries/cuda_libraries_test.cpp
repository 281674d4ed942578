// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "kernels/cuda/device/cuda_build.h"
#include "kernels/cuda/device/library_versions.h"
#include "kernels/cuda/libraries/cublaslt_choice.h"
#include "kernels/cuda/libraries/cublaslt_library.h"
#include "kernels/cuda/libraries/cudnn/attention_graph.h"
#include "kernels/cuda/libraries/cudnn/convolution_graph.h"
#include "kernels/cuda/libraries/cudnn/cudnn_choice.h"
#include "kernels/cuda/linear/matrix_product.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

/// What `action` throws, as "message | hint"; it must be an EnvironmentError.
template <typename Action>
std::string environment_error(Action action) {
  try {
    action();
  } catch (const EnvironmentError& error) {
    EXPECT_EQ(error.exit_code(), ExitCode::environment);
    return std::string(error.what()) + " | " + error.hint();
  }
  ADD_FAILURE() << "no EnvironmentError";
  return {};
}

bool is_installed(const LibraryName& name) {
  try {
    DynamicLibrary library(name);
    return true;
  } catch (const EnvironmentError&) {
    return false;
  }
}

#define LOCKSTEP_NEEDS(name) \
  if (!is_installed(name)) GTEST_SKIP() << (name).file << " is not installed"

TEST(CudaLibraries, EveryFunctionOfCublasLtIsFound) {
  LOCKSTEP_NEEDS(cublaslt_name());
  const CublasLt functions = load_cublaslt(DynamicLibrary(cublaslt_name()));
#define LOCKSTEP_FOUND(name) EXPECT_NE(functions.name, nullptr) << #name;
  LOCKSTEP_CUBLASLT_FUNCTIONS(LOCKSTEP_FOUND)
  EXPECT_THAT(cublaslt_version(), StartsWith(std::to_string(CUBLAS_VER_MAJOR) + "."));
}

TEST(CudaLibraries, EveryFunctionOfCudnnIsFound) {
  LOCKSTEP_NEEDS(cudnn_name());
  const Cudnn functions = load_cudnn(DynamicLibrary(cudnn_name()));
  LOCKSTEP_CUDNN_FUNCTIONS(LOCKSTEP_FOUND)
  EXPECT_THAT(cudnn_version(), StartsWith(std::to_string(CUDNN_MAJOR) + "."));
}

TEST(CudaLibraries, VersionsAreNamedTogether) {
  LOCKSTEP_NEEDS(cublaslt_name());
  LOCKSTEP_NEEDS(cudnn_name());
  EXPECT_EQ(library_versions(),
            fmt::format("CUDA {}.{}, cuBLASLt {}, cuDNN {}",
                        CUDART_VERSION / 1000,
                        CUDART_VERSION % 1000 / 10,
                        cublaslt_version(),
                        cudnn_version()));
}

TEST(CudaLibraries, TheFilesThatAreTakenAreNamed) {
  LOCKSTEP_NEEDS(cublaslt_name());
  LOCKSTEP_NEEDS(cudnn_name());
  const CudaLibraries found = cuda_libraries();
  ASSERT_GE(found.files.size(), 3u);
  EXPECT_EQ(found.files[0].name, "cuBLASLt");
  EXPECT_EQ(found.files[1].name, "cuDNN");
  EXPECT_EQ(found.files[2].name, "NVRTC");
  for (const CudaLibrary& library : found.files)
    EXPECT_NE(library.file.empty(), library.absent_because.empty()) << library.name;
  EXPECT_THAT(found.files[1].file, AllOf(StartsWith("/"), HasSubstr("libcudnn.so.9")));
}

TEST(CudaLibraries, AMissingFileIsNamedWithTheWantedVersionAndTheRemedy) {
  const LibraryName missing{"libnobody_has_this.so.9", "9.19.0", "install cuDNN 9 for CUDA 13"};
  EXPECT_THAT(environment_error([&] { DynamicLibrary library(missing); }),
              AllOf(HasSubstr("libnobody_has_this.so.9"),
                    HasSubstr("9.19.0"),
                    HasSubstr("No such file"),
                    HasSubstr("install cuDNN 9 for CUDA 13"),
                    HasSubstr("LD_LIBRARY_PATH")));
}

TEST(CudaLibraries, AnotherLibraryUnderTheNameLacksAFunction) {
  const LibraryName other{"libm.so.6", "9.19.0", "install cuDNN 9 for CUDA 13"};
  EXPECT_THAT(environment_error([&] { load_cudnn(DynamicLibrary(other)); }),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("cudnnCreate"), HasSubstr("install cuDNN")));
  EXPECT_THAT(environment_error([&] { load_cublaslt(DynamicLibrary(other)); }),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("cublasLtCreate")));
}

TEST(CudaLibraries, OlderAndOtherMajorVersionsAreRefused) {
  EXPECT_EQ(why_unfit({9, 19}, {9, 19}), "");
  EXPECT_EQ(why_unfit({9, 20}, {9, 19}), "");
  EXPECT_EQ(why_unfit({9, 18}, {9, 19}), "is version 9.18, and 9.19 or later of 9 is wanted");
  EXPECT_EQ(why_unfit({10, 20}, {9, 19}), "is version 10.20, and 9.19 or later of 9 is wanted");
}

/// A stand-in that was built as `file`: in the kit for a GPU it lies with the libraries of the
/// program.
std::string stand_in(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) return file;
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib/lockstep" / file.filename();
}

/// What is said of the stand-in `file` in the place of the library `name`.
std::string refusal_of(LibraryName name, const std::string& file) {
  name.file = file;
  return environment_error([&] { DynamicLibrary library(name); });
}

TEST(CudaLibraries, ACudnnOfAnotherCudaIsRefused) {
  constexpr bool kOld = CUDART_VERSION / 1000 == 12;
  const std::string other = stand_in(kOld ? STAND_IN_9_20_CUDA13 : STAND_IN_9_19_CUDA12);
  LibraryName name = cudnn_name();
  const std::string text = refusal_of(name, other);
  // An older one than the header's is refused for that.
  const bool too_old = CUDNN_MINOR > (kOld ? 20 : 19);
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr(other),
          HasSubstr(too_old ? fmt::format("{}.{} or later of 9 is wanted", CUDNN_MAJOR, CUDNN_MINOR)
                            : fmt::format("is made for CUDA {}, and for CUDA {} is wanted",
                                          kOld ? 13 : 12,
                                          kOld ? 12 : 13)),
          HasSubstr(fmt::format("nvidia-cudnn-cu{}>=", CUDART_VERSION / 1000))));
}

TEST(CudaLibraries, ACublasLtOfAnotherVersionIsRefused) {
  EXPECT_THAT(refusal_of(cublaslt_name(), stand_in(STAND_IN_9_20_CUDA13)),
              AllOf(HasSubstr("is version 9.20"),
                    HasSubstr(fmt::format("{}.{} or later of {} is wanted",
                                          CUBLAS_VER_MAJOR,
                                          CUBLAS_VER_MINOR,
                                          CUBLAS_VER_MAJOR)),
                    HasSubstr("nvidia-cublas")));
}

TEST(CudaLibraries, StatusesAreNamed) {
  LOCKSTEP_NEEDS(cublaslt_name());
  LOCKSTEP_NEEDS(cudnn_name());
  check(CUBLAS_STATUS_SUCCESS, "fc1");
  check(CUDNN_STATUS_SUCCESS, "conv1");
  EXPECT_THAT(environment_error([] { check(CUBLAS_STATUS_EXECUTION_FAILED, "linear fc1"); }),
              AllOf(StartsWith("linear fc1: "), HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED")));
  EXPECT_THAT(environment_error([] { check(CUDNN_STATUS_EXECUTION_FAILED, "conv2d conv1"); }),
              AllOf(StartsWith("conv2d conv1: "), HasSubstr("CUDNN_STATUS_EXECUTION_FAILED")));
  EXPECT_THROW(check(CUBLAS_STATUS_ALLOC_FAILED, "linear fc1"), OutOfMemory);
  EXPECT_THROW(check(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, "conv1"), OutOfMemory);
}

TEST(CudaLibraries, EnginesThatGiveOtherBitsOrRoundAreRefused) {
  using Notes = std::vector<cudnnBackendNumericalNote_t>;
  for (const bool rounded_factors : {false, true}) {
    EXPECT_TRUE(is_acceptable(Notes{}, rounded_factors));
    EXPECT_TRUE(is_acceptable(Notes{CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, rounded_factors));
    for (const auto note : {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
                            CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
                            CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
                            CUDNN_NUMERICAL_NOTE_FFT,
                            CUDNN_NUMERICAL_NOTE_WINOGRAD,
                            CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT}) {
      EXPECT_FALSE(is_acceptable(Notes{note}, rounded_factors)) << note;
      // In addition to what is taken alone, and whatever comes first.
      EXPECT_FALSE(
          is_acceptable(Notes{note, CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP}, rounded_factors));
      EXPECT_FALSE(is_acceptable(Notes{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, note}, rounded_factors));
    }
  }
  EXPECT_FALSE(is_acceptable(Notes{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, false));
  EXPECT_TRUE(is_acceptable(Notes{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, true));
}

TEST(CudaLibraries, APlanThatCannotBeHadLeadsToTheNextButNotWhereMemoryLacks) {
  for (const auto status : {CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                            CUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING,
                            CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED,
                            CUDNN_STATUS_EXECUTION_FAILED,
                            CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER,
                            CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND})
    EXPECT_TRUE(refuses(status)) << status;
  for (const auto status : {CUDNN_STATUS_SUCCESS,
                            CUDNN_STATUS_NOT_INITIALIZED,
                            static_cast<cudnnStatus_t>(1008),  // a part of cuDNN that is not loaded
                            CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
                            CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED})
    EXPECT_FALSE(refuses(status)) << status;
}

TEST(CudaLibraries, ChoicesComeBackFromTheirTexts) {
  const CudnnChoice plan = cudnn_choice(
      to_text(CudnnChoice{.engine = 38, .knobs = {{2, 1}, {12, -3}}, .workspace_bytes = 4096}));
  EXPECT_EQ(plan.engine, 38);
  EXPECT_THAT(plan.knobs, ElementsAre(Pair(2, 1), Pair(12, -3)));
  EXPECT_EQ(plan.workspace_bytes, 4096);
  EXPECT_TRUE(cudnn_choice(to_text(CudnnChoice{})).knobs.empty());

  CublasLtChoice product{.algorithm = {}, .workspace_bytes = std::size_t(1) << 25};
  for (std::size_t i = 0; i < std::size(product.algorithm.data); ++i)
    product.algorithm.data[i] = 0x0123456789abcdefu * (i + 1);
  const CublasLtChoice again = cublaslt_choice(to_text(product));
  EXPECT_THAT(again.algorithm.data, ElementsAreArray(product.algorithm.data));
  EXPECT_EQ(again.workspace_bytes, product.workspace_bytes);

  for (const char* wrong :
       {"", "engine 1", "engine x workspace 1 knobs", "workspace 1 algorithm 0f"}) {
    EXPECT_THROW(cudnn_choice(wrong), InternalError) << wrong;
    EXPECT_THROW(cublaslt_choice(wrong), InternalError) << wrong;
  }
}

TEST(CudaLibraries, NvrtcIsOpenedForCudnn) {
  LOCKSTEP_NEEDS(nvrtc_name());
  EXPECT_EQ(compiler().why_none, "");
  EXPECT_THAT(compiler().file, HasSubstr("libnvrtc.so"));
}

const ConvolutionSpec kUsualConvolution{.n = 2,
                                        .h = 17,
                                        .w = 15,
                                        .c = 16,
                                        .k = 32,
                                        .kernel_h = 3,
                                        .kernel_w = 3,
                                        .out_h = 9,
                                        .out_w = 15,
                                        .stride_h = 2,
                                        .stride_w = 1,
                                        .padding_h = 1,
                                        .padding_w = 1};

/// Why cuDNN describes nothing here; empty where it does. The libraries that 9.28 loads need the
/// driver's.
std::string why_cudnn_needs_a_driver() {
  if (cudnn_number() < 92800) return {};
  if (void* const driver = dlopen("libcuda.so.1", RTLD_LAZY)) {
    dlclose(driver);
    return {};
  }
  try {
    describe_convolution(kUsualConvolution, "conv1");
  } catch (const EnvironmentError& error) {
    const std::string text = error.what();
    if (text.find("SUBLIBRARY_LOADING_FAILED") != std::string::npos)
      return text + ", as there is no libcuda.so.1";
  }
  return {};
}

#define LOCKSTEP_NEEDS_ALL_OF_CUDNN() \
  LOCKSTEP_NEEDS(cudnn_name());       \
  if (const std::string why = why_cudnn_needs_a_driver(); !why.empty()) GTEST_SKIP() << why

TEST(CudaLibraries, CudnnTakesTheDescriptionsOfConvolutions) {
  LOCKSTEP_NEEDS_ALL_OF_CUDNN();
  ConvolutionSpec grouped = kUsualConvolution;
  grouped.groups = 16;
  for (ConvolutionSpec spec : {kUsualConvolution, grouped})
    for (const DType type : {DType::f32, DType::bf16})
      for (const auto pass : {ConvolutionPass::forward,
                              ConvolutionPass::data_gradient,
                              ConvolutionPass::weight_gradient})
        for (const bool bias : {false, pass == ConvolutionPass::forward})
          for (const DType result : {type, DType::f32}) {
            if (pass == ConvolutionPass::data_gradient && result != type) continue;
            spec.type = type;
            spec.result = result;
            spec.pass = pass;
            spec.bias = bias;
            EXPECT_EQ(describe_convolution(spec, "conv1").size(), bias ? 2u : 1u);
          }
}

TEST(CudaLibraries, CudnnTakesTheDescriptionsOfAttention) {
  LOCKSTEP_NEEDS_ALL_OF_CUDNN();
  for (const auto pass : {AttentionPass::forward, AttentionPass::backward})
    for (const bool causal : {false, true})
      for (const std::int64_t depth : {8, 64, 128, 256}) {
        const FusedAttentionSpec spec{.pass = pass,
                                      .samples = 4,
                                      .tokens = 4096,
                                      .heads = 12,
                                      .depth = depth,
                                      .causal = causal};
        // A causal one hides by two indices, their comparison and a choice.
        const std::size_t operations = pass == AttentionPass::forward ? 10 : 17;
        EXPECT_EQ(describe_attention(spec, cut_of(spec), "h.0.attn").size(),
                  operations + (causal ? 4 : 0));
      }
  EXPECT_GE(cudnn_number(), 90000);
}

TEST(CudaLibraries, AttentionIsCutWhereItsWorkspaceWouldBeTooLarge) {
  FusedAttentionSpec spec{
      .pass = AttentionPass::backward, .samples = 64, .tokens = 1024, .heads = 12, .depth = 64};
  const auto cut = [&] { return std::pair(cut_of(spec).samples, cut_of(spec).heads); };
  EXPECT_THAT(cut(), Pair(8, 12));  // of 10 that would fit, as it divides 64
  spec.tokens = 1000;               // as 1,024
  EXPECT_THAT(cut(), Pair(8, 12));
  spec.tokens = 1001;  // whose rows of lse do not begin at multiples of 16 bytes
  EXPECT_THAT(cut(), Pair(64, 12));
  spec.tokens = 4096;
  EXPECT_THAT(cut(), Pair(1, 6));
  spec.tokens = 65536;
  EXPECT_THAT(cut(), Pair(1, 1));
  spec.tokens = 128;
  EXPECT_THAT(cut(), Pair(64, 12));
  spec.tokens = 4096;
  spec.pass = AttentionPass::forward;
  EXPECT_THAT(cut(), Pair(64, 12));
}

TEST(CudaLibraries, AttentionThatCudnnComputesWronglyIsNotAskedFor) {
  const FusedAttentionSpec usual{
      .pass = AttentionPass::backward, .samples = 1, .tokens = 1024, .heads = 2, .depth = 64};
  EXPECT_EQ(why_not_attention(usual, 90100), "");
  EXPECT_THAT(why_not_attention(usual, 91000), HasSubstr("9.10.0"));
  EXPECT_THAT(why_not_attention(usual, 91001), HasSubstr("9.10.1"));
  EXPECT_EQ(why_not_attention(usual, 91002), "");
  FusedAttentionSpec odd = usual;
  odd.tokens = 1000;
  EXPECT_THAT(why_not_attention(odd, 91500), HasSubstr("1000 tokens"));
  EXPECT_EQ(why_not_attention(odd, 91501), "");
  odd.pass = AttentionPass::forward;
  EXPECT_EQ(why_not_attention(odd, 91500), "");
  odd.depth = 20;
  EXPECT_THAT(why_not_attention(odd, 91900), HasSubstr("20 columns"));
  odd = usual;
  odd.tokens = 1;
  EXPECT_EQ(why_not_attention(odd, 91900), "a single token");
  EXPECT_TRUE(std::isinf(hidden_score(91900)));
  EXPECT_EQ(hidden_score(90900), std::numeric_limits<float>::lowest());
}

TEST(CudaLibraries, CublasLtTakesTheDescriptionsOfProducts) {
  LOCKSTEP_NEEDS(cublaslt_name());
  for (const DType type : {DType::f32, DType::bf16})
    for (const auto epilogue : {MatrixEpilogue::none,
                                MatrixEpilogue::bias,
                                MatrixEpilogue::bias_gelu_tanh,
                                MatrixEpilogue::bias_gelu_tanh_kept,
                                MatrixEpilogue::gelu_tanh_gradient})
      for (const bool transpose : {false, true}) {
        const MatrixProductSpec spec{.m = 24,
                                     .n = 16,
                                     .k = 40,
                                     .transpose_a = transpose,
                                     .transpose_b = !transpose,
                                     .factors = type,
                                     .result = type,
                                     .epilogue = epilogue,
                                     .a_pitch = 64};
        try {
          make_matrix_product(Device{}, spec, "linear fc1");
        } catch (const EnvironmentError& error) {
          // The first thing that needs a device.
          EXPECT_THAT(error.what(), StartsWith("cuBLASLt: handle: CUBLAS_STATUS_NOT_INITIALIZED"));
        }
      }
}

TEST(CudaLibraries, AConvolutionThatCudnnRefusesIsNamed) {
  LOCKSTEP_NEEDS(cudnn_name());
  const ConvolutionSpec wrong{
      .n = 1, .h = 8, .w = 8, .c = 4, .k = 4, .kernel_h = 3, .kernel_w = 3, .out_h = 7, .out_w = 7};
  EXPECT_THAT(environment_error([&] { describe_convolution(wrong, "conv2d conv1"); }),
              StartsWith("conv2d conv1: CUDNN_STATUS_"));
}

}  // namespace
}  // namespace lockstep::cuda
