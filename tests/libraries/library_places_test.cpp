// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/library_places.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/cuda/libraries/dynamic_library.h"
#include "kernels/cuda/libraries/library_file.h"
#include "kernels/cuda/libraries/package_names.h"
#include "lockstep/error.h"

namespace lockstep::cuda {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kFile = "liblockstep_stand_in.so.9";

class LibraryPlacesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            (std::string("library_places_") +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  /// A file below the test's folder, a copy of `library` or text; its path.
  std::string put(const fs::path& folder, const std::string& library = {}) {
    const fs::path file = root_ / folder / kFile;
    fs::create_directories(file.parent_path());
    if (library.empty())
      std::ofstream(file) << "no library";
    else
      fs::copy_file(library, file);
    return file.string();
  }
  std::string at(const std::string& folder) const { return (root_ / folder).string(); }
  /// A python3 that can be run, as far as its rights say.
  void put_python(const fs::path& bin, const std::string& name = "python3.11") {
    fs::create_directories(root_ / bin);
    std::ofstream(root_ / bin / name) << "#!/bin/false\n";
    fs::permissions(root_ / bin / name, fs::perms::owner_all);
    fs::create_symlink(name, root_ / bin / "python3");
  }

  fs::path root_;
};

/// What `library` is where it will not do for version 9.19 of CUDA 13.
std::string refuse(void* library) {
  auto* const ask = function_of<int(int, int*)>(library, "cudnnGetProperty");
  auto* const cuda = function_of<std::size_t()>(library, "cudnnGetCudartVersion");
  if (ask == nullptr || cuda == nullptr) return "is another library";
  LibraryVersion found;
  ask(0, &found.major);
  ask(1, &found.minor);
  const std::string why = why_unfit(found, {9, 19});
  if (!why.empty()) return why;
  return cuda() / 1000 == 13 ? "" : "is made for CUDA 12, and for CUDA 13 is wanted";
}

LibraryName placeholder() {
  return {.file = kFile,
          .version = "9.19.0",
          .how_to_install = how_to_install("cudnn", 13, "9.19", "cudnn9-cuda-13"),
          .refuse = refuse};
}

std::string error_of(const LibraryPlaces& places) {
  try {
    DynamicLibrary library(placeholder(), places);
  } catch (const EnvironmentError& error) {
    return std::string(error.what()) + " | " + error.hint();
  }
  return "no error";
}

TEST_F(LibraryPlacesTest, TheOrderIsThatOfTheDocumentation) {
  put_python("env3/bin");
  LibraryPlaces places;
  places.chosen = {at("toolkit"), at("packages"), at("plain")};
  places.toolkit = {at("built/lib64")};
  places.beside = {at("headers/lib")};
  places.virtual_env = at("env1");
  places.conda_prefix = at("env2");
  places.path = at("nothing") + ":" + at("env3/bin") + ":" + at("env4/bin");
  const std::vector<std::string> in_order = {
      put("toolkit/lib64"),
      put("toolkit/extras/CUPTI/lib64"),
      put("packages/nvidia/cudnn/lib"),
      put("plain"),
      kFile,
      put("built/lib64"),
      put("env2/lib"),
      put("env1/lib/python3.12/site-packages/nvidia/cu13/lib"),
      put("env1/lib/python3.12/site-packages/nvidia/cudnn/lib"),
      put("env2/lib/python3.10/site-packages/nvidia/cudnn/lib"),
      put("env3/lib/python3.11/site-packages/nvidia/cudnn/lib"),
      put("headers/lib"),
  };
  put_python("env4/bin");
  put("env4/lib/python3.11/site-packages/nvidia/cudnn/lib");  // a later python3 of PATH has no say
  EXPECT_EQ(library_candidates(kFile, places), in_order);
  EXPECT_THAT(library_candidates("/some/" + std::string(kFile), places),
              ElementsAre("/some/" + std::string(kFile)));
}

TEST_F(LibraryPlacesTest, ThePackagesOfPythonsOwnVersionComeFirst) {
  put_python("env/bin", "python3.12");
  LibraryPlaces places;
  places.path = at("env/bin");
  for (const char* version : {"python3.11", "python3.12", "python3.9"})
    put(fs::path("env/lib") / version / "site-packages");
  EXPECT_THAT(site_packages(places),
              ElementsAre(at("env/lib/python3.12/site-packages"),
                          at("env/lib/python3.11/site-packages"),
                          at("env/lib/python3.9/site-packages")));
}

TEST_F(LibraryPlacesTest, AnEnvironmentIsFoundByItsLinkToTheSystemsPython) {
  put_python("usr/bin");
  fs::create_directories(root_ / "env/bin");
  fs::create_symlink(root_ / "usr/bin/python3", root_ / "env/bin/python3");
  put("env/lib/python3.11/site-packages");
  put("home/.local/lib/python3.11/site-packages");
  put("usr/local/lib/python3.11/dist-packages");
  put("usr/lib/python3/dist-packages");
  LibraryPlaces places;
  places.path = at("env/bin");
  places.home = at("home");
  places.root = fs::canonical(root_).string();
  EXPECT_THAT(site_packages(places),
              ElementsAre(at("env/lib/python3.11/site-packages"),
                          at("home/.local/lib/python3.11/site-packages"),
                          HasSubstr("usr/local/lib/python3.11/dist-packages"),
                          HasSubstr("usr/lib/python3/dist-packages")));
}

TEST_F(LibraryPlacesTest, TheFirstThatWillDoIsTaken) {
  LibraryPlaces places;
  places.chosen = {at("old"), at("cuda12"), at("broken"), at("right"), at("later")};
  put("old", STAND_IN_9_1_CUDA13);
  put("cuda12", STAND_IN_9_19_CUDA12);
  put("broken");
  const std::string right = put("right", STAND_IN_9_20_CUDA13);
  put("later", STAND_IN_9_20_CUDA13);
  const DynamicLibrary library(placeholder(), places);
  EXPECT_EQ(library.path(), fs::canonical(right));
  int (*ask)(int, int*) = nullptr;
  library.find(ask, "cudnnGetProperty");
  int minor = 0;
  ask(1, &minor);
  EXPECT_EQ(minor, 20);
}

TEST_F(LibraryPlacesTest, AfterOneThatHadToBeAskedNoOtherIsTriedWhereThatIsUnsafe) {
  LibraryPlaces places;
  places.chosen = {at("old"), at("right")};
  put("old", STAND_IN_9_1_CUDA13);
  put("right", STAND_IN_9_20_CUDA13);
  LibraryName name = placeholder();
  name.asked_once = true;
  try {
    DynamicLibrary library(name, places);
    FAIL() << "the second was tried";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("is version 9.1"), HasSubstr("had to be opened")));
    EXPECT_THAT(error.hint(), HasSubstr("LOCKSTEP_CUDA_PATH"));
  }
}

