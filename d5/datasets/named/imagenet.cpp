// SPDX-License-Identifier: Apache-2.0
// ImageNet, the ILSVRC-2012 classification set (O. Russakovsky et al., arXiv 1409.0575): 1,281,167 and 50,000 JPEGs in
// 1000 classes, in one of three layouts under imagenet/ of the data folder:
//   folder    train/n01440764/*.JPEG, val/n01440764/*.JPEG
//   tar       train*.tar, val*.tar: WebDataset shards, or one archive of such folders
//   tfrecord  train-00000-of-01024 ..., validation-00000-of-00128 ...: labels 1 to 1000
#include <filesystem>

#include "d5/datasets/named/pictures.hpp"

namespace d5 {
namespace {

struct ImageNet {
  static constexpr const char* about = "ImageNet, ILSVRC-2012: a thousand classes of photographs, for research";
  static std::vector<DataOption> options() {
    std::vector<DataOption> all{{"part", "train or val", "train"}, {"layout", "auto, folder, tar or tfrecord", "auto"}};
    for (DataOption& option : picture_options()) all.push_back(std::move(option));
    return all;
  }
  static std::vector<PublishedFile> files() {
    std::vector<PublishedFile> files(2);
    const char* const how =
        "Register at https://image-net.org/download.php, fetch it and unpack it into imagenet/{}/CLASS/*.JPEG, or make "
        "shards of it: imagenet/{}*.tar (WebDataset) or imagenet/{}-*-of-* (TFRecord).";
    const std::vector<std::pair<std::string, std::string>> sums{{"train", "1d675b47d978889d74fa0da5fadfb00e"},
                                                                {"val", "29b22e2961454d5413ddabcf34fc5622"}};
    for (size_t i = 0; i < 2; ++i) {
      const std::string& part = sums[i].first;
      files[i].path = "imagenet/ILSVRC2012_img_" + part + ".tar";
      files[i].checksum = "md5:" + sums[i].second;
      files[i].source = "torchvision, datasets/imagenet.py";
      files[i].how = fmt::format(fmt::runtime(how), part, part, part == "val" ? "validation" : part);
      files[i].instead = {"imagenet/" + part, "imagenet/" + tar_shards(part), "imagenet/" + record_shards(part)};
      files[i].part = part;
    }
    return files;
  }
  static std::shared_ptr<const Dataset> open(const std::string& folder, const Attributes& options) {
    const std::string part = options.text("part", "train"), layout = options.text("layout", "auto");
    if (part != "train" && part != "val") throw UsageError("[imagenet] part is '{}'; legal: train, val", part);
    const std::string root = folder + "/imagenet/";
    const auto wants = [&](const char* name) { return layout == name || layout == "auto"; };
    if (layout != "auto" && layout != "folder" && layout != "tar" && layout != "tfrecord")
      throw UsageError("[imagenet] layout is '{}'; legal: auto, folder, tar, tfrecord", layout);
    std::shared_ptr<const Dataset> found;
    if (wants("folder") && std::filesystem::is_directory(root + part)) found = open_container("folder", root + part);
    if (!found && wants("tar") && any_file(root + tar_shards(part)))
      found = open_container("tar", root + tar_shards(part), {{"classes", int64_t{1000}}});
    const std::string records = root + record_shards(part);
    if (!found && wants("tfrecord") && any_file(records))
      found = open_container("tfrecord", records, {{"first-class", int64_t{1}}, {"classes", int64_t{1000}}});
    if (!found) {
      PublishedFile file = files()[part == "train" ? 0 : 1];
      file.instead.clear();
      file.path += " (or its layouts)";
      find_published(folder, file, "imagenet");
    }
    return with_pictures(std::move(found), options, "imagenet");
  }

 private:
  static std::string tar_shards(const std::string& part) { return part + "*.tar"; }
  static std::string record_shards(const std::string& part) {
    return (part == "val" ? "validation" : part) + "-*-of-*[0-9]";
  }
};

}  // namespace

D5_REGISTER(datasets, "imagenet", ImageNet);

}  // namespace d5
