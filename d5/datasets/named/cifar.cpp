// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 and CIFAR-100 (A. Krizhevsky, 2009), binary version: 50,000 and 10,000 colour pictures of 32 x 32.
#include "d5/datasets/named.hpp"

namespace d5 {
namespace {

std::vector<DataOption> part_option() { return {{"part", "train or test", "train"}}; }
const char* const page = "https://www.cs.toronto.edu/~kriz/cifar.html";

struct Cifar10 {
  static constexpr const char* about = "CIFAR-10: ten classes, 32 x 32 in colour, for research";
  static std::vector<DataOption> options() { return part_option(); }
  static std::vector<PublishedFile> files() {
    PublishedFile archive;
    archive.path = "cifar10/cifar-10-binary.tar.gz";
    archive.checksum = "md5:c32a1d4ab5d03f1284b67883e8d87530";
    archive.source = page;
    archive.url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
    archive.instead = {"cifar10/cifar-10-batches-bin", "cifar10/cifar-10-batches-bin.tar.xz", "cifar-10-batches-bin"};
    archive.members_source = "rai-project/dldataset, vision";
    archive.members = {{"data_batch_1.bin", "md5:5dd7e06a14cb22eb9f671a540d1b7c25"},
                       {"data_batch_2.bin", "md5:5ea93a67294ea407fff1d09f752e9692"},
                       {"data_batch_3.bin", "md5:942cd6a4bcdd0dd3c604fbe906cb4421"},
                       {"data_batch_4.bin", "md5:ae636b3ba5c66a11e91e8cb52e771fcb"},
                       {"data_batch_5.bin", "md5:53f37980c15c3d472c316c40844f3f0d"},
                       {"test_batch.bin", "md5:803d5f7f4d78ea53de84dbe85f74fb6d"}};
    return {archive};
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes& options) {
    Attributes all = options;
    all.set("classes", int64_t{10});
    return open_container("cifar", find_published(folder, files()[0], "cifar-10"), all);
  }
};

struct Cifar100 {
  static constexpr const char* about = "CIFAR-100: a hundred classes in twenty, 32 x 32 in colour, for research";
  static std::vector<DataOption> options() { return part_option(); }
  static std::vector<PublishedFile> files() {
    PublishedFile archive;
    archive.path = "cifar100/cifar-100-binary.tar.gz";
    archive.checksum = "md5:03b5dce01913d631647c71ecec9e9cb8";
    archive.source = page;
    archive.url = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz";
    archive.instead = {"cifar100/cifar-100-binary", "cifar-100-binary"};
    archive.members_source = "rai-project/dldataset, vision";
    archive.members = {{"train.bin", "md5:6172c7755cfe09b2fe270c85cebc1b15"},
                       {"test.bin", "md5:4499cfba6c016c1be1438163640a0898"}};
    return {archive};
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes& options) {
    Attributes all = options;
    all.set("classes", int64_t{100});
    return open_container("cifar", find_published(folder, files()[0], "cifar-100"), all);
  }
};

}  // namespace

D5_REGISTER(datasets, "cifar-10", Cifar10);
D5_REGISTER(datasets, "cifar-100", Cifar100);

}  // namespace d5
