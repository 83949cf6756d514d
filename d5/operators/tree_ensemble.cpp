// SPDX-License-Identifier: Apache-2.0
// Sums of decision trees (ai.onnx.ml: TreeEnsemble, and its older forms TreeEnsembleRegressor and
// TreeEnsembleClassifier). A row of features goes down each tree: at a node it takes the true branch where the feature
// compares with the threshold as the mode says, until a leaf gives its weight to a target. No gradient.
//   y_t = transform(base_t + sum (or mean, least, largest) of the weights for t)
#include <algorithm>
#include <cmath>
#include <map>

#include "d5/operators/checks.hpp"
#include "d5/operators/ml_scores.hpp"
#include "d5/operators/strings.hpp"

namespace d5 {
namespace {

enum class Mode { leq, lt, gte, gt, eq, neq, member };
enum class Aggregate { average, sum, least, largest };
constexpr Index none = -1;

struct Vote {
  Index target;
  double weight;
};
struct TreeNode {
  Mode mode = Mode::leq;
  Index feature = 0, yes = none, no = none;  // other nodes
  double split = 0;
  bool missing_yes = false;
  std::vector<double> members;
  std::vector<Vote> votes;  // of a leaf
  bool leaf = false;

  bool takes(double x) const {
    if (std::isnan(x)) return missing_yes;
    switch (mode) {
      case Mode::leq: return x <= split;
      case Mode::lt: return x < split;
      case Mode::gte: return x >= split;
      case Mode::gt: return x > split;
      case Mode::eq: return x == split;
      case Mode::neq: return x != split;
      case Mode::member: return std::ranges::find(members, x) != members.end();
    }
    return false;
  }
};

struct Forest {
  std::vector<TreeNode> nodes;
  std::vector<Index> roots;
  Index targets = 1;
  std::vector<double> base;
  Aggregate aggregate = Aggregate::sum;

  // Every branch leads on to a node that is there; no way is longer than there are nodes.
  void check(std::string_view place) const {
    const auto count = static_cast<Index>(nodes.size());
    const auto there = [&](Index i) { return i >= 0 && i < count; };
    for (const Index root : roots)
      if (!there(root)) throw UsageError("{} a tree begins at node {}; 0 to {} are there", place, root, count - 1);
    for (const TreeNode& node : nodes) {
      if (!node.leaf && (!there(node.yes) || !there(node.no) || node.feature < 0))
        throw UsageError("{} a node of feature {} leads to {} and {}; 0 to {} are there", place, node.feature, node.yes,
                         node.no, count - 1);
      for (const Vote& vote : node.votes)
        if (vote.target < 0 || vote.target >= targets)
          throw UsageError("{} a leaf votes for {} of {}, counted from 0", place, vote.target, targets);
    }
  }