TEST_F(LibraryPlacesTest, AllThatWereRefusedAreNamedWithWhatIsWantedAndTheRemedy) {
  LibraryPlaces places;
  places.virtual_env = at("env");
  const std::string old = put("env/lib/python3.11/site-packages/nvidia/a/lib", STAND_IN_9_1_CUDA13);
  const std::string cuda12 =
      put("env/lib/python3.11/site-packages/nvidia/b/lib", STAND_IN_9_19_CUDA12);
  const std::string broken = put("env/lib/python3.11/site-packages/nvidia/c/lib");
  EXPECT_THAT(
      error_of(places),
      AllOf(HasSubstr(std::string(kFile) + " (built against 9.19.0)"),
            HasSubstr(fs::canonical(old).string() +
                      " is version 9.1, and 9.19 or later of 9 is wanted"),
            HasSubstr(fs::canonical(cuda12).string() +
                      " is made for CUDA 12, and for CUDA 13 is wanted"),
            HasSubstr(broken + " cannot be opened: "),
            HasSubstr("pip install 'nvidia-cudnn-cu13>=9.19', or apt-get install cudnn9-cuda-13"),
            HasSubstr("LOCKSTEP_CUDA_PATH")));
}

TEST_F(LibraryPlacesTest, OneThatIsNowhereIsNamedWithTheLinkersWords) {
  EXPECT_THAT(error_of({}),
              AllOf(HasSubstr("cannot be opened"),
                    HasSubstr("No such file"),
                    HasSubstr("pip install 'nvidia-cudnn-cu13>=9.19'"),
                    Not(HasSubstr("none that will do"))));
}

