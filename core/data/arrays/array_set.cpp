// SPDX-License-Identifier: Apache-2.0
#include "core/data/arrays/array_set.h"

#include <algorithm>
#include <filesystem>
#include <fmt/ranges.h>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/file_kind.h"
#include "core/base/parameter_names.h"
#include "core/base/text/printable.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kArraysHint =
    "expected x_train, y_train and x_test, y_test (Keras), train_images, train_labels and "
    "val_images, val_labels (MedMNIST), or x, y: in one .npz, as .npy files of a folder, or x, y "
    "in "
    "train.npz and val.npz of a folder";

constexpr std::pair<const char*, const char*> kNamePairs[] = {{"x", "y"},
                                                              {"X", "y"},
                                                              {"X", "Y"},
                                                              {"images", "labels"},
                                                              {"data", "labels"},
                                                              {"data", "target"},
                                                              {"data", "targets"},
                                                              {"features", "labels"},
                                                              {"features", "targets"},
                                                              {"inputs", "targets"},
                                                              {"inputs", "labels"}};
constexpr const char* kTrainParts[] = {"train", "training"};
constexpr const char* kValidationParts[] = {"val", "valid", "validation", "test"};

/// Arrays by name, opened when they are asked for.
struct NamedArrays {
  std::string place;  // for messages
  std::set<std::string> names;
  std::function<NpyArray(const std::string&)> open;
};

/// Whether it begins with an entry of a zip, or is an empty one.
bool is_zip_file(const FileReader& file) {
  constexpr std::string_view kEntry("PK\3\4", 4), kEnd("PK\5\6", 4);
  std::vector<std::byte> begin(std::size_t(std::min<std::uint64_t>(file.bytes(), kEntry.size())));
  file.read(file.path().string(), 0, begin);
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  return text == kEntry || text == kEnd;
}

NamedArrays arrays_of_npz(const std::string& path) {
  const auto file = std::make_shared<const FileReader>(path);
  const auto zip = std::make_shared<const ZipReader>(*file);
  const std::vector<std::string> names = npz_names(*zip);
  return {path, {names.begin(), names.end()}, [file, zip](const std::string& name) {
            return NpyArray::open_member(file, *zip, name);
          }};
}

NamedArrays arrays_of_folder(const std::string& path) {
  NamedArrays arrays{path, {}, [path](const std::string& name) {
                       return NpyArray::open((fs::path(path) / (name + ".npy")).string());
                     }};
  std::error_code error;
  for (fs::directory_iterator it(path, error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (it->path().extension() == ".npy") arrays.names.insert(it->path().stem().string());
  LOCKSTEP_CHECK(!error, DataError, "{}: cannot be read: {}", as_written(path), error.message());
  return arrays;
}

[[noreturn]] void refuse_names(const NamedArrays& arrays, const std::string& what) {
  constexpr std::size_t kMaxListed = 12;
  std::vector<std::string> found;
  for (const std::string& name : arrays.names)
    if (found.size() < kMaxListed) found.push_back(printable(name, 40));
  throw DataError(
      fmt::format("{}: {}; the arrays in it are: {}{}",
                  as_written(arrays.place),
                  what,
                  found.empty() ? "none" : as_written(fmt::format("{}", fmt::join(found, ", "))),
                  arrays.names.size() > kMaxListed ? ", ..." : ""),
      kArraysHint);
}

LabelledArrays open_pair(const NamedArrays& arrays, const std::string& x, const std::string& y) {
  LabelledArrays pair{arrays.open(x), arrays.open(y)};
  LOCKSTEP_CHECK(pair.inputs.rows() == pair.targets.rows(),
                 DataError,
                 "{}: expected as many targets as {} has samples, {}, got {}",
                 as_written(pair.targets.name()),
                 as_written(printable(x)),
                 pair.inputs.rows(),
                 pair.targets.rows());
  return pair;
}

/// Pairs of names, in the order in which they are looked for.
using NamePairs = std::vector<std::pair<std::string, std::string>>;

/// The first pair that is there; nothing where none of the names is. Throws where one is without
/// its other half.
std::optional<LabelledArrays> find_pair(const NamedArrays& arrays, const NamePairs& pairs) {
  std::string alone, missing;
  for (const auto& [x, y] : pairs) {
    const bool has_x = arrays.names.contains(x), has_y = arrays.names.contains(y);
    if (has_x && has_y) return open_pair(arrays, x, y);
    if (has_x == has_y || !alone.empty()) continue;
    alone = has_x ? x : y;
    missing = has_x ? y : x;
  }
  if (!alone.empty()) refuse_names(arrays, fmt::format("{} without {}", alone, missing));
  return std::nullopt;
}

std::optional<LabelledArrays> find_part(const NamedArrays& arrays, std::string_view part) {
  NamePairs pairs;
  for (const auto& [x, y] : kNamePairs) {
    pairs.emplace_back(fmt::format("{}_{}", x, part), fmt::format("{}_{}", y, part));
    pairs.emplace_back(fmt::format("{}_{}", part, x), fmt::format("{}_{}", part, y));
  }
  return find_pair(arrays, pairs);
}

std::optional<LabelledArrays> find_whole(const NamedArrays& arrays) {
  NamePairs pairs(std::begin(kNamePairs), std::end(kNamePairs));
  pairs.emplace_back("arr_0", "arr_1");
  return find_pair(arrays, pairs);
}

template <typename Parts>
std::optional<LabelledArrays> find_first(const NamedArrays& arrays, const Parts& parts) {
  for (const char* part : parts)
    if (auto pair = find_part(arrays, part)) return pair;
  return std::nullopt;
}

ArraySet find_set(const NamedArrays& arrays) {
  ArraySet set;
  set.train = find_first(arrays, kTrainParts);
  if (set.train)
    set.validation = find_first(arrays, kValidationParts);
  else
    set.whole = find_whole(arrays);
  if (!set.train && !set.whole) refuse_names(arrays, "no inputs with targets");
  return set;
}

LabelledArrays whole_of(const std::string& path) {
  const NamedArrays arrays = arrays_of_npz(path);
  if (auto whole = find_whole(arrays)) return std::move(*whole);
  refuse_names(arrays, "no inputs with targets");
}

ArraySet set_of_folder(const fs::path& folder) {
  const fs::path train = folder / "train.npz";
  if (!is_file(train)) return find_set(arrays_of_folder(folder.string()));
  ArraySet set;
  set.train = whole_of(train.string());
  for (const char* part : kValidationParts)
    if (const fs::path file = folder / (std::string(part) + ".npz"); is_file(file)) {
      set.validation = whole_of(file.string());
      break;
    }
  return set;
}

}  // namespace

ArraySet open_array_set(const std::string& path) {
  if (!is_there(path))
    throw DataError(fmt::format("{}: no such file or folder", as_written(path)), kArraysHint);
  if (is_folder(path)) return set_of_folder(path);
  const FileReader file(path);
  if (is_npy_file(file))
    throw DataError(fmt::format("{}: one array, whose targets are missing", as_written(path)),
                    "name the folder with x.npy and y.npy, or an .npz; tokens of a text are "
                    "`data` tokens:FILE.npy");
  if (!is_zip_file(file))
    throw DataError(
        fmt::format("{}: neither an .npz nor an .npy begins like this file", as_written(path)),
        kArraysHint);
  return find_set(arrays_of_npz(path));
}

}  // namespace lockstep::data
