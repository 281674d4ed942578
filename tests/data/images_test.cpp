// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "core/data/ignore_label.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/image_reader.h"
#include "core/data/images/image_samples.h"
#include "core/data/images/pack.h"
#include "core/data/preprocessing.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/preprocessing.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"
#include "tests/support/image_files.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using test::jpeg_file;
using test::make_test_image;
using test::photo_like;
using test::png_file;
using testing::ElementsAre;
using testing::HasSubstr;

class Images : public DataFixture {
 protected:
  std::string add(const std::string& name, const std::string& content) {
    fs::create_directories(fs::path(path(name)).parent_path());
    return write(name, content);
  }
  std::string photo(int number = 1) { return jpeg_file(photo_like(90, 70, std::uint64_t(number))); }
  /// PNG of one colour, so that a sample says which file it came from.
  std::string flat(int value) {
    return png_file(make_test_image(40, 30, 3, [value](int, int, int) { return value; }));
  }
  std::string error(const ImageOptions& options = {}) {
    return error_of<DataError>([&] { images(folder_, options); });
  }
  static int first_byte(const Dataset& dataset, std::int64_t index) {
    return std::to_integer<int>(sample_bytes(dataset, 0, index)[0]);
  }
};

TEST_F(Images, AreOrderedByClassAndName) {
  add("b/2.png", flat(12));
  add("b/10.png", flat(11));
  add("a/z.jpeg", flat(10));
  add("c/deep/er/x", flat(13));
  add("c/.hidden", "no image");
  add("README.md", "no class");
  const DataSplit split = images(folder_, {.size = 8});
  ASSERT_EQ(split.train->size(), 4);
  EXPECT_EQ(split.validation, nullptr);
  EXPECT_EQ(split.train->spec().classes, 3);
  EXPECT_THAT(split.train->class_names(), ElementsAre("a", "b", "c"));
  EXPECT_EQ(split.train->spec().input.to_string(), "u8[8, 8, 3]");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(first_byte(*split.train, i), 10 + i);
  EXPECT_EQ(label_of(*split.train, 0, 0), 0);
  EXPECT_EQ(label_of(*split.train, 0, 1), 1);
  EXPECT_EQ(label_of(*split.train, 0, 2), 1);
  EXPECT_EQ(label_of(*split.train, 0, 3), 2);
  EXPECT_THAT(split.train->describe(), HasSubstr("4 files in 3 classes, as 8x8"));
}

TEST_F(Images, FindsTheValidationFolder) {
  add("train/cat/1.png", flat(1));
  add("train/dog/1.png", flat(2));
  add("test/dog/1.png", flat(3));
  const DataSplit split = images(folder_, {.size = 8});
  EXPECT_EQ(split.train->size(), 2);
  ASSERT_EQ(split.validation->size(), 1);
  EXPECT_EQ(first_byte(*split.validation, 0), 3);
  EXPECT_EQ(label_of(*split.validation, 0, 0), 1);  // the number that training gives dogs
  EXPECT_EQ(split.validation->spec().classes, 2);
  EXPECT_THAT(error_of<ConfigError>([&] { images(folder_, {.validation_fraction = 0.5}); }),
              HasSubstr("has a validation folder"));
  add("val/dog/1.png", flat(4));
  EXPECT_EQ(first_byte(*images(folder_, {.size = 8}).validation, 0), 4);
  add("val/fox/1.png", flat(5));
  EXPECT_THAT(error(), HasSubstr("val/fox: a class that " + folder_ + "/train does not have"));
}

