// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/pack.h"

#include <filesystem>
#include <fmt/format.h>

#include "core/data/images/pack_format.h"
#include "core/data/input_file.h"
#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"
#include "tests/support/image_files.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using test::jpeg_file;
using test::photo_like;
using testing::HasSubstr;

class Pack : public DataFixture {
 protected:
  Pack() {
    for (int i = 0; i < 6; ++i)
      add(fmt::format("images/train/{}/{}.jpg", i % 2 == 0 ? "cat" : "dog", i), 120, 90, i);
    add("images/val/dog/1.jpg", 90, 120, 9);
  }
  void add(const std::string& name, int width, int height, int number) {
    fs::create_directories(fs::path(path(name)).parent_path());
    write(name, jpeg_file(photo_like(width, height, std::uint64_t(number))));
  }
  PackReport pack(const PackOptions& options = {}) {
    return pack_images(path("images"), path("out.pack"), options);
  }
  std::string content() const {
    std::vector<std::byte> buffer;
    const auto bytes = read_bytes(path("out.pack"), buffer, "");
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  /// The sums that fit the rest of a file.
  static void put_right(PackHeader& header,
                        const std::string& file,
                        std::size_t names,
                        std::size_t index) {
    const auto sum = [&](const void* data, std::size_t bytes, std::uint64_t seed = 0) {
      return pack_sum(header.version, data, bytes, seed);
    };
    header.index_hash =
        sum(file.data() + index, file.size() - index, sum(file.data() + sizeof header, names));
    header.header_hash = sum(&header, offsetof(PackHeader, header_hash));
  }
  /// The packed file as an older Lockstep wrote it.
  std::string of_version(std::uint32_t version) const {
    std::string file = content();
    PackHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    header.version = version;
    std::string index;
    for (std::size_t at = header.index_offset; at < file.size(); at += sizeof(PackEntry)) {
      PackEntry entry;
      std::memcpy(&entry, file.data() + at, sizeof entry);
      entry.hash = pack_sum(version, file.data() + entry.offset, entry.bytes);
      index.append(reinterpret_cast<const char*>(&entry),
                   version == 1 ? kFirstEntryBytes : sizeof entry);
    }
    file = file.substr(0, header.index_offset) + index;
    header.file_bytes = file.size();
    put_right(header, file, header.names_bytes, header.index_offset);
    std::memcpy(file.data(), &header, sizeof header);
    return file;
  }
  /// What opening says about the file with `change` made to it and, where asked for, honest sums.
  template <class Change>
  std::string error(Change&& change, bool sums = true) {
    std::string file = content();
    PackHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    change(header, file);
    if (sums) {
      const std::size_t names = std::min(header.names_bytes, file.size() - sizeof header);
      const std::size_t index = std::min(header.index_offset, file.size());
      put_right(header, file, names, index);
    }
    std::memcpy(file.data(), &header, std::min(sizeof header, file.size()));
    const std::string name = write("changed.pack", file);
    return error_of<DataError>([&] { packed(name); });
  }
};

TEST_F(Pack, HoldsBothPartsWithTheirLabels) {
  const PackReport report = pack();
  EXPECT_EQ(report.train_samples, 6);
  EXPECT_EQ(report.validation_samples, 1);
  EXPECT_EQ(report.bytes, fs::file_size(path("out.pack")));
  const DataSplit folder = images(path("images"), {.size = 24}),
                  file = packed(path("out.pack"), {.size = 24});
  ASSERT_EQ(file.train->size(), 6);
  ASSERT_EQ(file.validation->size(), 1);
  EXPECT_EQ(file.train->spec().classes, 2);
  EXPECT_THAT(file.train->class_names(), testing::ElementsAre("cat", "dog"));
  EXPECT_EQ(file.validation->class_names(), folder.validation->class_names());
  EXPECT_THAT(file.train->describe(), HasSubstr("6 images in 2 classes, as 24x24"));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(label_of(*file.train, 0, i), label_of(*folder.train, 0, i));
  EXPECT_EQ(label_of(*file.validation, 0, 0), 1);
}

// Images that need no shrinking are packed as they are: the same bytes come out.
TEST_F(Pack, GivesTheSamplesOfTheFolder) {
  pack();
  for (const double crop : {0.0, 0.3}) {
    const ImageOptions options{.size = 80, .resized_crop = crop};
    const DataSplit folder = images(path("images"), options),
                    file = packed(path("out.pack"), options);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(sample_bytes(*file.train, 2, i), sample_bytes(*folder.train, 2, i));
    EXPECT_EQ(sample_bytes(*file.validation, 0, 0), sample_bytes(*folder.validation, 0, 0));
  }
}

TEST_F(Pack, ShrinksToTheShortSide) {
  pack({.short_side = 45});
  PackEntry first{}, last{};
  const std::string file = content();
  std::memcpy(&last, file.data() + file.size() - sizeof last, sizeof last);
  std::memcpy(&first, file.data() + file.size() - 7 * sizeof first, sizeof first);
  EXPECT_EQ(first.height, 45u);
  EXPECT_EQ(first.width, 60u);
  EXPECT_EQ(last.height, 60u);
  EXPECT_EQ(last.width, 45u);
  EXPECT_EQ(last.bytes, 60u * 45 * 3);
}

TEST_F(Pack, IsTheSameFileForAnyNumberOfThreads) {
  pack();
  const std::string one = content();
  pack({.threads = 3});
  EXPECT_EQ(content(), one);
  EXPECT_EQ(packed(path("out.pack")).train->fingerprint(),
            packed(path("out.pack")).train->fingerprint());
  const std::uint64_t before = packed(path("out.pack")).train->fingerprint();
  add("images/train/cat/0.jpg", 120, 90, 77);
  pack();
  EXPECT_NE(packed(path("out.pack")).train->fingerprint(), before);
}

TEST_F(Pack, LeavesNothingBehindOnAnError) {
  pack();
  const std::string before = content();
  write("images/train/cat/0.jpg", "no image");
  EXPECT_THAT(error_of<DataError>([&] { pack(); }), HasSubstr("cat/0.jpg: expected a JPEG or PNG"));
  EXPECT_EQ(content(), before);
  EXPECT_THAT(error_of<EnvironmentError>([&] { pack_images(path("images"), path("no/out"), {}); }),
              HasSubstr("cannot create " + path("no/out") + ": No such file or directory"));
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) files += entry.is_regular_file();
  EXPECT_EQ(files, 1);
}

