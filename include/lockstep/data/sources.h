// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/preprocessing.h"

/// Sources of samples by the kind of their files. Each function opens one and returns a training
/// and a validation part:
///
///   const lockstep::data::DataSplit digits = lockstep::data::mnist("data/mnist");
///
/// Opening reads headers, tables and lists of files; images are read and decoded when they are
/// asked for. Nothing is downloaded.
namespace lockstep::data {

/// Image files of more pixels are refused before anything is allocated for them, unless max_pixels
/// says otherwise: where Pillow refuses a decompression bomb, at 2 * MAX_IMAGE_PIXELS.
constexpr std::int64_t kDefaultMaxPixels = 178'956'970;

/// Digits drawn by the program itself, 28x28x1 u8 in 10 classes, endless: image i of epoch e is
/// drawn from (seed, e * train_size + i). The validation part has a key of its own and is the same
/// in all epochs. The bytes are the same on every machine.
/// Throws ConfigError: a size below 1.
DataSplit glyphs(std::int64_t train_size = 60000,
                 std::int64_t validation_size = 10000,
                 std::uint64_t seed = 1);

/// What to do with a missing value: an empty field, NA, ?, or nan or null in any case. A missing
/// label is refused, unless its row is dropped.
enum class Missing : std::uint8_t {
  error,     ///< it is refused, with row and column
  mean,      ///< of a number: the column's mean in the training part; of a text: as `category`
  median,    ///< of a number: the column's median in the training part; of a text: the same
  drop,      ///< the row is skipped
  category,  ///< of a text: a category of its own; a missing number is refused
};

/// How csv() reads a table. A column is named, or counted from 1 (-1: the last) where no column has
/// that name.
struct TableOptions {
  /// Empty: chosen by the label columns, see csv(), or by the targets, see numpy().
  std::optional<Task> task = {};
  /// Empty: the last column that is neither dropped nor an id.
  std::vector<std::string> label_columns = {};
  char separator = '\0';  ///< 0: the comma, semicolon or tab that the header line has most of
  Missing missing = Missing::error;
  std::vector<std::string> dropped = {};     ///< columns that are not looked at
  std::vector<std::string> id_columns = {};  ///< not looked at; they name rows in predictions
  /// Names of columns that stay one-hot, however many categories they have; names that the table
  /// does not have are not looked at.
  std::vector<std::string> one_hot_columns = {};
  /// Features whose values are categories even where they are numbers.
  std::vector<std::string> categorical = {};
  /// Rows that cannot be read are skipped, as if the table did not have them: with quotes that do
  /// not close, too few or too many fields, or a value that its column cannot have.
  bool skips_bad_rows = false;
};

/// A table: a header line, then rows of fields that are separated by commas, semicolons or tabs and
/// may be in double quotes (RFC 4180).
///
/// Columns: one of numbers alone becomes a feature, standardised with mean and deviation of the
/// training part (a constant one has deviation 1); one with a text becomes a feature for each of
/// its texts, 1 for the row's and 0 for the others, or from 32 texts on one feature that is
/// embedded (SampleSpec::embedded), the index of the text, unless options.one_hot_columns names it.
/// Texts are collected over all rows, those of the validation part too (labels are not looked at
/// for that, and a text that only validation rows have trains no weight), sorted. At most 1,000 a
/// column; at most 31 where most of its values are numbers. Few texts among numbers are refused as
/// mistakes. Columns of options.categorical may hold either, up to 1,000 of them. Equal numbers are
/// one category. Missing values: see Missing. f32 [features].
///
/// Task: options.task, or by the label columns.
/// - classification: one label column, i32 []. Classes are numbered 0..K-1 by its values in
///   ascending order (by value where all are whole numbers, else by name). Chosen where some value
///   is not a number, and for whole numbers where at most 20 differ, of 5 rows each on average, or
///   where they are 0..K-1 with K <= 20 or 5 rows each on average.
/// - regression: f32 [labels], standardised as features are. Chosen for numbers that are not
///   whole, and for several label columns of numbers.
/// - multi_label: f32 [labels] of 0 and 1. Chosen for several label columns that hold nothing else.
///
/// The share `validation_fraction` of the rows, chosen by `seed`, is kept for validation (none
/// where it is 0: `validation` is null). With `trained` everything is as that record says, and the
/// result has a validation part alone: that share, which may be 1; of the options only the
/// separator, and whether rows are dropped or skipped, are looked at.
///
/// With options.skips_bad_rows everything is as of the table without the rows that cannot be read
/// by the columns that the others make. skipped_records() of the training part has them.
///
/// Throws DataError naming file, line and column (counted in fields), what was expected and what
/// came; ConfigError: options that do not fit the table, whole numbers that may be classes or
/// amounts, a fraction outside [0, 1) or that leaves a part empty.
DataSplit csv(const std::string& file,
              const TableOptions& options,
              double validation_fraction = 0.0,
              std::uint64_t seed = 1,
              const Preprocessing* trained = nullptr);
/// The same with the defaults of TableOptions.
DataSplit csv(const std::string& file, double validation_fraction = 0.0, std::uint64_t seed = 1);

/// MNIST and its relatives: the four IDX files train-*, t10k-*, plain or .gz. u8 [28, 28, 1].
/// Throws DataError naming file, what was expected and what came.
DataSplit mnist(const std::string& folder);

/// CIFAR-10's binary version: data_batch_1.bin to data_batch_5.bin and test_batch.bin, records of
/// a label and 32x32 pixels in three planes. u8 [32, 32, 3], read from the files as they are asked
/// for. Source: Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009. Throws
/// DataError naming file, record, what was expected and what came.
DataSplit cifar10(const std::string& folder);

/// Noise in the shape of images, new in every epoch, at next to no cost: for measuring speed.
/// u8 [height, width, channels], `classes` classes, no validation part.
struct SyntheticShape {
  std::int64_t height = 224, width = 224, channels = 3;
  int classes = 1000;
};
/// Throws ConfigError: an extent below 1, or more than 2^28 bytes a sample.
DataSplit synthetic(const SyntheticShape& shape = {}, std::uint64_t seed = 1);

/// How images(), packed() and webdataset() make samples of images of any size.
struct ImageOptions {
  int size = 224;  ///< samples are size x size
  /// Training looks at random parts of images, of at least this share of their area, stretched
  /// to the sample; 0: at their middle, as validation does.
  double resized_crop = 0;
  std::uint64_t seed = 1;  ///< keys the crops, with epoch and sample; chooses validation files
  double validation_fraction = 0;  ///< of a source without a validation part of its own
  /// See OpenOptions::trained: of its ImageRecord are size, short side and crop, not of `size`.
  const Preprocessing* trained = nullptr;
  std::int64_t max_pixels = kDefaultMaxPixels;  ///< files with more are refused
};

/// JPEG and PNG files, recognised by their content, in a folder per class: DIR/train/CLASS/... and
/// DIR/val, DIR/validation or DIR/test; or DIR/CLASS/... . Classes are numbered in the order of
/// their names. u8 [size, size, 3]; files are decoded whenever they are wanted.
/// Throws ConfigError: options out of range; DataError: folders without images, or other classes in
/// the validation part than in training; and from load() for a file that cannot be decoded.
DataSplit images(const std::string& folder, const ImageOptions& options = {});

/// The same from one file that `lockstep pack` wrote, which the system keeps in memory for all
/// ranks of a host. Throws DataError where the file is not as it says, naming the byte.
DataSplit packed(const std::string& file, const ImageOptions& options = {});

/// Images in WebDataset's shards, uncompressed tars: a pattern, shard-{000000..000009}.tar; a
/// folder of them; or DIR/train and DIR/val (or valid, validation, test), or files with these words
/// in their names. A sample is KEY.jpg, .jpeg or .png followed or preceded by KEY.cls, or by
/// KEY.json with "cls", "class", "label" or "target". Classes that are whole numbers are
/// themselves, other texts are numbered in the order of their bytes. Samples as images() makes
/// them.
///
/// Opening reads all headers and labels once, and keeps 24 bytes a sample and 8 for each that a
/// part uses: so samples come in any order, each once an epoch, not from a buffer that is shuffled.
///
/// Throws ConfigError: options out of range, a pattern that names no shards; DataError naming shard
/// and sample: a tar that is compressed, cut off or damaged, links in it, a sample without image or
/// class, with two of one, or under a key that its shard has had; from load() for an image that
/// cannot be decoded.
DataSplit webdataset(const std::string& shards, const ImageOptions& options = {});

/// Whether the windows of tokens that a model sees span documents.
enum class Documents : std::uint8_t {
  crossing,  ///< a window begins anywhere, and may hold the end of one document and the begin of
             ///< others
  separate   ///< each window lies in one document, and the end of a short one is not used
};

/// What open() reads in addition to a source's name; each kind of source reads its own part.
struct OpenOptions {
  /// Share kept for validation, of sources without a validation part of their own.
  double validation_fraction = 0.0;
  /// Chooses validation rows and keys crops. Glyphs are the same for every seed, as mnist and
  /// cifar10 are, so that runs compare.
  std::uint64_t seed = 1;
  /// Of images, packed and webdataset: see ImageOptions.
  int image_size = 224;
  std::int64_t max_pixels = kDefaultMaxPixels;
  double resized_crop = 0;      ///< of the same; ConfigError for other sources
  std::int64_t context = 0;     ///< text, tokens: tokens of a sample
  std::int64_t vocabulary = 0;  ///< tokens: different tokens; 0: as many as the file or the
                                ///< tokenizer says, or GPT-2's 50,257
  Documents documents = Documents::crossing;  ///< tokens
  /// Of tokens: what made them, where that is known; a run keeps it for texts that come later.
  std::shared_ptr<const Tokenizer> tokenizer = {};
  /// Targets with this value count in neither loss nor accuracy.
  std::optional<std::int32_t> ignore_index = {};
  TableOptions table = {};  ///< csv; numpy: its task
  /// The record of a trained model, which is to be evaluated: images are resized and cropped, and
  /// columns standardised, as it says; class folders, columns and characters are found in it by
  /// name; image_size and the options of tables that it answers are not looked at. A source that
  /// prepares its samples in one way alone is refused where that is another.
  /// The result has a validation part alone: the source's own, or the share validation_fraction,
  /// which may be 1: all there is. DataError or ConfigError where the data contradict it. Only
  /// looked at while opening.
  const Preprocessing* trained = nullptr;
};

/// Text in UTF-8, a character a token, numbered in ascending order of their codes. The last tenth
/// (or validation_fraction) of the characters is the validation part. A
/// sample is options.context tokens i32 [T], its target the token after each. Throws DataError
/// naming file and byte: invalid UTF-8, a NUL.
DataSplit text(const std::string& file, const OpenOptions& options);

/// Files of tokens, little-endian, of 16 bits, bare (nanoGPT) or after llm.c's header, of 32 bits
/// after that header, or NumPy's arrays [N] of uint16, uint32 or int32: a folder with train.bin and
/// val.bin, or train.npy and val.npy, or one file, whose last tenth (or validation_fraction) is the
/// validation part. Samples as text() makes them. Throws DataError: an odd number of bytes, a
/// header that lies, an array of another type; when loading: a token past the vocabulary, with its
/// position. ConfigError: tokens of another tokenizer, or of a larger vocabulary than
/// options.vocabulary; separate documents of a file that does not say where they end.
DataSplit tokens(const std::string& path, const OpenOptions& options);

/// NumPy's arrays: an .npz, a folder of .npy files, or a folder with train.npz and val.npz. Format
/// 1.0 to 3.0, little-endian bool, int8 to int64, uint8 to uint64, float16 to float64, in C or
/// Fortran order; stored or deflated. Arrays that are not compressed are read where they lie.
///
/// Names: x_train, y_train and x_val, y_val (or valid, validation, test), or train_x, train_y; or
/// x, y without parts, of which options.validation_fraction is kept. For x may stand X, images,
/// data, features or inputs, for y Y, labels, target or targets.
///
/// Inputs: uint8 [N, H, W] or [N, H, W, C] of 1 or 3 channels become u8 [H, W, C], normalised as
/// mnist() and images() are; floats of such shapes f32 [H, W, C], as they are; [N, F] f32 [F],
/// standardised as csv() does.
///
/// Targets: whole numbers [N] or [N, 1], or one-hot [N, K], are classes 0 to K-1; other 0 and 1
/// [N, K] labels; other floats [N] or [N, K] numbers, standardised where inputs are;
/// options.table.task chooses otherwise.
///
/// Throws DataError naming file, array and index: another type or order of bytes, a header that
/// lies, a file that is cut short, arrays of other names or shapes, labels out of range, numbers
/// that are not finite; ConfigError as csv() does.
DataSplit numpy(const std::string& path, const OpenOptions& options = {});

/// Of data with one class a sample, how many samples each class has; those to be ignored count in
/// none. Throws ConfigError: other data; DataError: a label out of range.
std::vector<std::int64_t> class_counts(const Dataset& dataset);

/// `dataset` with its samples drawn anew in each epoch, with replacement and as many as it has: of
/// each, first its class is drawn, all equally likely, then a sample of the class. The draw depends
/// on (seed, epoch, index) alone (PyTorch's WeightedRandomSampler with one over the class's count).
/// Throws ConfigError: other data than of one class a sample, a class without samples; DataError: a
/// label out of range; when loading: one that another epoch changes.
std::shared_ptr<const Dataset> balanced_classes(std::shared_ptr<const Dataset> dataset,
                                                std::uint64_t seed);

/// Several sources of the same kind of samples as one. An epoch has as many samples as their
/// training parts together; of these source i gives the share weights[i] / sum(weights), rounded to
/// whole samples that add up. Each source's samples come in passes over all of them in an order
/// drawn anew, from where the epoch before has ended: none comes a second time before all others
/// have come once. What sample `index` of an epoch is depends on (seed, epoch, index) alone.
/// Validation is all of the sources' validation parts, one after the other.
/// Throws ConfigError: less than two sources, as many weights as sources they are not, a weight
/// that is not above 0 or gives a source no sample, samples of other types, classes, normalisation
/// or tokenizer than the first source's; other names of classes than those of another source, or
/// none where a source numbers its classes by their names.
DataSplit mixed_sources(const std::vector<DataSplit>& sources,
                        const std::vector<double>& weights,
                        std::uint64_t seed);

/// A kind of source that open() knows.
struct SourceKind {
  std::string_view name;
  /// After the name and a colon: FILE, DIR or PATH (either of them), empty where nothing is. In
  /// brackets, with the colon: it may be left away.
  std::string_view argument = {};
  std::string_view note = {};  ///< what it is, for people; empty: the name says it
  /// Whether a path belongs after the name.
  bool takes_path() const { return !argument.empty() && argument[0] != '['; }
};

/// All of them, in the order in which people meet them.
std::vector<SourceKind> source_kinds();

/// As it is typed: "csv:FILE", "synthetic[:HxWxC[:CLASSES]]".
std::string form_of(const SourceKind& kind);

/// A source by its name on the command line, in one of the forms of source_kinds(). Throws
/// ConfigError naming the nearest valid kind, or an option that the source has no use for;
/// DataError as the source does.
DataSplit open(const std::string& source, const OpenOptions& options = {});

}  // namespace lockstep::data
