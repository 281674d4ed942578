// SPDX-License-Identifier: Apache-2.0
#include "core/io/checkpoint/manifest.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "core/base/check.h"
#include "core/base/parameter_names.h"
#include "core/base/sha256.h"
#include "core/io/checkpoint/checkpoint_names.h"
#include "core/io/strict_json.h"

namespace lockstep::io {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kVersionPrefix = "{\"version\":";
constexpr std::string_view kSealPrefix = ",\"sha256\":\"", kSealEnd = "\"}";
constexpr std::size_t kDigestLetters = 64;
constexpr std::size_t kSealBytes = kSealPrefix.size() + kDigestLetters + kSealEnd.size();

/// `body`, a JSON object, with its own SHA-256 as last entry.
std::string sealed(std::string body) {
  const std::string digest = sha256_of(body);
  body.pop_back();
  return body.append(kSealPrefix).append(digest).append(kSealEnd);
}

ordered_json to_json(const ManifestFile& file) {
  ordered_json object{{"bytes", file.bytes}};
  if (!file.sha256.empty()) object["sha256"] = file.sha256;
  for (const ManifestPart& part : file.parts) {
    ordered_json entry = ordered_json::object();
    if (!part.tensor.empty()) entry["tensor"] = part.tensor;
    entry["end"] = part.end;
    entry["sha256"] = part.sha256;
    object["parts"].push_back(std::move(entry));
  }
  return object;
}

int version_of(const std::string& file, std::string_view text) {
  int version = 0;
  if (text.starts_with(kVersionPrefix)) {
    const char* first = text.data() + kVersionPrefix.size();
    std::from_chars(first, text.data() + text.size(), version);
  }
  LOCKSTEP_CHECK(version > 0, DataError, "{}: has no valid version", as_written(file));
  if (version <= kCheckpointVersion) return version;
  throw EnvironmentError(
      fmt::format("{}: written by a newer Lockstep: format version {}, this program "
                  "knows {}",
                  as_written(file),
                  version,
                  kCheckpointVersion),
      "resume with the Lockstep that wrote it");
}

/// Every bit is covered: those before the seal by its digest, those of the seal by comparison.
void check_seal(const std::string& file, std::string_view text) {
  const bool whole = text.size() > kSealBytes &&
                     text == sealed(std::string(text.substr(0, text.size() - kSealBytes)) + "}");
  LOCKSTEP_CHECK(whole, DataError, "{}: is damaged: it is not as it was written", as_written(file));
}

/// A conversion of whatever number it is would be undefined for those that do not fit.
std::uint64_t whole(const json& object, const char* key, std::uint64_t most = UINT64_MAX) {
  const json& value = object.at(key);
  LOCKSTEP_CHECK(value.is_number_unsigned() && value.get<std::uint64_t>() <= most,
                 DataError,
                 "'{}' must be a whole number, got {}",
                 key,
                 as_written(value.dump()));
  return value.get<std::uint64_t>();
}

ManifestFile file_from_json(const json& object, int version) {
  ManifestFile file;
  file.bytes = whole(object, "bytes");
  const bool has_parts = object.contains("parts");
  if (version == 1 || !has_parts) file.sha256 = object.at("sha256").get<std::string>();
  if (!has_parts) return file;
  for (const json& part : object.at("parts"))
    file.parts.push_back({part.contains("tensor") ? part.at("tensor").get<std::string>() : "",
                          whole(part, "end"),
                          part.at("sha256").get<std::string>()});
  return file;
}

Manifest from_json(const std::string& file, std::string_view text, int version) {
  constexpr int kMaxDepth = 5;  // {"files": {name: {"parts": [{"end": 1}]}}}
  const json object = parse_strict_json(text, file, kMaxDepth);
  try {
    Manifest manifest;
    manifest.version = version;
    manifest.step = std::int64_t(whole(object, "step", INT64_MAX));
    for (const auto& [name, entry] : object.at("files").items())
      manifest.files[name] = file_from_json(entry, version);
    return manifest;
  } catch (const json::exception& error) {
    throw DataError(
        fmt::format("{}: is not a valid manifest: {}", as_written(file), as_written(error.what())));
  } catch (const DataError& error) {
    throw DataError(
        fmt::format("{}: is not a valid manifest: {}", as_written(file), as_written(error.what())));
  }
}

void check_files(const std::string& file, const Manifest& manifest) {
  for (const auto& [name, entry] : manifest.files) {
    LOCKSTEP_CHECK(is_file_name(name),
                   DataError,
                   "{}: lists '{}', which is not the name of a file in the checkpoint",
                   as_written(file),
                   as_written(name));
    std::uint64_t end = 0;
    for (const ManifestPart& part : entry.parts) {
      LOCKSTEP_CHECK(part.end >= end && part.end <= entry.bytes,
                     DataError,
                     "{}: the parts of {} are not in order",
                     as_written(file),
                     as_written(name));
      end = part.end;
    }
    LOCKSTEP_CHECK(!entry.sha256.empty() || end == entry.bytes,
                   DataError,
                   "{}: the parts of {} do not cover it",
                   as_written(file),
                   as_written(name));
  }
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile})
    LOCKSTEP_CHECK(
        manifest.files.contains(name), DataError, "{}: lists no {}", as_written(file), name);
}

}  // namespace

bool is_file_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name != kManifestFile &&
         name.find('/') == std::string::npos && name.find('\0') == std::string::npos;
}

std::string to_text(const Manifest& manifest) {
  ordered_json files = ordered_json::object();
  for (const auto& [name, file] : manifest.files) files[name] = to_json(file);
  const ordered_json body{
      {"version", manifest.version}, {"step", manifest.step}, {"files", std::move(files)}};
  return sealed(body.dump());
}

Manifest parse_manifest(const std::string& file, std::string_view text) {
  check_seal(file, text);
  const Manifest manifest = from_json(file, text, version_of(file, text));
  check_files(file, manifest);
  LOCKSTEP_CHECK(to_text(manifest) == text,
                 DataError,
                 "{}: holds more than a manifest does",
                 as_written(file));
  return manifest;
}

}  // namespace lockstep::io
