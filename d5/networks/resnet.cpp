// SPDX-License-Identifier: Apache-2.0
// Residual networks for large images (He, Zhang, Ren and Sun, 2016): ResNet-18, -34 of two 3x3 in a block and
// ResNet-50, -101, -152 of 1x1, 3x3, 1x1 ("bottleneck"). Where a bottleneck halves the image, its 3x3 has the stride
// ("v1.5", as torchvision and MLPerf have it); the paper has it in the first 1x1: stride_in_1x1. Shortcuts that change
// the shape are projections (option B).
#include "d5/networks/resnet.hpp"

#include "d5/networks/network.hpp"

namespace d5 {
namespace {

class Stages {
 public:
  Stages(Builder& b, const ResNetShape& shape) : b_(b), shape_(shape) {}

  Edge unit(const std::string& conv, const std::string& norm, const Edge& x, Index maps, Index kernel,
            Index stride = 1) {
    return b_.batch_norm(norm, b_.conv(conv, x, maps, kernel,
                                       {.stride = stride,
                                        .pad = kernel / 2 * (kernel > 1 ? dilation_ : 1),
                                        .dilation = kernel > 1 ? dilation_ : 1,
                                        .bias = false,
                                        .initialiser = "he-out"}));
  }

  Edge block(const std::string& name, const Edge& x, Index maps, Index stride) {
    const auto active = [&](const char* number, const Edge& y) { return b_.relu(name + ".relu" + number, y); };
    const Index wide = shape_.bottleneck ? 4 * maps : maps;
    Edge y = x;
    if (shape_.bottleneck) {
      const bool early = shape_.stride_in_first;
      y = active("1", unit(name + ".conv1", name + ".bn1", y, maps, 1, early ? stride : 1));
      y = active("2", unit(name + ".conv2", name + ".bn2", y, maps, 3, early ? 1 : stride));
      y = unit(name + ".conv3", name + ".bn3", y, wide, 1);
    } else {
      y = active("1", unit(name + ".conv1", name + ".bn1", y, maps, 3, stride));
      y = unit(name + ".conv2", name + ".bn2", y, maps, 3);
    }
    const bool same = stride == 1 && x.channels() == wide;
    const Edge shortcut = same ? x : unit(name + ".downsample.0", name + ".downsample.1", x, wide, 1, stride);
    return active("", b_.add(name + ".add", y, shortcut));
  }

  Edge stage(int number, Edge x, Index maps) {
    const bool halves = number > 1, dilated = number >= shape_.first_dilated;
    for (int i = 0; i < shape_.blocks[static_cast<size_t>(number - 1)]; ++i) {
      x = block(fmt::format("layer{}.{}", number, i), x, maps, i == 0 && halves && !dilated ? 2 : 1);
      if (i == 0 && halves && dilated) dilation_ *= 2;
    }
    return x;
  }

 private:
  Builder& b_;
  const ResNetShape& shape_;
  Index dilation_ = 1;
};

template <int depth>
struct ResNet {
  static constexpr const char* about = depth >= 50 ? "He et al. 2016; bottlenecks with the stride in the 3x3 (v1.5)"
                                                   : "He et al. 2016; two 3x3 in a block";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    std::vector<Parameter> all{{"classes", "outputs", 1000},
                               {"size", "height and width of an image", 224},
                               {"width", "maps of the first stage", 64}};
    if (depth >= 50) all.push_back({"stride_in_1x1", "the paper's form of a bottleneck", false});
    return all;
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0);
    Builder b(fmt::format("resnet-{}", depth), batch, dtype);
    const Edge image = b.input("image", {3, size, size});
    const auto stages = resnet_stages(b, image,
                                      {.blocks = blocks(),
                                       .bottleneck = depth >= 50,
                                       .width = v.integer("width", 0),
                                       .stride_in_first = v.flag("stride_in_1x1", false)});
    const Edge x = b.global_average_pool("avgpool", stages.back());
    return b.finish({{"scores", b.linear("fc", x, v.integer("classes", 0), "lecun")}});
  }

 private:
  static std::array<int, 4> blocks() {
    switch (depth) {
      case 18: return {2, 2, 2, 2};
      case 101: return {3, 4, 23, 3};
      case 152: return {3, 8, 36, 3};
      default: return {3, 4, 6, 3};  // 34, 50
    }
  }
};

}  // namespace

std::array<Edge, 4> resnet_stages(Builder& b, const Edge& image, const ResNetShape& shape) {
  Stages stages(b, shape);
  Edge x = b.conv("conv1", image, shape.width, 7, {.stride = 2, .pad = 3, .bias = false, .initialiser = "he-out"});
  x = b.max_pool("maxpool", b.relu("relu", b.batch_norm("bn1", x)), 3, {.stride = 2, .pad = 1});
  std::array<Edge, 4> all;
  for (int number = 1; number <= 4; ++number)
    x = all[static_cast<size_t>(number - 1)] = stages.stage(number, x, shape.width << (number - 1));
  return all;
}

D5_REGISTER(networks, "resnet-18", ResNet<18>);
D5_REGISTER(networks, "resnet-34", ResNet<34>);
D5_REGISTER(networks, "resnet-50", ResNet<50>);
D5_REGISTER(networks, "resnet-101", ResNet<101>);
D5_REGISTER(networks, "resnet-152", ResNet<152>);
}  // namespace d5
