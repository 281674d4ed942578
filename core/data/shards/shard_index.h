// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::data {

/// Where an image lies, and which label it has. 24 bytes: what an index takes for each sample.
struct ShardSample {
  std::uint64_t offset = 0;  ///< of the image in its shard
  std::uint32_t bytes = 0;
  std::uint32_t shard = 0;
  std::int32_t label = 0;  ///< among ShardIndex::labels
};

/// The samples of some shards, in the order of the shards and of the samples in them.
struct ShardIndex {
  std::vector<std::string> shards;
  std::vector<std::uint64_t> shard_bytes;  ///< when they were indexed
  std::vector<ShardSample> samples;
  std::vector<std::string> labels;  ///< different texts of .cls, or values in .json, as they came

  std::int64_t size() const { return std::int64_t(samples.size()); }
  /// "shards/a-000003.tar: sample 17", counted in the shard.
  std::string place(std::int64_t index) const;
};

/// Reads the headers of all members and the labels once. A sample is what follows one another under
/// one key, the name up to the first dot after its last slash: KEY.jpg, .jpeg or .png, and KEY.cls,
/// the label's text, or KEY.json, an object with a number or text "cls", "class", "label" or
/// "target", the first that is there (.cls where there are both). Other members are not looked at,
/// nor names that begin with a dot or have none.
/// Throws DataError naming shard, sample and key: as TarReader does; a sample without image or
/// label, with two of one; a key that its shard has had before; a label that is empty or no such
/// JSON.
ShardIndex index_shards(std::vector<std::string> shards);

/// The classes of labels: whole numbers are classes themselves, 0 to the largest, without names;
/// other texts are numbered in the order of their bytes.
struct ShardClasses {
  std::vector<std::string> names;  ///< empty: labels are numbers
  int count = 0;
  /// The class of each label of `index`. Throws DataError: one that is not among them, with its
  /// first sample.
  std::vector<std::int32_t> classes_of(const ShardIndex& index) const;
};

/// Throws DataError naming the sample: numbers and texts mixed, a number past 2^24, one class.
ShardClasses find_shard_classes(const ShardIndex& index);

}  // namespace lockstep::data