TEST_F(Images, ATrainedModelFindsItsClassesByName) {
  add("train/cat/1.png", flat(1));
  add("train/dog/1.png", flat(2));
  add("train/fox/1.png", flat(3));
  const Preprocessing trained = images(folder_ + "/train", {.size = 8}).train->preprocessing();
  add("new/val/fox/1.png", flat(4));
  const auto open_new = [&](const std::string& folder, double fraction) {
    return open("images:" + folder_ + "/" + folder,
                {.validation_fraction = fraction, .image_size = 8, .trained = &trained});
  };
  // Where a validation folder is there, it is what is evaluated.
  DataSplit split = open_new("new", 0);
  EXPECT_EQ(split.train, nullptr);
  ASSERT_EQ(split.validation->size(), 1);
  EXPECT_EQ(label_of(*split.validation, 0, 0), 2);
  EXPECT_EQ(split.validation->class_names(), trained.class_names);
  // Otherwise the share that is asked for, up to all.
  split = open_new("train", 1);
  ASSERT_EQ(split.validation->size(), 3);
  EXPECT_EQ(label_of(*split.validation, 0, 1), 1);
  EXPECT_EQ(open_new("train", 0.34).validation->size(), 1);
  EXPECT_EQ(open_new("train", 0).validation, nullptr);
  add("new/val/emu/1.png", flat(5));
  EXPECT_THAT(error_of<DataError>([&] { open_new("new", 0); }), HasSubstr("val/emu"));
}

TEST_F(Images, ATrainedModelsRecordSaysHowImagesAreResizedAndCropped) {
  const std::string file = add("train/cat/1.jpg", photo());
  Preprocessing trained = images(folder_ + "/train", {.size = 8}).train->preprocessing();
  PackOptions as_they_are;
  as_they_are.short_side = 4096;
  pack_images(folder_ + "/train", path("photos.pack"), as_they_are);
  const auto evaluated = [&](const std::string& source, int image_size) {
    return open(source + folder_ + (source == "images:" ? "/train" : "/photos.pack"),
                {.validation_fraction = 1, .image_size = image_size, .trained = &trained})
        .validation;
  };
  // Other short sides than a source's own, and a part that is not a square.
  for (const ImageRecord& rule : {ImageRecord{.width = 8, .height = 8, .short_side = 9},
                                  ImageRecord{.width = 8, .height = 8, .short_side = 8},
                                  ImageRecord{.width = 20, .height = 11, .short_side = 40}}) {
    trained.image = rule;
    trained.samples.input.shape = {rule.height, rule.width, 3};
    ImageReader reader(rule);
    std::vector<std::byte> expected(reader.bytes());
    reader.read(file, expected.data());
    for (const char* source : {"images:", "packed:"})
      for (const int ignored : {8, 224}) {
        const auto data = evaluated(source, ignored);
        std::vector<std::byte> pixels = sample_bytes(*data, 0, 0);  // and the label
        pixels.resize(expected.size());
        EXPECT_EQ(pixels, expected) << source << rule.short_side;
        EXPECT_EQ(data->preprocessing().image, rule);
      }
  }
}

TEST_F(Images, OfAnotherSizeAreAsIfTheyWereOpenedSo) {
  add("train/cat/1.jpg", photo());
  add("val/cat/1.jpg", photo());
  PackOptions as_they_are;
  as_they_are.short_side = 4096;
  pack_images(folder_, path("photos.pack"), as_they_are);
  for (const std::string& source : {"images:" + folder_, "packed:" + path("photos.pack")}) {
    const auto opened = [&](int size) {
      return open(source, {.seed = 3, .image_size = size, .resized_crop = 0.2});
    };
    const DataSplit small = opened(8), large = opened(14);
    for (const auto part : {&DataSplit::train, &DataSplit::validation}) {
      const auto resized = (small.*part)->resized(14);
      EXPECT_EQ(sample_bytes(*resized, 2, 0), sample_bytes(*(large.*part), 2, 0)) << source;
      EXPECT_EQ(resized->fingerprint(), (large.*part)->fingerprint());
      EXPECT_EQ(resized->describe(), (large.*part)->describe());
      EXPECT_EQ(resized->preprocessing().image, (large.*part)->preprocessing().image);
    }
    EXPECT_THAT(error_of<ConfigError>([&] { small.train->resized(4097); }), HasSubstr("4096"));
    // Copies of one sample: random parts of their own, and the middle as it is.
    const auto copy = [&](const Dataset& data, int number) {
      std::vector<std::byte> bytes(data.spec().input.bytes() + sizeof(std::int32_t));
      data.load_copy(2, 0, number, bytes.data(), bytes.data() + data.spec().input.bytes());
      return bytes;
    };
    EXPECT_EQ(copy(*small.train, 0), sample_bytes(*small.train, 2, 0));
    EXPECT_NE(copy(*small.train, 1), copy(*small.train, 0));
    EXPECT_NE(copy(*small.train, 2), copy(*small.train, 1));
    EXPECT_EQ(copy(*small.validation, 1), copy(*small.validation, 0));
    const auto balanced = balanced_classes(small.train, 1);
    EXPECT_EQ(sample_bytes(*balanced->resized(14), 2, 0),
              sample_bytes(*balanced_classes(large.train, 1), 2, 0));
    EXPECT_NE(copy(*balanced, 1), copy(*balanced, 0));
    const auto ignoring = ignore_label(small.train, 0);
    EXPECT_EQ(sample_bytes(*ignoring->resized(14), 2, 0),
              sample_bytes(*ignore_label(large.train, 0), 2, 0));
    EXPECT_NE(copy(*ignoring, 1), copy(*ignoring, 0));
  }
  EXPECT_EQ(resized(ImageRecord{.width = 20, .height = 20, .short_side = 30}, 40),
            (ImageRecord{.width = 40, .height = 40, .short_side = 60}));
  EXPECT_EQ(glyphs(8, 8).train->resized(14), nullptr);
  EXPECT_EQ(ignore_label(glyphs(8, 8).train, 1)->resized(14), nullptr);
}

