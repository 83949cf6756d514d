// SPDX-License-Identifier: Apache-2.0
// Inception-v3 (Szegedy et al., 2016): modules of parallel towers, 7x7 made of 1x7 and 7x1, images of 299. With
// `auxiliary` a second classifier after the 17x17 modules helps training (loss.hpp).
#include "d5/networks/builder.hpp"
#include "d5/networks/network.hpp"

namespace d5 {
namespace {

// The modules, named as in torchvision: A at 35x35, C at 17x17, E at 8x8; B and D halve the image.
class Modules {
 public:
  Modules(Builder& b, Index divide) : b_(b), divide_(divide) {}

  Edge unit(const std::string& name, const Edge& x, Index maps, const Extent& kernel, const Extent& stride = 1,
            const Extent& pad = 0) {
    const Edge y = b_.conv(name + ".conv", x, maps / divide_, kernel, {.stride = stride, .pad = pad, .bias = false});
    return b_.relu(name + ".relu", b_.batch_norm(name + ".bn", y, {.epsilon = 1e-3}));
  }

  Edge a(const std::string& name, const Edge& x, Index pooled) {
    const Edge five = unit(name + ".branch5x5_2", unit(name + ".branch5x5_1", x, 48, 1), 64, 5, 1, 2);
    return b_.concat(name, {unit(name + ".branch1x1", x, 64, 1), five,
                            unit(name + ".branch3x3dbl_3", twice(name, x), 96, 3, 1, 1), pool_tower(name, x, pooled)});
  }

  Edge b(const std::string& name, const Edge& x) {
    return b_.concat(name,
                     {unit(name + ".branch3x3", x, 384, 3, 2), unit(name + ".branch3x3dbl_3", twice(name, x), 96, 3, 2),
                      b_.max_pool(name + ".pool", x, 3, {.stride = 2})});
  }

  Edge c(const std::string& name, const Edge& x, Index maps) {
    Edge seven = row(name + ".branch7x7_2", unit(name + ".branch7x7_1", x, maps, 1), maps, 7);
    seven = column(name + ".branch7x7_3", seven, 192, 7);
    Edge twice = column(name + ".branch7x7dbl_2", unit(name + ".branch7x7dbl_1", x, maps, 1), maps, 7);
    twice = column(name + ".branch7x7dbl_4", row(name + ".branch7x7dbl_3", twice, maps, 7), maps, 7);
    twice = row(name + ".branch7x7dbl_5", twice, 192, 7);
    return b_.concat(name, {unit(name + ".branch1x1", x, 192, 1), seven, twice, pool_tower(name, x, 192)});
  }

  Edge d(const std::string& name, const Edge& x) {
    const Edge three = unit(name + ".branch3x3_2", unit(name + ".branch3x3_1", x, 192, 1), 320, 3, 2);
    Edge seven = row(name + ".branch7x7x3_2", unit(name + ".branch7x7x3_1", x, 192, 1), 192, 7);
    seven = unit(name + ".branch7x7x3_4", column(name + ".branch7x7x3_3", seven, 192, 7), 192, 3, 2);
    return b_.concat(name, {three, seven, b_.max_pool(name + ".pool", x, 3, {.stride = 2})});
  }

  Edge e(const std::string& name, const Edge& x) {
    const auto fork = [&](const std::string& branch, const Edge& y) {
      return b_.concat(branch, {row(branch + "a", y, 384, 3), column(branch + "b", y, 384, 3)});
    };
    const Edge three = fork(name + ".branch3x3_2", unit(name + ".branch3x3_1", x, 384, 1));
    Edge twice = unit(name + ".branch3x3dbl_1", x, 448, 1);
    twice = fork(name + ".branch3x3dbl_3", unit(name + ".branch3x3dbl_2", twice, 384, 3, 1, 1));
    return b_.concat(name, {unit(name + ".branch1x1", x, 320, 1), three, twice, pool_tower(name, x, 192)});
  }

 private:
  Edge row(const std::string& name, const Edge& x, Index maps, Index length) {
    return unit(name, x, maps, {1, length}, 1, {0, length / 2});
  }
  Edge column(const std::string& name, const Edge& x, Index maps, Index length) {
    return unit(name, x, maps, {length, 1}, 1, {length / 2, 0});
  }
  Edge twice(const std::string& name, const Edge& x) {
    return unit(name + ".branch3x3dbl_2", unit(name + ".branch3x3dbl_1", x, 64, 1), 96, 3, 1, 1);
  }
  Edge pool_tower(const std::string& name, const Edge& x, Index maps) {
    return unit(name + ".branch_pool", b_.average_pool(name + ".average", x, 3, {.pad = 1, .count_pad = true}), maps,
                1);
  }

  Builder& b_;
  Index divide_;
};

struct InceptionV3 {
  static constexpr const char* about = "Szegedy et al. 2016";
  static constexpr const char* loss = "cross-entropy";

  static std::vector<Parameter> parameters() {
    return {{"classes", "outputs", 1000},
            {"size", "height and width of an image", 299},
            {"auxiliary", "a second classifier, for training", false},
            {"divide", "all maps by this: 1 is the published network", 1},
            {"dropout", "before the last layer", 0.5}};
  }

  static Graph build(const Attributes& v, Index batch, DType dtype) {
    const Index size = v.integer("size", 0), classes = v.integer("classes", 0),
                divide = in_range(v, "divide", 1, 16, "inception-v3");
    Builder b("inception-v3", batch, dtype);
    Modules m(b, divide);
    Edge x = m.unit("Conv2d_1a_3x3", b.input("image", {3, size, size}), 32, 3, 2);
    x = m.unit("Conv2d_2b_3x3", m.unit("Conv2d_2a_3x3", x, 32, 3), 64, 3, 1, 1);
    x = b.max_pool("maxpool1", x, 3, {.stride = 2});
    x = m.unit("Conv2d_4a_3x3", m.unit("Conv2d_3b_1x1", x, 80, 1), 192, 3);
    x = b.max_pool("maxpool2", x, 3, {.stride = 2});
    x = m.a("Mixed_5d", m.a("Mixed_5c", m.a("Mixed_5b", x, 32), 64), 64);
    x = m.c("Mixed_6b", m.b("Mixed_6a", x), 128);
    x = m.c("Mixed_6e", m.c("Mixed_6d", m.c("Mixed_6c", x, 160), 160), 192);
    std::vector<std::pair<std::string, Edge>> outputs;
    if (v.flag("auxiliary", false)) {
      Edge y = b.average_pool("AuxLogits.pool", x, 5, {.stride = 3});
      y = m.unit("AuxLogits.conv1", m.unit("AuxLogits.conv0", y, 128, 1), 768, 5);
      outputs.emplace_back("auxiliary_scores", b.linear("AuxLogits.fc", b.global_average_pool("AuxLogits.avgpool", y),
                                                        classes, "normal:0.001"));
    }
    x = m.e("Mixed_7c", m.e("Mixed_7b", m.d("Mixed_7a", x)));
    x = b.dropout("dropout", b.global_average_pool("avgpool", x), v.real("dropout", 0));
    outputs.insert(outputs.begin(), {"scores", b.linear("fc", x, classes, "lecun")});
    return b.finish(outputs);
  }
};

}  // namespace
D5_REGISTER(networks, "inception-v3", InceptionV3);
}  // namespace d5
