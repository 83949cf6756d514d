// SPDX-License-Identifier: Apache-2.0
// MNIST (Y. LeCun, C. Cortes, C. Burges) and Fashion-MNIST (H. Xiao, K. Rasul, R. Vollgraf, arXiv 1708.07747): 60,000
// and 10,000 pictures of 28 x 28 grey pixels in ten classes, in the same files.
#include "d5/datasets/named.hpp"

namespace d5 {
namespace {

std::vector<PublishedFile> idx_files(const std::string& folder, const std::string& url, const std::string& source,
                                     const std::vector<std::string>& md5,
                                     const std::vector<std::string>& unpacked_md5) {
  const std::vector<std::string> names{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                                       "t10k-labels-idx1-ubyte"};
  std::vector<PublishedFile> files;
  for (size_t i = 0; i < names.size(); ++i) {
    PublishedFile file;
    file.path = folder + "/" + names[i] + ".gz";
    file.checksum = "md5:" + md5[i];
    file.source = source;
    file.contents = "md5:" + unpacked_md5[i];
    file.url = url + names[i] + ".gz";
    file.instead = {folder + "/" + names[i]};
    file.part = i < 2 ? "train" : "test";
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<DataOption> part_option() { return {{"part", "train or test", "train"}}; }

std::shared_ptr<const Dataset> open_idx(const std::string& name, const std::vector<PublishedFile>& files,
                                        const std::string& folder, const Attributes& options) {
  const std::string part = options.text("part", "train");
  if (part != "train" && part != "test") throw UsageError("[{}] part is '{}'; legal: train, test", name, part);
  const size_t first = part == "train" ? 0 : 2;
  const std::string images = find_published(folder, files[first], name),
                    labels = find_published(folder, files[first + 1], name);
  return open_container("idx", images, {{"labels", labels}, {"classes", int64_t{10}}});
}

struct Mnist {
  static constexpr const char* about = "MNIST: handwritten digits, 28 x 28, CC BY-SA 3.0";
  static std::vector<DataOption> options() { return part_option(); }
  static std::vector<PublishedFile> files() {
    return idx_files("mnist", "https://ossci-datasets.s3.amazonaws.com/mnist/", "torchvision, datasets/mnist.py",
                     {"f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                      "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"},
                     {"6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624",
                      "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"});
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes& options) {
    return open_idx("mnist", files(), folder, options);
  }
};

struct FashionMnist {
  static constexpr const char* about = "Fashion-MNIST: Zalando's articles, 28 x 28, MIT";
  static std::vector<DataOption> options() { return part_option(); }
  static std::vector<PublishedFile> files() {
    return idx_files("fashion-mnist",
                     "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
                     "README of zalandoresearch/fashion-mnist",
                     {"8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
                      "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"},
                     {"f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9",
                      "8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965"});
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes& options) {
    return open_idx("fashion-mnist", files(), folder, options);
  }
};

}  // namespace

D5_REGISTER(datasets, "mnist", Mnist);
D5_REGISTER(datasets, "fashion-mnist", FashionMnist);

}  // namespace d5
