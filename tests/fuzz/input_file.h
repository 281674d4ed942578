// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

namespace lockstep::fuzz {

/// A file in memory, whose content is replaced for every input.
class InputFile {
 public:
  InputFile() : descriptor_(memfd_create("input", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "memfd_create failed");
  }
  ~InputFile() { ::close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  void write(const std::uint8_t* data, std::size_t bytes) const {
    require(ftruncate(descriptor_, 0) == 0, "ftruncate failed");
    while (bytes > 0) {  // the end of the file is where the last write ended
      const off_t end = lseek(descriptor_, 0, SEEK_END);
      const ssize_t done = pwrite(descriptor_, data, bytes, end);
      require(done > 0, "pwrite failed");
      data += done;
      bytes -= std::size_t(done);
    }
  }
  void write(std::string_view text) const {
    write(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  }
  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
};

/// A folder of links to such files, gone when the process ends as it should.
class InputFolder {
 public:
  InputFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep_fuzz_XXXXXX").string();
    require(mkdtemp(name.data()) != nullptr, "mkdtemp failed");
    path_ = name;
  }
  ~InputFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  void link(const std::string& name, const InputFile& file) const {
    std::filesystem::create_symlink(file.path(), path_ / name);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace lockstep::fuzz