TEST_F(Images, ASourceThatResizesOtherwiseThanTheRecordIsRefused) {
  add("train/cat/1.png", flat(1));
  const Preprocessing own = images(folder_ + "/train", {.size = 14}).train->preprocessing();
  Preprocessing trained = own;
  EXPECT_NO_THROW(check_agreement(trained, own, "images"));
  trained.image->short_side = 20;
  EXPECT_THAT(error_of<ConfigError>([&] { check_agreement(trained, own, "images"); }),
              HasSubstr("short side of 16"));
  // Images that are samples as they are.
  Preprocessing fixed = own;
  fixed.image->short_side = 14;
  EXPECT_NO_THROW(check_agreement(trained, fixed, "cifar10"));
}

TEST_F(Images, SplitsAFlatFolderBySeed) {
  for (int i = 0; i < 20; ++i) add("c" + std::to_string(i % 2) + "/" + std::to_string(i), flat(i));
  const auto kept = [&](std::uint64_t seed) {
    const DataSplit split = images(folder_, {.size = 8, .seed = seed, .validation_fraction = 0.25});
    std::set<int> train, validation;
    for (int i = 0; i < split.train->size(); ++i) train.insert(first_byte(*split.train, i));
    for (int i = 0; i < split.validation->size(); ++i)
      validation.insert(first_byte(*split.validation, i));
    EXPECT_EQ(train.size(), 15u);
    EXPECT_EQ(validation.size(), 5u);
    train.insert(validation.begin(), validation.end());
    EXPECT_EQ(train.size(), 20u);
    return validation;
  };
  EXPECT_EQ(kept(1), kept(1));
  EXPECT_NE(kept(1), kept(2));
}

TEST_F(Images, KeepsPicturesOfTheRightSize) {
  const test::TestImage image =
      make_test_image(16, 16, 3, [](int x, int y, int c) { return x * 10 + y * 3 + c; });
  add("a/1.png", png_file(image));
  const std::vector<std::byte> bytes = sample_bytes(*images(folder_, {.size = 16}).train, 0, 0);
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    ASSERT_EQ(std::to_integer<int>(bytes[i]), image.pixels[i]);
}

TEST_F(Images, CropsTrainingByEpochAndLeavesValidation) {
  add("train/a/1.jpg", photo());
  add("val/a/1.jpg", photo());
  const ImageOptions options{.size = 32, .resized_crop = 0.08};
  const DataSplit split = images(folder_, options);
  const auto first = sample_bytes(*split.train, 0, 0);
  EXPECT_EQ(first, sample_bytes(*images(folder_, options).train, 0, 0));
  EXPECT_NE(first, sample_bytes(*split.train, 1, 0));
  EXPECT_EQ(sample_bytes(*split.validation, 0, 0), sample_bytes(*split.validation, 1, 0));
  const DataSplit other = images(folder_, {.size = 32, .resized_crop = 0.08, .seed = 2});
  EXPECT_NE(first, sample_bytes(*other.train, 0, 0));
  EXPECT_NE(split.train->fingerprint(), other.train->fingerprint());
  EXPECT_EQ(split.validation->fingerprint(), other.validation->fingerprint());
}

