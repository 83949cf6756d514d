// SPDX-License-Identifier: Apache-2.0
// Caltech-101 (L. Fei-Fei, R. Fergus, P. Perona, 2004): photographs of 101 kinds of things and a background, a folder
// each.
#include "d5/datasets/named/pictures.hpp"

namespace d5 {
namespace {

struct Caltech101 {
  static constexpr const char* about = "Caltech-101, or part of it: photographs in 102 folders, CC BY 4.0";
  static std::vector<DataOption> options() { return picture_options(); }
  static std::vector<PublishedFile> files() {
    PublishedFile file;
    file.path = "caltech101/101_ObjectCategories";
    file.how =
        "Fetch caltech-101.zip from https://data.caltech.edu/records/mzrjq-6wc02 and unpack "
        "101_ObjectCategories.tar.gz "
        "of it (md5:b224c7392d521a49829488ab0f1120d9, torchvision, datasets/caltech.py) there.";
    file.instead = {"jpegs/caltech101-3perclass"};
    return {file};
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes& options) {
    return with_pictures(open_container("folder", find_published(folder, files()[0], "caltech-101")), options,
                         "caltech-101");
  }
};

}  // namespace

D5_REGISTER(datasets, "caltech-101", Caltech101);

}  // namespace d5
