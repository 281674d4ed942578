// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::data {

/// The files below one folder per class, in the order of class names and then of paths (by bytes),
/// whatever order the file system gives.
struct ImageFolder {
  std::string root;
  std::vector<std::string> classes;
  std::string names;                 ///< paths from the root, one after the other
  std::vector<std::uint64_t> ends;   ///< where each path ends in `names`
  std::vector<std::int32_t> labels;  ///< [size]

  std::int64_t size() const { return std::int64_t(labels.size()); }
  std::string path(std::int64_t index) const;
};

/// Lists `root`/CLASS/**: every regular file whose name does not begin with a dot counts, through
/// symbolic links as well. Nothing is opened.
/// Throws DataError: no folder, no class folder, a class without files, a link that leads to one of
/// the folders around it or to nothing, a folder that cannot be read.
ImageFolder scan_image_folder(const std::string& root);

/// Paths of every file below `folder`, beginning with it, in the order of their bytes; the same
/// files count as for scan_image_folder(), and it throws as that does.
std::vector<std::string> files_below(const std::string& folder);

/// Hash of names, labels and the sizes of a few thousand files.
std::uint64_t fingerprint(const ImageFolder& folder);

/// For each of `names` its index among `classes`. Throws DataError for one that is not among them:
/// "<prefix><name>: a class that <reproach>".
std::vector<std::int32_t> labels_among(const std::vector<std::string>& names,
                                       const std::vector<std::string>& classes,
                                       const std::string& prefix,
                                       const std::string& reproach);
/// The same for the classes of a folder.
std::vector<std::int32_t> labels_among(const ImageFolder& folder,
                                       const std::vector<std::string>& classes,
                                       const std::string& reproach);

/// Whether `folder` holds val, validation or test.
bool has_validation_folder(const std::string& folder);

/// The first of those. Throws as scan_image_folder().
std::shared_ptr<const ImageFolder> scan_validation_folder(const std::string& folder);

/// The parts of an image source; `validation` may be null.
struct ImageFolders {
  std::shared_ptr<const ImageFolder> train, validation;
  /// For each class of `validation` the number that training gives it.
  std::vector<std::int32_t> validation_labels() const;
};

/// `folder`/train with the first of `folder`/val, validation and test that is there; or `folder`
/// itself. Throws as scan_image_folder() does; DataError: a class that training lacks.
ImageFolders scan_image_folders(const std::string& folder);

}  // namespace lockstep::data