TEST_F(Images, BytesDoNotDependOnWorkers) {
  for (int i = 0; i < 12; ++i) add("a/" + std::to_string(i), photo(i));
  const auto train = images(folder_, {.size = 24, .resized_crop = 0.2}).train;
  const auto all = [&](int workers) {
    std::int64_t at = 0;
    Loader loader(train, {.workers = workers, .slots = 4, .micro_batch = 3}, [&](auto& request) {
      if (at == 24) return false;
      request.epoch = std::uint64_t(at / 12);
      for (int i = 0; i < 3; ++i) request.samples.push_back(at++ % 12);
      return true;
    });
    std::vector<std::byte> bytes;
    for (int i = 0; i < 8; ++i) {
      const LoadedBatch batch = loader.next();
      bytes.insert(bytes.end(), batch.input, batch.input + 3 * 24 * 24 * 3);
    }
    return bytes;
  };
  const auto expected = all(0);
  EXPECT_EQ(all(1), expected);
  EXPECT_EQ(all(3), expected);
  EXPECT_EQ(all(-1), expected);
}

TEST_F(Images, RefusesFoldersThatHoldNoClasses) {
  EXPECT_THAT(error(),
              HasSubstr(folder_ + ": there is no class folder in it | expected DIR/CLASS"));
  add("a.jpg", photo());
  EXPECT_THAT(error(), HasSubstr("there is no class folder in it"));
  fs::create_directories(path("cat"));
  EXPECT_THAT(error(), HasSubstr(folder_ + "/cat: a class folder without files"));
  EXPECT_THAT(error_of<DataError>([&] { images(path("nowhere")); }), HasSubstr("no such folder"));
  EXPECT_THAT(error_of<DataError>([&] { images(path("a.jpg")); }),
              HasSubstr("expected a folder, got a file"));
}

TEST_F(Images, RefusesLinksThatLeadNowhereOrBack) {
  add("cat/1.jpg", photo());
  fs::create_directory_symlink(folder_, path("cat/around"));
  EXPECT_THAT(error(), HasSubstr("cat/around: a symbolic link that leads back to " + folder_));
  fs::remove(path("cat/around"));
  fs::create_symlink("2.jpg", path("cat/2.jpg"));
  EXPECT_THAT(error(), HasSubstr("cat/2.jpg: a symbolic link that leads back to itself"));
  fs::remove(path("cat/2.jpg"));
  fs::create_symlink("gone.jpg", path("cat/3.jpg"));
  EXPECT_THAT(error(), HasSubstr("cat/3.jpg: cannot be read: No such file"));
  fs::remove(path("cat/3.jpg"));
  add("elsewhere/x/1.jpg", photo());
  fs::create_directory_symlink(path("elsewhere/x"), path("cat/more"));
  EXPECT_EQ(error(), "");
}

// A folder that cannot be looked up is not one that is not there: its images would be missing, or
// train/ and val/ be classes.
TEST_F(Images, RefusesPartsThatCannotBeLookedUp) {
  for (const std::string part : {"train", "val"}) {
    for (const std::string other : {"train", "val"})
      if (other != part) add(other + "/cat/1.jpg", photo());
    if (part == "val") add("train/dog/1.jpg", photo());
    fs::create_symlink(part, path(part));
    EXPECT_THAT(error(), HasSubstr("/" + part + ": ")) << part;
    fs::remove_all(path("train"));
    fs::remove_all(path("val"));
  }
}