TEST_F(Pack, LeavesOutBadSamplesWhereAsked) {
  write("images/train/cat/0.jpg", "no image");
  write("images/train/dog/3.jpg", "");
  const PackReport report = pack({.skip_bad_samples = true});
  EXPECT_EQ(report.train_samples, 4);
  EXPECT_EQ(report.skipped, 2);
  EXPECT_THAT(report.first_skipped, HasSubstr("cat/0.jpg"));
  EXPECT_EQ(packed(path("out.pack")).train->size(), 4);
  write("images/val/dog/1.jpg", "");
  EXPECT_THAT(error_of<DataError>([&] { pack({.skip_bad_samples = true}); }),
              HasSubstr("images/val: not one of the files could be decoded"));
}

TEST_F(Pack, RefusesFilesThatAreNoPack) {
  pack();
  const auto refused = [&](const std::string& text) {
    const std::string name = write("other", text);
    return error_of<DataError>([&] { packed(name); });
  };
  EXPECT_THAT(refused(""), HasSubstr("other: byte 0: the file is empty"));
  EXPECT_THAT(refused(content().substr(0, 50)), HasSubstr("byte 50: the file ends within"));
  EXPECT_THAT(refused(std::string(200, 'x')), HasSubstr("byte 0: expected the signature LOCKPACK"));
  EXPECT_THAT(refused(content().substr(0, content().size() - 1)), HasSubstr("as the header says"));
  EXPECT_THAT(refused(content() + "x"), HasSubstr("as the header says, got"));
  EXPECT_THAT(error_of<DataError>([&] { packed(path("nowhere")); }), HasSubstr("no such file"));
}

TEST_F(Pack, RefusesHeadersThatLie) {
  pack();
  constexpr std::uint64_t kHuge = ~std::uint64_t{0};
  EXPECT_EQ(error([](PackHeader&, std::string&) {}), "");
  EXPECT_THAT(error([](PackHeader& h, std::string&) { h.version = 4; }),
              HasSubstr("changed.pack: byte 8: expected version 3 or less, got 4"));
  EXPECT_THAT(error([](PackHeader& h, std::string&) { h.classes = 9; }, false),
              HasSubstr("byte 80: the header is damaged"));
  EXPECT_THAT(error([](PackHeader& h, std::string&) { h.classes = 9; }),
              HasSubstr("expected 9 class names, got 2"));
  EXPECT_THAT(error([](PackHeader& h, std::string&) { h.file_bytes += 1; }),
              HasSubstr("as the header says"));
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{5}, std::uint64_t{7}, kHuge})
    EXPECT_THAT(error([&](PackHeader& h, std::string&) { h.train_samples = value; }),
                HasSubstr("do not fit an index"));
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{2}, kHuge})
    EXPECT_THAT(error([&](PackHeader& h, std::string&) { h.validation_samples = value; }),
                HasSubstr("do not fit an index"));
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1000000}, kHuge})
    EXPECT_THAT(error([&](PackHeader& h, std::string&) { h.index_offset = value; }),
                HasSubstr("changed.pack: byte "));
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{3}, kHuge})
    EXPECT_THAT(error([&](PackHeader& h, std::string&) { h.names_bytes = value; }),
                HasSubstr("changed.pack: byte "));
}

