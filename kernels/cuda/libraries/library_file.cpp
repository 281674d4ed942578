// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/libraries/library_file.h"

#include <charconv>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <system_error>

namespace lockstep::cuda {
namespace {

namespace fs = std::filesystem;

std::optional<int> number_of_text(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<int> defined_beside(const std::string& library,
                                  const std::string& header,
                                  const std::string& name) {
  std::ifstream file(fs::path(library).parent_path().parent_path() / "include" / header);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string directive, defined, value;
    if (words >> directive >> defined >> value && directive == "#define" && defined == name)
      return number_of_text(value);
  }
  return std::nullopt;
}

std::optional<LibraryVersion> version_in_name(const std::string& library) {
  static const std::regex kNumbers(R"(\.so\.(\d{1,6})\.(\d{1,6})(\.\d+)*$)");
  std::smatch found;
  if (!std::regex_search(library, found, kNumbers)) return std::nullopt;
  return LibraryVersion{std::stoi(found.str(1)), std::stoi(found.str(2))};
}

std::optional<int> cuda_of_package(const std::string& library, const std::string& package) {
  // site-packages/nvidia/cudnn/lib/libcudnn.so.9
  const fs::path packages =
      fs::path(library).parent_path().parent_path().parent_path().parent_path();
  const std::string begin = package + "_cu";
  std::error_code none;
  for (fs::directory_iterator entry(packages, none), end; !none && entry != end;
       entry.increment(none)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(begin) && name.ends_with(".dist-info"))
      return number_of_text(name.substr(begin.size()));
  }
  return std::nullopt;
}

}  // namespace lockstep::cuda