TEST_F(LibraryPlacesTest, VersionsAreReadWithoutOpening) {
  const std::string library = put("site/nvidia/cudnn/lib");
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  };
  EXPECT_EQ(defined_beside(library, "cudnn_version.h", "CUDNN_MINOR"), std::nullopt);
  EXPECT_EQ(cuda_of_package(library, "nvidia_cudnn"), std::nullopt);
  write("site/nvidia/cudnn/include/cudnn_version.h",
        "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR  19\n#define CUDNN_NAME x\n");
  write("site/nvidia_cudnn_cu12-9.19.0.56.dist-info/METADATA", "");
  EXPECT_EQ(defined_beside(library, "cudnn_version.h", "CUDNN_MINOR"), 19);
  EXPECT_EQ(defined_beside(library, "cudnn_version.h", "CUDNN_NAME"), std::nullopt);
  EXPECT_EQ(defined_beside(library, "cudnn_version.h", "CUDNN_PATCHLEVEL"), std::nullopt);
  EXPECT_EQ(cuda_of_package(library, "nvidia_cudnn"), 12);
  EXPECT_EQ(cuda_of_package(library, "nvidia_nccl"), std::nullopt);

  EXPECT_EQ(version_in_name("/usr/lib/libcudnn.so.9"), std::nullopt);
  const auto found = version_in_name("/usr/lib/libcudnn.so.9.19.0");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->major, 9);
  EXPECT_EQ(found->minor, 19);
}

TEST_F(LibraryPlacesTest, AFileThatIsRefusedByWhatLiesBesideItIsNotOpened) {
  LibraryPlaces places;
  places.chosen = {at("old"), at("right")};
  const std::string old = put("old");  // is not a library: opening it would say so
  put("right", STAND_IN_9_20_CUDA13);
  LibraryName name = placeholder();
  name.refuse_file = [&](const std::string& file) {
    return file == fs::canonical(old) ? std::string("is old") : std::string();
  };
  EXPECT_THAT(DynamicLibrary(name, places).path(), HasSubstr("/right/"));
  places.chosen.pop_back();
  try {
    DynamicLibrary library(name, places);
    FAIL() << "there is none left";
  } catch (const EnvironmentError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr(old + " is old"), Not(HasSubstr("cannot be opened: "))));
  }
}

TEST(PackageNames, AreThoseOfThePythonIndex) {
  EXPECT_THAT(how_to_install("cublas", 12, "12.4", "libcublas-12-4"),
              HasSubstr("'nvidia-cublas-cu12>=12.4'"));
  EXPECT_THAT(how_to_install("cublas", 13, "13.1", "libcublas-13-0"),
              HasSubstr("'nvidia-cublas>=13.1'"));
  EXPECT_THAT(how_to_install("nccl", 13, "2.26.0", "libnccl2"),
              HasSubstr("'nvidia-nccl-cu13>=2.26.0'"));
  EXPECT_THAT(how_to_install("cuda-nvrtc", 13, "", "cuda-nvrtc-13-0"),
              HasSubstr("pip install nvidia-cuda-nvrtc, or apt-get install cuda-nvrtc-13-0"));
}

}  // namespace
}  // namespace lockstep::cuda