TEST_F(Images, RefusesPipesWithoutWaiting) {
  add("cat/1.jpg", photo());
  ASSERT_EQ(mkfifo(path("cat/2.jpg").c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("cat/2.jpg: expected a file, got a device or pipe"));
}

TEST_F(Images, NameFilesThatCannotBeOpened) {
  add("cat/1.jpg", photo());
  const DataSplit split = images(folder_, {.size = 8});
  const auto load_error = [&] {
    return error_of<DataError>([&] { sample_bytes(*split.train, 0, 0); });
  };
  fs::remove(path("cat/1.jpg"));
  EXPECT_THAT(load_error(), HasSubstr("cat/1.jpg: cannot be read: No such file"));
  ASSERT_EQ(mkfifo(path("cat/1.jpg").c_str(), 0600), 0);
  EXPECT_THAT(load_error(), HasSubstr("cat/1.jpg: expected a regular file"));
  fs::remove(path("cat/1.jpg"));
  add("cat/1.jpg", photo());
  fs::permissions(path("cat/1.jpg"), fs::perms::none);
  fs::permissions(folder_, fs::perms::all);
  // The superuser may read anything, so it steps down for the attempt.
  const uid_t user = geteuid();
  if (user == 0) {
    ASSERT_EQ(seteuid(65534), 0);
  }
  const std::string message = load_error();
  ASSERT_EQ(seteuid(user), 0);
  EXPECT_THAT(message, HasSubstr("cat/1.jpg: cannot be read: Permission denied"));
}

TEST_F(Images, RefusesOptionsOutOfRange) {
  const auto refused = [&](const ImageOptions& options) {
    return error_of<ConfigError>([&] { images(folder_, options); });
  };
  EXPECT_THAT(refused({.size = 0}), HasSubstr("expected a size of 1 to 4096 pixels, got 0"));
  EXPECT_THAT(refused({.size = 5000}), HasSubstr("got 5000"));
  EXPECT_THAT(refused({.resized_crop = 1.5}), HasSubstr("smallest crop"));
}

class SkippedImages : public Images {
 protected:
  SkippedImages() {
    for (int i = 0; i < 8; ++i) add("a/" + std::to_string(i), flat(10 * i));
    add("a/3", "no image");
    add("a/4", photo().substr(0, 800));
    add("a/7", "");
  }
  /// The first bytes of all samples as a loader gives them, in micro-batches of 2.
  std::vector<int> loaded(int workers, bool skip) {
    const auto train = images(folder_, {.size = 8}).train;
    std::int64_t at = 0;
    Loader loader(train,
                  {.workers = workers, .micro_batch = 2, .skip_bad_samples = skip},
                  [&](LoadRequest& request) {
                    if (at == 8) return false;
                    request.samples = {at, at + 1};
                    at += 2;
                    return true;
                  });
    std::vector<int> bytes;
    for (int i = 0; i < 4; ++i) {
      const LoadedBatch batch = loader.next();
      EXPECT_EQ(batch.samples, 2);
      for (const std::size_t offset : {std::size_t{0}, std::size_t{8 * 8 * 3}})
        bytes.push_back(std::to_integer<int>(batch.input[offset]));
    }
    EXPECT_THAT(loader.skipped_samples(), ElementsAre(3, 4, 7));
    EXPECT_THAT(loader.first_skipped(), HasSubstr("/a/"));
    return bytes;
  }
};

TEST_F(SkippedImages, AreReplacedByTheNextGoodOnesAndCounted) {
  for (const int workers : {0, 1, 3})
    EXPECT_THAT(loaded(workers, true), ElementsAre(0, 10, 20, 50, 50, 50, 60, 0)) << workers;
}

TEST_F(SkippedImages, AreErrorsUnlessAskedFor) {
  EXPECT_THAT(error_of<DataError>([&] { loaded(0, false); }),
              HasSubstr("a/3: expected a JPEG or PNG image"));
}

TEST_F(SkippedImages, AreAnErrorWhereNoneIsGood) {
  for (int i = 0; i < 8; ++i) add("a/" + std::to_string(i), "no image");
  EXPECT_THAT(error_of<DataError>([&] { loaded(1, true); }),
              HasSubstr("8 samples in a row are bad; the first: "));
}

}  // namespace
}  // namespace lockstep::data
