// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/data/input_file.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImageFolderHint =
    "expected DIR/CLASS/*.jpg, or DIR/train/CLASS/*.jpg and DIR/val, DIR/validation or DIR/test";
/// Deeper folders are taken for a mistake before the stack is.
constexpr std::size_t kDeepest = 64;
constexpr std::int64_t kFingerprintedFiles = 4096;

[[noreturn]] void cannot_read(const fs::path& path, const std::error_code& error) {
  if (error == std::errc::too_many_symbolic_link_levels)
    throw DataError(
        fmt::format("{}: a symbolic link that leads back to itself", as_written(path.string())),
        "remove the link");
  throw DataError(fmt::format("{}: cannot be read: {}", as_written(path.string()), error.message()),
                  "check permissions and links");
}

/// Kind of `entry`, with links resolved.
fs::file_type kind_of(const fs::directory_entry& entry) {
  std::error_code error;
  // The folder itself says it for files that are not links, which saves asking for each.
  if (entry.is_regular_file(error)) return fs::file_type::regular;
  if (entry.is_directory(error)) return fs::file_type::directory;
  const fs::file_status status = entry.status(error);
  if (error || status.type() == fs::file_type::not_found)
    cannot_read(entry.path(),
                error ? error : make_error_code(std::errc::no_such_file_or_directory));
  return status.type();
}

bool hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error))
    if (!hidden(it->path())) entries.push_back(*it);
  if (error) cannot_read(folder, error);
  return entries;
}

/// Collects the files below a folder; `around` are the folders that lead there.
void collect(const fs::path& folder,
             std::size_t root_length,
             std::vector<fs::path>& around,
             std::vector<std::string>& files) {
  std::error_code error;
  for (const fs::path& outer : around)
    if (fs::equivalent(outer, folder, error))
      throw DataError(fmt::format("{}: a symbolic link that leads back to {}, around it",
                                  as_written(folder.string()),
                                  as_written(outer.string())),
                      "remove the link");
  LOCKSTEP_CHECK(around.size() < kDeepest,
                 DataError,
                 "{}: folders deeper than {}",
                 as_written(folder.string()),
                 kDeepest);
  around.push_back(folder);
  for (const fs::directory_entry& entry : entries_of(folder)) {
    const fs::file_type kind = kind_of(entry);
    if (kind == fs::file_type::directory) {
      collect(entry.path(), root_length, around, files);
    } else if (kind == fs::file_type::regular) {
      files.push_back(entry.path().native().substr(root_length));
    } else {
      throw DataError(fmt::format("{}: expected a file, got a device or pipe",
                                  as_written(entry.path().string())),
                      "remove it");
    }
  }
  around.pop_back();
}

}  // namespace

std::string ImageFolder::path(std::int64_t index) const {
  const auto i = std::size_t(index);
  const std::uint64_t begin = i == 0 ? 0 : ends[i - 1];
  return root + "/" + names.substr(begin, ends[i] - begin);
}

ImageFolder scan_image_folder(const std::string& root) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found)
    throw DataError(fmt::format("{}: no such folder", as_written(root)), kImageFolderHint);
  if (status.type() == fs::file_type::none) cannot_read(root, error);
  if (!fs::is_directory(status))
    throw DataError(fmt::format("{}: expected a folder, got a file", as_written(root)),
                    kImageFolderHint);
  ImageFolder result;
  result.root = root;
  while (result.root.size() > 1 && result.root.back() == '/') result.root.pop_back();
  for (const fs::directory_entry& entry : entries_of(result.root))
    if (kind_of(entry) == fs::file_type::directory)
      result.classes.push_back(entry.path().filename().native());
  std::sort(result.classes.begin(), result.classes.end());
  if (result.classes.empty())
    throw DataError(fmt::format("{}: there is no class folder in it", as_written(root)),
                    kImageFolderHint);
  std::vector<std::string> files;
  for (std::size_t label = 0; label < result.classes.size(); ++label) {
    files.clear();
    std::vector<fs::path> around{result.root};
    collect(fs::path(result.root) / result.classes[label], result.root.size() + 1, around, files);
    if (files.empty())
      throw DataError(fmt::format("{}/{}: a class folder without files",
                                  as_written(result.root),
                                  as_written(result.classes[label])),
                      "remove the folder, or put images into it");
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) {
      result.names += file;
      result.ends.push_back(result.names.size());
    }
    result.labels.resize(result.ends.size(), std::int32_t(label));
  }
  return result;
}

std::vector<std::string> files_below(const std::string& folder) {
  std::string root = folder;
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  std::vector<std::string> files;
  std::vector<fs::path> around;
  collect(root, 0, around, files);
  std::sort(files.begin(), files.end());
  return files;
}

std::uint64_t fingerprint(const ImageFolder& folder) {
  std::uint64_t hash = content_hash(folder.names.data(), folder.names.size());
  hash = content_hash(folder.labels.data(), folder.labels.size() * sizeof(std::int32_t), hash);
  const std::int64_t step = std::max<std::int64_t>(1, folder.size() / kFingerprintedFiles);
  for (std::int64_t i = 0; i < folder.size(); i += step) {
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(folder.path(i), error);
    if (error) cannot_read(folder.path(i), error);
    hash = content_hash(&bytes, sizeof bytes, hash);
  }
  return hash;
}

std::vector<std::int32_t> labels_among(const std::vector<std::string>& names,
                                       const std::vector<std::string>& classes,
                                       const std::string& prefix,
                                       const std::string& reproach) {
  std::map<std::string_view, std::int32_t> index;
  for (std::size_t i = 0; i < classes.size(); ++i) index.emplace(classes[i], std::int32_t(i));
  std::vector<std::int32_t> labels;
  for (const std::string& name : names) {
    const auto found = index.find(name);
    if (found == index.end())
      throw DataError(
          fmt::format("{}{}: a class that {}", as_written(prefix), as_written(name), reproach),
          "classes are named like those of training");
    labels.push_back(found->second);
  }
  return labels;
}

std::vector<std::int32_t> labels_among(const ImageFolder& folder,
                                       const std::vector<std::string>& classes,
                                       const std::string& reproach) {
  return labels_among(folder.classes, classes, folder.root + "/", reproach);
}

std::vector<std::int32_t> ImageFolders::validation_labels() const {
  return labels_among(*validation, train->classes, train->root + " does not have");
}

namespace {

constexpr const char* kValidationFolders[] = {"val", "validation", "test"};

}  // namespace

bool has_validation_folder(const std::string& folder) {
  return std::ranges::any_of(kValidationFolders,
                             [&](const char* name) { return is_folder(fs::path(folder) / name); });
}

std::shared_ptr<const ImageFolder> scan_validation_folder(const std::string& folder) {
  for (const char* name : kValidationFolders)
    if (const fs::path part = fs::path(folder) / name; is_folder(part))
      return std::make_shared<ImageFolder>(scan_image_folder(part.string()));
  return nullptr;
}

ImageFolders scan_image_folders(const std::string& folder) {
  ImageFolders result;
  const fs::path root(folder);
  if (!is_folder(root / "train")) {
    result.train = std::make_shared<ImageFolder>(scan_image_folder(folder));
    return result;
  }
  result.train = std::make_shared<ImageFolder>(scan_image_folder((root / "train").string()));
  result.validation = scan_validation_folder(folder);
  if (result.validation) result.validation_labels();  // throws where it has a class of its own
  return result;
}

}  // namespace lockstep::data