TEST_F(Pack, RefusesEntriesThatLie) {
  pack();
  const auto entry_error = [&](auto change, bool sums = true) {
    return error(
        [&](PackHeader& header, std::string& file) {
          PackEntry entry;
          char* at = file.data() + header.index_offset + 2 * sizeof entry;
          std::memcpy(&entry, at, sizeof entry);
          change(entry);
          std::memcpy(at, &entry, sizeof entry);
        },
        sums);
  };
  EXPECT_THAT(entry_error([](PackEntry& e) { e.label = 1; }, false), HasSubstr("index is damaged"));
  EXPECT_THAT(entry_error([](PackEntry& e) { e.label = 2; }), HasSubstr("sample 2: "));
  EXPECT_THAT(entry_error([](PackEntry& e) { e.bytes += 3; }), HasSubstr("sample 2: "));
  EXPECT_THAT(entry_error([](PackEntry& e) { e.width = 0; }), HasSubstr("sample 2: "));
  EXPECT_THAT(entry_error([](PackEntry& e) { e.height = e.width = 0xffffffff; }),
              HasSubstr("sample 2: 4294967295x4294967295"));
  EXPECT_THAT(entry_error([](PackEntry& e) { e.offset = 3; }), HasSubstr("sample 2: "));
  EXPECT_THAT(entry_error([](PackEntry& e) { e.offset = ~std::uint64_t{0} - 10; }),
              HasSubstr("sample 2: "));
}

// Pixels are not checked when the file is opened; all that says where they lie is.
TEST_F(Pack, NoticesEveryDamagedByteAroundThePixels) {
  pack();
  const std::string good = content();
  PackHeader header;
  std::memcpy(&header, good.data(), sizeof header);
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (i == sizeof header + header.names_bytes) i = header.index_offset;
    std::string file = good;
    file[i] = char(file[i] ^ 0x10);
    const std::string name = write("changed.pack", file);
    ASSERT_THAT(error_of<DataError>([&] { packed(name); }), HasSubstr("changed.pack: byte ")) << i;
  }
}

TEST_F(Pack, NoticesADamagedPixelWhenItIsRead) {
  pack();
  std::string file = content();
  PackHeader header;
  std::memcpy(&header, file.data(), sizeof header);
  const std::size_t at = sizeof header + header.names_bytes + 7;
  file[at] = char(file[at] ^ 1);
  const DataSplit split = packed(write("rotten.pack", file), {.size = 24});
  EXPECT_THAT(error_of<DataError>([&] { sample_bytes(*split.train, 0, 0); }),
              AllOf(HasSubstr("rotten.pack: byte "), HasSubstr("sample 0")));
  EXPECT_NO_THROW(sample_bytes(*split.train, 0, 1)) << "the others are whole";
}

TEST_F(Pack, ReadsFilesOfOlderVersions) {
  pack();
  const DataSplit now = packed(path("out.pack"), {.size = 24});
  EXPECT_TRUE(now.train->content_sample(1).empty()) << "it is checked as it is read";
  for (const std::uint32_t version : {1u, 2u}) {
    const DataSplit old = packed(write("old.pack", of_version(version)), {.size = 24});
    ASSERT_EQ(old.train->size(), 6);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(sample_bytes(*old.train, 0, i), sample_bytes(*now.train, 0, i));
    EXPECT_EQ(old.train->content_sample(1).empty(), version == 2) << "version 1 has no sums";
  }
}

// The sums of version 2 stay where the highest bits of bytes 7, 11 and 15 flip together.
TEST_F(Pack, NoticesThreeBitsThatTheSecondVersionMisses) {
  pack();
  const auto error_of_flipped = [&](std::string file) {
    PackHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    const std::size_t pixels = sizeof header + header.names_bytes;
    for (const std::size_t at : {7u, 11u, 15u}) file[pixels + at] = char(file[pixels + at] ^ 0x80);
    const DataSplit split = packed(write("rotten.pack", file), {.size = 24});
    return error_of<DataError>([&] { sample_bytes(*split.train, 0, 0); });
  };
  EXPECT_EQ(error_of_flipped(of_version(2)), "");
  EXPECT_THAT(error_of_flipped(content()), HasSubstr("sample 0 are damaged"));
}

TEST_F(Pack, SplitsWhereThereIsNoValidationPart) {
  fs::remove_all(path("images/val"));
  pack();
  const DataSplit split = packed(path("out.pack"), {.validation_fraction = 0.5});
  EXPECT_EQ(split.train->size(), 3);
  EXPECT_EQ(split.validation->size(), 3);
  EXPECT_EQ(packed(path("out.pack")).validation, nullptr);
}

}  // namespace
}  // namespace lockstep::data
