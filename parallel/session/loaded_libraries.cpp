// SPDX-License-Identifier: Apache-2.0
#include "parallel/session/loaded_libraries.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <link.h>
#include <string_view>
#include <system_error>
#include <utility>

namespace lockstep {
namespace {

/// An open library that stays as long as this does.
class Library {
 public:
  explicit Library(const std::string& path)
      : handle_(dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD)) {}
  ~Library() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <typename Function>
  Function* function(const char* name) const {
    return handle_ == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_;
};

/// For functions const char* f(int), whatever they make of a 0.
std::string text_of(const Library& library, const char* name) {
  auto* const ask = library.function<const char*(std::size_t)>(name);
  const char* const text = ask == nullptr ? nullptr : ask(0);
  return text == nullptr ? std::string() : text;
}

/// For functions status f(int* version).
int number_of(const Library& library, const char* name) {
  int version = 0;
  if (auto* const ask = library.function<int(int*)>(name)) ask(&version);
  return version;
}

/// For functions size_t f().
std::size_t count_of(const Library& library, const char* name) {
  auto* const ask = library.function<std::size_t()>(name);
  return ask == nullptr ? 0 : ask();
}

/// 10203 as "1.2.3"; nothing for 0.
std::string dotted(std::size_t version) {
  if (version == 0) return {};
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string mpi_version(const Library& library) {
  // MPI allows the call before MPI_Init. MPI_MAX_LIBRARY_VERSION_STRING is at most 8192 anywhere.
  std::array<char, 1 << 14> text{};
  int length = 0;
  auto* const ask = library.function<int(char*, int*)>("MPI_Get_library_version");
  if (ask == nullptr || ask(text.data(), &length) != 0) return {};
  const std::string_view all(text.data());
  return std::string(all.substr(0, all.find('\n')));
}

std::string onednn_version(const Library& library) {
  struct Version {  // the head of dnnl_version_t
    int major, minor, patch;
  };
  auto* const ask = library.function<const Version*()>("dnnl_version");
  const Version* const version = ask == nullptr ? nullptr : ask();
  return version == nullptr
             ? std::string()
             : fmt::format("{}.{}.{}", version->major, version->minor, version->patch);
}

std::string cuda_version(int version) {  // 13000 is 13.0
  return version == 0 ? std::string() : fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string nvrtc_version(const Library& library) {
  int major = 0, minor = 0;
  auto* const ask = library.function<int(int*, int*)>("nvrtcVersion");
  if (ask == nullptr || ask(&major, &minor) != 0) return {};
  return fmt::format("{}.{}", major, minor);
}

/// How a library tells its version; by its name up to ".so".
struct Teller {
  std::string_view stem;
  std::string (*version)(const Library&);
};

constexpr Teller kTellers[] = {
    {"libz", [](const Library& l) { return text_of(l, "zlibVersion"); }},
    {"libpng16", [](const Library& l) { return text_of(l, "png_get_libpng_ver"); }},
    {"libcrypto", [](const Library& l) { return text_of(l, "OpenSSL_version"); }},
    {"libc", [](const Library& l) { return text_of(l, "gnu_get_libc_version"); }},
    {"libdnnl", onednn_version},
    {"libmpi", mpi_version},
    {"libmpich", mpi_version},
    {"libcuda", [](const Library& l) { return cuda_version(number_of(l, "cuDriverGetVersion")); }},
    {"libcudart",
     [](const Library& l) { return cuda_version(number_of(l, "cudaRuntimeGetVersion")); }},
    {"libcublasLt", [](const Library& l) { return dotted(count_of(l, "cublasLtGetVersion")); }},
    {"libcudnn", [](const Library& l) { return dotted(count_of(l, "cudnnGetVersion")); }},
    {"libnccl",
     [](const Library& l) { return dotted(std::size_t(number_of(l, "ncclGetVersion"))); }},
    {"libnvrtc", nvrtc_version},
};

std::string version_of(const std::string& path, std::string_view name) {
  const std::string_view stem = name.substr(0, name.find(".so"));
  const auto* const teller = std::ranges::find(kTellers, stem, &Teller::stem);
  return teller == std::end(kTellers) ? std::string() : teller->version(Library(path));
}

int add_path(dl_phdr_info* info, std::size_t /*size*/, void* paths) {
  // The program itself has no name, and the kernel's part of it no file.
  const std::string_view path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
  if (path.find('/') != path.npos)
    static_cast<std::vector<std::string>*>(paths)->emplace_back(path);
  return 0;
}

}  // namespace

std::vector<LoadedLibrary> loaded_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(add_path, &paths);
  std::vector<LoadedLibrary> libraries;
  for (const std::string& path : paths) {
    std::error_code none;
    const std::filesystem::path file = std::filesystem::canonical(path, none);
    std::string name = std::filesystem::path(path).filename().string();
    std::string version = version_of(path, name);
    libraries.push_back({std::move(name), file.empty() ? path : file.string(), std::move(version)});
  }
  std::ranges::sort(libraries, {}, [](const LoadedLibrary& library) {
    return std::pair(std::string_view(library.name), std::string_view(library.file));
  });
  return libraries;
}

}  // namespace lockstep
