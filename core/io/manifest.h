// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::io {

/// A stretch of a safetensors file that ends where a tensor does.
struct ManifestPart {
  std::string tensor;     ///< empty: the header
  std::uint64_t end = 0;  ///< bytes of the file before it
  std::string sha256;     ///< of all these bytes, so that one pass finds the first damaged tensor
};

struct ManifestFile {
  std::uint64_t bytes = 0;
  std::string sha256;               ///< as `sha256sum` prints it
  std::vector<ManifestPart> parts;  ///< of safetensors files, in the order of their data
};

/// What a checkpoint holds. As text it is one line of JSON that begins with {"version":N, in this
/// version and all to come, and ends with the SHA-256 of the same text without that last entry:
///   {"version":1,"step":1000,"files":{"config.toml":{"bytes":3,"sha256":"..."},
///    "model.safetensors":{"bytes":9,"sha256":"...","parts":[{"end":4,"sha256":"..."},
///     {"tensor":"fc.bias","end":9,"sha256":"..."}]}},"sha256":"..."}
/// Equal manifests are equal texts.
struct Manifest {
  std::int64_t step = 0;
  std::map<std::string, ManifestFile> files;
};

std::string to_text(const Manifest& manifest);

/// Throws EnvironmentError: of a newer version. DataError naming `file`: not to the last bit as it
/// was written, or listing what no checkpoint holds.
Manifest parse_manifest(const std::string& file, std::string_view text);

/// Whether a checkpoint may hold a file of this name next to the manifest.
bool is_file_name(const std::string& name);

}  // namespace lockstep::io
