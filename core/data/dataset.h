// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/shape.h"
#include "core/data/content_sample.h"
#include "core/data/embedded_column.h"

namespace lockstep::data {

struct Preprocessing;

/// What one sample looks like, and how the program turns its bytes into numbers.
struct SampleSpec {
  TensorType input;   ///< without the batch dimension: u8 [H, W, C], f32 [features], i32 [T] tokens
  TensorType target;  ///< i32 [] for a class, i32 [T] for tokens, f32 [D] for regression, f32 [L]
                      ///< for labels of which a sample may have several
  int classes = 0;    ///< classes, or tokens of the vocabulary; 0 without: the target is f32
  bool multi_label = false;  ///< the target is L labels, each 0 (absent) or 1 (present)
  /// Targets with this value count in neither loss nor accuracy.
  std::optional<std::int32_t> ignore_index = {};
  /// Normalize's attributes (per channel, or one for all); empty where the input is used as is.
  std::vector<float> scale;
  std::vector<float> shift;
  /// Of f32 [features]: those that hold the index of a category, ascending. A model has to embed
  /// them.
  std::vector<EmbeddedColumn> embedded = {};
};

/// Throws ConfigError: `spec.embedded` names features that its samples do not have, twice or in
/// another order, or of fewer than 1 or more than kMaxEmbeddedCategories categories; or the samples
/// have a scale, which would change indices.
void check_embedded(const SampleSpec& spec);

/// Records of a source that opening it skipped, since they cannot be read.
struct SkippedRecords {
  static constexpr std::size_t kMaxNamed = 20;
  std::int64_t count = 0;
  std::vector<std::string>
      first;  ///< what is wrong with each of the first kMaxNamed, with its place
};

/// A source of samples by index. Immutable once opened; load() is called by several threads.
/// A sample's bytes depend on (the source, epoch, index) alone.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const SampleSpec& spec() const = 0;
  /// Samples in an epoch.
  virtual std::int64_t size() const = 0;
  /// Writes sample `index` of `epoch` into `input` and `target` (sizes of the spec). Only sources
  /// that draw (endless ones, random crops) look at `epoch`. Throws DataError naming file and
  /// record.
  virtual void load(std::uint64_t epoch,
                    std::int64_t index,
                    std::byte* input,
                    std::byte* target) const = 0;
  /// Writes the samples `indices` of `epoch` one after the other; the same bytes as load() for
  /// each. Sources of very small samples override it to save a call per sample.
  virtual void load_batch(std::uint64_t epoch,
                          std::span<const std::int64_t> indices,
                          std::byte* input,
                          std::byte* target) const;
  /// "mnist:DIR, 60,000 images of 28x28x1 in 10 classes", for people.
  virtual std::string describe() const = 0;
  /// Names of the classes, or the text of each token of the vocabulary; empty where they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// How other data become samples like these. The default holds spec() and class_names() alone,
  /// for sources whose samples nothing but their own program can make.
  virtual Preprocessing preprocessing() const;
  /// What opening the source skipped; of a source with a training part, that part has all of it.
  virtual SkippedRecords skipped_records() const { return {}; }
  /// Hash of what identifies the content (sizes, sums of the files), for the fingerprint.
  virtual std::uint64_t fingerprint() const = 0;
  /// Memory that `threads` threads which load at the same time need in addition to the samples, as
  /// far as it is known: for image files, what the largest of them take to be decoded.
  virtual std::uint64_t decoding_bytes(int /*threads*/) const { return 0; }
  /// What shows at a resume that files have changed that fingerprint() does not read whole, nor
  /// load() check; the default is empty: there are none. `seed` chooses what is read.
  virtual ContentSample content_sample(std::uint64_t /*seed*/) const { return {}; }
};

/// A training part and a part that is never trained on; `validation` may be null.
struct DataSplit {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> validation;
};

}  // namespace lockstep::data
