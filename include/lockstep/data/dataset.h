// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/shape.h"

namespace lockstep::data {

struct Preprocessing;

/// A feature that holds the index of a category, 0 to categories - 1, which a model looks up in a
/// table of its own (Builder::column_embedding()).
struct EmbeddedColumn {
  std::int64_t feature = 0;     ///< its place in a sample
  std::int64_t categories = 0;  ///< at most 2^24, whose indices f32 holds
  bool operator==(const EmbeddedColumn&) const = default;
};

/// What one sample looks like, and how its bytes become the numbers that a model sees.
struct SampleSpec {
  TensorType input;   ///< without the batch dimension: u8 [H, W, C], f32 [features], i32 [T] tokens
  TensorType target;  ///< i32 [] for a class, i32 [T] for tokens, f32 [D] for regression, f32 [L]
                      ///< for labels of which a sample may have several
  int classes = 0;    ///< classes, or tokens of the vocabulary; 0 without: the target is f32
  bool multi_label = false;  ///< the target is L labels, each 0 (absent) or 1 (present)
  /// Targets with this value count in neither loss nor accuracy.
  std::optional<std::int32_t> ignore_index = {};
  /// The model sees input * scale + shift, of one value per channel or one for all; empty where the
  /// input is used as is.
  std::vector<float> scale;
  std::vector<float> shift;
  /// Of f32 [features]: those that hold the index of a category, ascending. A model has to embed
  /// them.
  std::vector<EmbeddedColumn> embedded = {};
};

/// Records of a source that opening it skipped, since they cannot be read.
struct SkippedRecords {
  static constexpr std::size_t kMaxNamed = 20;
  std::int64_t count = 0;
  std::vector<std::string>
      first;  ///< what is wrong with each of the first kMaxNamed, with its place
};

/// What a run remembers of files that are too many or too large to be read whole at each start, so
/// that it notices at a resume that they have changed. A source whose fingerprint() covers every
/// byte, or that checks what it reads, has an empty one.
struct ContentSample {
  /// Of the sizes, and of bytes that the seed chose.
  std::uint64_t hash = 0;
  /// When the newest of the files was written, in seconds since 1970; 0: not known.
  std::int64_t written = 0;

  bool empty() const { return hash == 0 && written == 0; }
};

/// A source of samples by index. lockstep/data/sources.h opens the usual ones; for data of your
/// own, derive from it and override spec(), size(), load(), describe() and fingerprint():
///
///   trainer.fit({std::make_shared<Rings>(0, 2048), std::make_shared<Rings>(2048, 256)});
///
/// Immutable once it is made: load() is called by several threads at once, on every rank. A
/// sample's bytes depend on (the source, epoch, index) alone, so that every rank sees the same
/// data.
class Dataset {
 public:
  virtual ~Dataset() = default;

  /// The same in every call.
  virtual const SampleSpec& spec() const = 0;
  /// What samples look like in all epochs, spec() first: of other sizes where images grow. The
  /// types of their targets, their classes and normalisation are one.
  virtual std::span<const SampleSpec> specs() const { return {&spec(), 1}; }
  /// Which of specs() those of `epoch` look like.
  virtual std::size_t spec_of(std::uint64_t /*epoch*/) const { return 0; }
  /// Samples in an epoch, at least 1.
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
  /// Writes a further copy of the sample, from 1 on, whose random crop is another one; copy 0 is
  /// load()'s. Sources without random crops have equal copies.
  virtual void load_copy(std::uint64_t epoch,
                         std::int64_t index,
                         int /*copy*/,
                         std::byte* input,
                         std::byte* target) const {
    load(epoch, index, input, target);
  }
  /// The class of sample `index`, of sources of one class a sample; the default loads the sample.
  /// Sources override it where that takes long.
  virtual std::int32_t label(std::int64_t index) const;
  /// "mnist:DIR, 60,000 images of 28x28x1 in 10 classes", for people.
  virtual std::string describe() const = 0;
  /// Names of the classes, or the text of each token of the vocabulary; empty where they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// How other data become samples like these. The default holds spec() and class_names() alone,
  /// for sources whose samples nothing but their own program can make.
  virtual Preprocessing preprocessing() const;
  /// What opening the source skipped; of a source with a training part, that part has all of it.
  virtual SkippedRecords skipped_records() const { return {}; }
  /// Hash of what identifies the content (sizes, sums of the files): ranks compare it at the start,
  /// and a resumed run with the one of its checkpoint.
  virtual std::uint64_t fingerprint() const = 0;
  /// Memory that `threads` threads which load at the same time need in addition to the samples, as
  /// far as it is known: for image files, what the largest of them take to be decoded.
  virtual std::uint64_t decoding_bytes(int /*threads*/) const { return 0; }
  /// The same samples, with images made as those of side `size` are; of sources that make samples
  /// of images of any size. Null: this one does not.
  virtual std::shared_ptr<const Dataset> resized(int /*size*/) const { return nullptr; }
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
