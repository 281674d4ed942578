// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "lockstep/data/sources.h"
#include "lockstep/error.h"
#include "tests/data/data_fixture.h"

namespace lockstep::data {
namespace {

using testing::HasSubstr;

class Open : public DataFixture {
 protected:
  static std::string error(const std::string& source, double fraction = 0.0) {
    return error_of<ConfigError>([&] { open(source, {.validation_fraction = fraction}); });
  }
};

TEST_F(Open, GlyphsAreTheSameForEverySeed) {
  const DataSplit split = open("glyphs", {.seed = 5});
  EXPECT_EQ(split.train->size(), 60000);
  EXPECT_EQ(split.validation->size(), 10000);
  EXPECT_EQ(split.train->fingerprint(), glyphs().train->fingerprint());
  EXPECT_THAT(split.train->describe(), HasSubstr("glyphs, 60000 drawn images of 28x28x1"));
}

TEST_F(Open, CsvSplitsAsAsked) {
  const std::string file = write("t.csv", "a,k\n1,x\n2,y\n3,x\n4,y\n");
  EXPECT_EQ(open("csv:" + file).validation, nullptr);
  const DataSplit split = open("csv:" + file, {.validation_fraction = 0.25});
  EXPECT_EQ(split.train->size(), 3);
  EXPECT_EQ(split.validation->size(), 1);
  EXPECT_THAT(split.train->describe(), HasSubstr("3 samples of 1 features in 2 classes"));
}

TEST_F(Open, OffersTheNearestKind) {
  EXPECT_THAT(error("glyph"), HasSubstr("got 'glyph' | did you mean 'glyphs'?"));
  EXPECT_THAT(error("mnsit:dir"), HasSubstr("did you mean 'mnist'?"));
  EXPECT_THAT(
      error("imagenet"),
      HasSubstr("expected glyphs, csv:FILE, mnist:DIR, cifar10:DIR, images:DIR, "
                "packed:FILE, webdataset:PATH, numpy:PATH, text:FILE, tokens:PATH or synthetic"));
  EXPECT_THAT(error("/data/iris.csv"), HasSubstr("expected glyphs, csv:FILE, mnist:DIR"));
  EXPECT_THAT(error(""), HasSubstr("got ''"));
}

TEST_F(Open, EveryKindThatIsListedIsKnown) {
  EXPECT_EQ(source_kinds().size(), 11u);
  for (const SourceKind& kind : source_kinds()) {
    const std::string name(kind.name);
    if (kind.takes_path()) {
      EXPECT_THAT(error(name), HasSubstr("expected " + form_of(kind) + ", got no path"));
    } else {
      EXPECT_NE(open(name).train, nullptr) << name;
    }
  }
}

TEST_F(Open, RefusesWhatDoesNotFitTheKind) {
  EXPECT_THAT(error("glyphs:10"), HasSubstr("glyphs takes nothing after it"));
  EXPECT_THAT(error("csv"), HasSubstr("expected csv:FILE, got no path"));
  EXPECT_THAT(error("mnist:"), HasSubstr("expected mnist:DIR, got no path"));
  EXPECT_THAT(error("glyphs", 0.1), HasSubstr("glyphs has its own validation part"));
  EXPECT_THAT(error("mnist:x", 0.1), HasSubstr("mnist has its own validation part"));
}

}  // namespace
}  // namespace lockstep::data
