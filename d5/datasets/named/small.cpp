// SPDX-License-Identifier: Apache-2.0
// Sets of one small file: UCI's digits (E. Alpaydin, C. Kaynak, 1998; 1797 of 8 x 8 pixels, 0 to 16), tiny Shakespeare
// (A. Karpathy), names (A. Karpathy, makemore), the strain of LIGO Hanford around GW150914 (32 s at 4096 Hz; Phys. Rev.
// Lett. 116, 061102).
#include "d5/datasets/named.hpp"

namespace d5 {
namespace {

const char* const tested_with = "of the file that deep500 was tested with; none was published";

PublishedFile one_file(const char* path, const char* checksum, const char* source, const char* url) {
  PublishedFile file;
  file.path = path;
  file.checksum = checksum;
  file.source = source;
  file.url = url;
  return file;
}

struct Digits {
  static constexpr const char* about = "UCI optical digits: 1797 of 8 x 8 pixels (0 to 16), CC BY 4.0";
  static std::vector<DataOption> options() { return {}; }
  static std::vector<PublishedFile> files() {
    return {one_file(
        "digits/digits.csv.gz", "md5:9b335364a7bfd63947c7480a5bd51f2d", tested_with,
        "https://raw.githubusercontent.com/scikit-learn/scikit-learn/main/sklearn/datasets/data/digits.csv.gz")};
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes&) {
    return open_container("csv", find_published(folder, files()[0], "digits"),
                          {{"label", "last"}, {"shape", "1x8x8"}, {"classes", int64_t{10}}});
  }
};

struct TinyText {
  static constexpr const char* about = "tiny Shakespeare: 1,115,394 bytes of plays, public domain";
  static std::vector<DataOption> options() {
    return {{"window", "Bytes of a sample", 128}, {"stride", "Bytes from one sample to the next; 0: the window", 0}};
  }
  static std::vector<PublishedFile> files() {
    return {one_file("text/tinyshakespeare-input.txt", "md5:6fb458f1232090904fb40fe944165e91", tested_with,
                     "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt")};
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes& options) {
    return open_container("text", find_published(folder, files()[0], "tiny-text"), options);
  }
};

struct Names {
  static constexpr const char* about = "32,033 given names, a line each, MIT";
  static std::vector<DataOption> options() { return {}; }
  static std::vector<PublishedFile> files() {
    return {one_file("text/makemore-names.txt", "md5:401b3c4cac9e28a586ed15e81256680d", tested_with,
                     "https://raw.githubusercontent.com/karpathy/makemore/master/names.txt")};
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes&) {
    return open_container("text", find_published(folder, files()[0], "names"), {{"unit", "lines"}});
  }
};

struct Ligo {
  static constexpr const char* about = "LIGO Hanford's strain around GW150914: windows of 131,072 values, CC BY 4.0";
  static std::vector<DataOption> options() {
    return {{"window", "Values of a sample (4096 are a second)", 4096},
            {"stride", "From one to the next; 0: the window", 0}};
  }
  static std::vector<PublishedFile> files() {
    return {one_file("science/H-H1_LOSC_4_V2-1126259446-32.hdf5", "", "",
                     "https://losc.ligo.org/s/events/GW150914/H-H1_LOSC_4_V2-1126259446-32.hdf5")};
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes& options) {
    Attributes all = options;
    all.set("arrays", "strain/Strain");
    return open_container("hdf5", find_published(folder, files()[0], "ligo"), all);
  }
};

}  // namespace

D5_REGISTER(datasets, "digits", Digits);
D5_REGISTER(datasets, "tiny-text", TinyText);
D5_REGISTER(datasets, "names", Names);
D5_REGISTER(datasets, "ligo", Ligo);

}  // namespace d5