  std::vector<double> scores(std::span<const double> x, std::string_view place) const {
    const auto count = static_cast<size_t>(targets);
    std::vector<double> sums(count, 0.0);
    std::vector<bool> touched(count, false);
    for (const Index root : roots) {
      Index at = root;
      for (size_t steps = 0; !nodes[at].leaf; ++steps) {
        const TreeNode& node = nodes[at];
        if (steps > nodes.size()) throw Error("{} the nodes from {} on form a ring", place, root);
        if (node.feature >= static_cast<Index>(x.size()))
          throw Error("{} feature {} is asked for; {} are there", place, node.feature, x.size());
        at = node.takes(x[node.feature]) ? node.yes : node.no;
      }
      for (const Vote& vote : nodes[at].votes) {
        double& sum = sums[vote.target];
        if (aggregate == Aggregate::sum || aggregate == Aggregate::average)
          sum += vote.weight;
        else if (!touched[vote.target])
          sum = vote.weight;
        else
          sum = aggregate == Aggregate::least ? std::min(sum, vote.weight) : std::max(sum, vote.weight);
        touched[vote.target] = true;
      }
    }
    for (size_t t = 0; t < sums.size(); ++t) {
      if (aggregate == Aggregate::average && !roots.empty()) sums[t] /= static_cast<double>(roots.size());
      if (!base.empty()) sums[t] += base[base.size() == 1 ? 0 : t];
    }
    return sums;
  }
};

std::vector<double> tensor_reals(const Attributes& a, const std::string& name) {
  const auto t = a.tensor(name);
  if (!t) return {};
  const Tensor wide = t->cast(DType::f64);
  return {wide.values<double>().begin(), wide.values<double>().end()};
}

// nodes_* and leaf_*: a branch is the number of another node or of a leaf. Leaves stand behind the nodes here.
Forest forest_of(const Attributes& a, std::string_view place) {
  const auto features = a.integers("nodes_featureids"), yes = a.integers("nodes_truenodeids"),
             no = a.integers("nodes_falsenodeids"), yes_leaf = a.integers("nodes_trueleafs"),
             no_leaf = a.integers("nodes_falseleafs"), missing = a.integers("nodes_missing_value_tracks_true"),
             targets = a.integers("leaf_targetids");
  const auto modes = tensor_reals(a, "nodes_modes"), splits = tensor_reals(a, "nodes_splits"),
             weights = tensor_reals(a, "leaf_weights"), members = tensor_reals(a, "membership_values");
  const size_t count = features.size();
  if (yes.size() != count || no.size() != count || yes_leaf.size() != count || no_leaf.size() != count ||
      modes.size() != count || splits.size() != count || weights.size() != targets.size() ||
      (!missing.empty() && missing.size() != count))
    throw UsageError("{} the lists nodes_* are of different lengths, or those of leaf_*", place);
  Forest f{.roots = a.integers("tree_roots"), .targets = a.integer("n_targets", 1)};
  size_t member = 0;
  for (size_t i = 0; i < count; ++i) {
    TreeNode node{.feature = features[i], .split = splits[i], .missing_yes = !missing.empty() && missing[i] != 0};
    if (!(modes[i] >= 0 && modes[i] <= 6)) throw UsageError("{} a mode is {}; 0 to 6 are legal", place, modes[i]);
    node.mode = static_cast<Mode>(static_cast<int>(modes[i]));
    const auto shift = [&](Index at, Index leaf) { return leaf != 0 ? at + static_cast<Index>(count) : at; };
    node.yes = shift(yes[i], yes_leaf[i]);
    node.no = shift(no[i], no_leaf[i]);
    if (node.mode == Mode::member) {
      while (member < members.size() && !std::isnan(members[member])) node.members.push_back(members[member++]);
      ++member;  // NaN stands between sets
    }
    f.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < targets.size(); ++i) f.nodes.push_back({.votes = {{targets[i], weights[i]}}, .leaf = true});
  const Index how = a.integer("aggregate_function", 1);
  if (how < 0 || how > 3) throw UsageError("{} aggregate_function is {}; 0 to 3 are legal", place, how);
  f.aggregate = static_cast<Aggregate>(how);
  f.check(place);
  return f;
}

// The older form: nodes with a tree and a number of their own; votes belong to such a pair. `votes` is target or class.
Forest old_forest_of(const Attributes& a, const std::string& votes, Index targets, std::string_view place) {
  const auto trees = a.integers("nodes_treeids"), ids = a.integers("nodes_nodeids"),
             features = a.integers("nodes_featureids"), yes = a.integers("nodes_truenodeids"),
             no = a.integers("nodes_falsenodeids"), missing = a.integers("nodes_missing_value_tracks_true"),
             vote_trees = a.integers(votes + "_treeids"), vote_nodes = a.integers(votes + "_nodeids"),
             vote_ids = a.integers(votes + "_ids");
  const auto modes = text_list(a, "nodes_modes", place);
  const auto either = [&](const std::string& name) {
    return a.has(name + "_as_tensor") ? tensor_reals(a, name + "_as_tensor") : a.reals(name);
  };
  const auto splits = either("nodes_values"), weights = either(votes + "_weights");
  const size_t count = trees.size();
  if (ids.size() != count || features.size() != count || yes.size() != count || no.size() != count ||
      modes.size() != count || splits.size() != count || (!missing.empty() && missing.size() != count) ||
      vote_nodes.size() != vote_trees.size() || vote_ids.size() != vote_trees.size() ||
      weights.size() != vote_trees.size())
    throw UsageError("{} the lists nodes_* are of different lengths, or those of {}_*", place, votes);
  std::map<std::pair<Index, Index>, Index> at;
  for (size_t i = 0; i < count; ++i) at[{trees[i], ids[i]}] = static_cast<Index>(i);
  const auto find = [&](Index tree, Index id) {
    const auto found = at.find({tree, id});
    return found == at.end() ? none : found->second;
  };
  const std::vector<std::string> names{"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  Forest f{.targets = targets, .base = either("base_values")};
  std::vector<bool> is_child(count, false);
  for (size_t i = 0; i < count; ++i) {
    TreeNode node{.feature = features[i], .split = splits[i], .missing_yes = !missing.empty() && missing[i] != 0};
    node.leaf = modes[i] == "LEAF";
    if (!node.leaf) {
      const auto mode = std::ranges::find(names, modes[i]);
      if (mode == names.end()) fail_unknown(place, "mode", modes[i], names);
      node.mode = static_cast<Mode>(mode - names.begin());
      node.yes = find(trees[i], yes[i]);
      node.no = find(trees[i], no[i]);
      for (const Index child : {node.yes, node.no})
        if (child != none) is_child[child] = true;
    }
    f.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < count; ++i)
    if (!is_child[i]) f.roots.push_back(static_cast<Index>(i));
  for (size_t i = 0; i < vote_trees.size(); ++i) {
    const Index node = find(vote_trees[i], vote_nodes[i]);
    if (node == none)
      throw UsageError("{} a vote is for node {} of tree {}, which is not there", place, vote_nodes[i], vote_trees[i]);
    f.nodes[node].votes.push_back({vote_ids[i], weights[i]});
  }
  f.check(place);
  return f;
}

// Two splits, three leaves, two targets: the trees of a case.
Attributes small_forest(DType type) {
  const auto tensor = [](DType of, const std::vector<double>& values) {
    return std::make_shared<const Tensor>(Tensor::from<double>({static_cast<Index>(values.size())}, values).cast(of));
  };
  return {{"nodes_featureids", std::vector<Index>{0, 1}},
          {"nodes_truenodeids", std::vector<Index>{1, 0}},
          {"nodes_falsenodeids", std::vector<Index>{2, 1}},
          {"nodes_trueleafs", std::vector<Index>{0, 1}},
          {"nodes_falseleafs", std::vector<Index>{1, 1}},
          {"nodes_modes", tensor(DType::u8, {0, 3})},
          {"nodes_splits", tensor(type, {0.25, -0.5})},
          {"leaf_targetids", std::vector<Index>{0, 1, 0}},
          {"leaf_weights", tensor(type, {1, 2.5, -4})},
          {"tree_roots", std::vector<Index>{0}},
          {"n_targets", 2}};
}

class Trees : public Operator {
 public:
  Trees(std::string_view place, Forest forest, Transform transform)
      : place_(place), forest_(std::move(forest)), transform_(transform) {}

  Rounding rounding(SpecSpan, Pass, size_t) const override {
    return {.terms = static_cast<double>(forest_.roots.size()) + 1, .units = 16};
  }
  Tensor magnitude(const Context& c, Pass, size_t index) const override {
    if (c.output(index).dtype() == DType::string) return {};
    double sum = 1;
    for (const TreeNode& node : forest_.nodes)
      for (const Vote& vote : node.votes) sum += std::abs(vote.weight);
    Tensor scale(DType::f64, c.output(index).shape());
    std::ranges::fill(scale.values<double>(), sum);
    return scale;
  }

 protected:
  Index rows(SpecSpan in) const {
    check_inputs(in, 1, 1, place_);
    check_type(in[0], {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64}, place_);
    if (in[0].shape.rank() != 2) throw Error("{} X is {}; rows of features are wanted", place_, to_string(in[0].shape));
    return in[0].shape[0];
  }
  // f(row, its scores before the transform)
  template <class F>
  void for_each_row(const Context& c, F&& f) const {
    const Tensor x = c.input(0).cast(DType::f64);
    const auto features = static_cast<size_t>(x.shape()[1]);
    for (Index row = 0; row < x.shape()[0]; ++row)
      f(row, forest_.scores(x.values<double>().subspan(static_cast<size_t>(row) * features, features), place_));
  }

  std::string_view place_;
  Forest forest_;
  Transform transform_;
};

class TreeRegressor : public Trees {
 public:
  using Trees::Trees;
  void forward(Context& c) const override {
    const auto y = c.output(0).values<double>();
    for_each_row(c, [&](Index row, std::vector<double> scores) {
      apply_transform(transform_, scores);
      std::ranges::copy(scores, y.begin() + row * forest_.targets);
    });
  }
};

class TreeEnsemble final : public TreeRegressor {
 public:
  explicit TreeEnsemble(const Attributes& a) : TreeRegressor(place, forest_of(a, place), transform(a)) {
    check_attributes(
        a,
        {"aggregate_function", "leaf_targetids", "leaf_weights", "membership_values", "n_targets", "nodes_falseleafs",
         "nodes_falsenodeids", "nodes_featureids", "nodes_hitrates", "nodes_missing_value_tracks_true", "nodes_modes",
         "nodes_splits", "nodes_trueleafs", "nodes_truenodeids", "post_transform", "tree_roots"},
        place);
  }
  std::vector<TensorSpec> infer(SpecSpan in) const override {
    const Index count = rows(in);
    check_type(in[0], {DType::f32, DType::f64, DType::f16}, place);
    return {output_spec(in[0].dtype, {count, forest_.targets}, place)};
  }

  static std::vector<Parameter> parameters() {
    return {{"rows", "rows of X", 64}, {"features", "numbers of a row", 4}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    return {.inputs = {{.spec = {type, {v.integer("rows", 1), v.integer("features", 2)}}, .differentiable = false}},
            .attributes = small_forest(is_float(type) ? type : DType::f32)};
  }
  static std::vector<Attributes> cases() { return {{{"rows", 9}}}; }

 private:
  static constexpr std::string_view place = "[tree_ensemble]";
  static Transform transform(const Attributes& a) {
    const Index how = a.integer("post_transform", 0);
    if (how < 0 || how > 4) throw UsageError("{} post_transform is {}; 0 to 4 are legal", place, how);
    return static_cast<Transform>(how);
  }
};

const std::initializer_list<std::string> old_names{"aggregate_function",
                                                   "base_values",
                                                   "base_values_as_tensor",
                                                   "class_ids",
                                                   "class_nodeids",
                                                   "class_treeids",
                                                   "class_weights",
                                                   "class_weights_as_tensor",
                                                   "classlabels_int64s",
                                                   "classlabels_strings",
                                                   "n_targets",
                                                   "nodes_falsenodeids",
                                                   "nodes_featureids",
                                                   "nodes_hitrates",
                                                   "nodes_hitrates_as_tensor",
                                                   "nodes_missing_value_tracks_true",
                                                   "nodes_modes",
                                                   "nodes_nodeids",
                                                   "nodes_treeids",
                                                   "nodes_truenodeids",
                                                   "nodes_values",
                                                   "nodes_values_as_tensor",
                                                   "post_transform",
                                                   "target_ids",
                                                   "target_nodeids",
                                                   "target_treeids",
                                                   "target_weights",
                                                   "target_weights_as_tensor"};

// One split, two leaves with a vote each.
Attributes small_old_forest(const std::string& votes) {
  return {{"nodes_treeids", std::vector<Index>{0, 0, 0}},
          {"nodes_nodeids", std::vector<Index>{0, 1, 2}},
          {"nodes_featureids", std::vector<Index>{1, 0, 0}},
          {"nodes_modes", std::vector<std::string>{"BRANCH_LEQ", "LEAF", "LEAF"}},
          {"nodes_values", std::vector<double>{0.25, 0, 0}},
          {"nodes_truenodeids", std::vector<Index>{1, 0, 0}},
          {"nodes_falsenodeids", std::vector<Index>{2, 0, 0}},
          {votes + "_treeids", std::vector<Index>{0, 0}},
          {votes + "_nodeids", std::vector<Index>{1, 2}},
          {votes + "_ids", std::vector<Index>{0, 1}},
          {votes + "_weights", std::vector<double>{1.5, -2}}};
}

class TreeEnsembleRegressor final : public TreeRegressor {
 public:
  explicit TreeEnsembleRegressor(const Attributes& a)
      : TreeRegressor(place, old_forest_of(a, "target", a.integer("n_targets", 1), place),
                      parse_transform(a.text("post_transform", "NONE"), place)) {
    check_attributes(a, old_names, place);
    const std::vector<std::string> names{"AVERAGE", "SUM", "MIN", "MAX"};
    const std::string how = a.text("aggregate_function", "SUM");
    const auto found = std::ranges::find(names, how);
    if (found == names.end()) fail_unknown(place, "aggregate_function", how, names);
    forest_.aggregate = static_cast<Aggregate>(found - names.begin());
  }
  std::vector<TensorSpec> infer(SpecSpan in) const override {
    return {output_spec(DType::f32, {rows(in), forest_.targets}, place)};
  }

  static std::vector<Parameter> parameters() {
    return {{"rows", "rows of X", 64}, {"features", "numbers of a row", 4}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    Attributes a = small_old_forest("target");
    a.set("n_targets", 2);
    return {.inputs = {{.spec = {type, {v.integer("rows", 1), v.integer("features", 2)}}, .differentiable = false}},
            .attributes = a};
  }
  static std::vector<Attributes> cases() { return {{{"rows", 9}}}; }

 private:
  static constexpr std::string_view place = "[tree_ensemble_regressor]";
};

// Where all votes are for one class, the other's score is 1 minus it (its negative before a transform).
class TreeEnsembleClassifier final : public Trees {
 public:
  explicit TreeEnsembleClassifier(const Attributes& a)
      : Trees(place, {}, parse_transform(a.text("post_transform", "NONE"), place)),
        labels_(a, "classlabels_int64s", "classlabels_strings", place) {
    check_attributes(a, old_names, place);
    forest_ = old_forest_of(a, "class", static_cast<Index>(labels_.size()), place);
    const auto ids = a.integers("class_ids");
    binary_ = labels_.size() == 2 && std::ranges::all_of(ids, [&](Index id) { return id == ids[0]; });
  }
  std::vector<TensorSpec> infer(SpecSpan in) const override {
    const Index count = rows(in);
    return {{labels_.type(), {count}}, output_spec(DType::f32, {count, forest_.targets}, place)};
  }
  void forward(Context& c) const override {
    for_each_row(c, [&](Index row, std::vector<double> scores) {
      if (binary_) {
        scores[1] = scores[0] != 0 ? scores[0] : scores[1];
        const bool plain = transform_ == Transform::none || transform_ == Transform::probit;
        scores[0] = plain ? 1 - scores[1] : -scores[1];
      }
      apply_transform(transform_, scores);
      const auto best = static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
      if (c.output(0).present()) labels_.store(c.output(0), row, best);
      if (c.output(1).present())
        std::ranges::copy(scores, c.output(1).values<double>().begin() + row * forest_.targets);
    });
  }

  static std::vector<Parameter> parameters() {
    return {{"rows", "rows of X", 64}, {"features", "numbers of a row", 4}};
  }
  static OperatorCase describe(const Attributes& v, DType type) {
    Attributes a = small_old_forest("class");
    a.set("classlabels_int64s", std::vector<Index>{3, 4});
    return {.inputs = {{.spec = {type, {v.integer("rows", 1), v.integer("features", 2)}}, .differentiable = false}},
            .attributes = a,
            .outputs = 2};
  }
  static std::vector<Attributes> cases() { return {{{"rows", 9}}}; }

 private:
  static constexpr std::string_view place = "[tree_ensemble_classifier]";
  ClassLabels labels_;
  bool binary_ = false;
};

}  // namespace
D5_REGISTER(operators, "ai.onnx.ml:TreeEnsemble", TreeEnsemble);
D5_REGISTER(operators, "ai.onnx.ml:TreeEnsembleRegressor", TreeEnsembleRegressor);
D5_REGISTER(operators, "ai.onnx.ml:TreeEnsembleClassifier", TreeEnsembleClassifier);
}  // namespace d5
