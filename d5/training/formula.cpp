// SPDX-License-Identifier: Apache-2.0
#include "d5/training/formula.hpp"

#include <algorithm>
#include <cmath>

#include "d5/core/error.hpp"

namespace d5 {
namespace {

size_t at(int node) { return static_cast<size_t>(node); }

}  // namespace

Formula::Formula() {
  variable("parameter", Op::parameter, Start::zero, 0);
  gradient_ = add({.op = Op::gradient, .extent = Extent::element});
}

Formula::ParameterAndGradient Formula::parameter_and_gradient() {
  return {Variable(this, 0), Expression(this, gradient_)};
}

void Formula::replace_gradient(const Expression& value) { gradient_ = node_of(value); }

Variable Formula::variable(std::string_view name, Op op, Start start, double value) {
  for (size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].name == name && slots_[i].op == op) return {this, i};
  const Extent extent = op == Op::scalar_state ? Extent::all : Extent::element;
  const int node = add({.op = op, .extent = extent, .index = static_cast<int>(slots_.size())});
  slots_.push_back({std::string(name), op, start, value, node, node});
  return {this, slots_.size() - 1};
}

Variable Formula::state(std::string_view name, Start start, double value) {
  return variable(name, Op::state, start, value);
}
Variable Formula::scalar_state(std::string_view name, double start) {
  return variable(name, Op::scalar_state, Start::zero, start);
}

int Formula::name_index(std::string_view name) {
  const auto found = std::ranges::find(names_, name);
  if (found != names_.end()) return static_cast<int>(found - names_.begin());
  names_.emplace_back(name);
  return static_cast<int>(names_.size()) - 1;
}
Expression Formula::scalar(std::string_view name) {
  return {this, add({.op = Op::scalar, .extent = Extent::all, .index = name_index(name)})};
}
Expression Formula::per_parameter(std::string_view name) {
  return {this, add({.op = Op::per_parameter, .extent = Extent::parameter, .index = name_index(name)})};
}
Expression Formula::norm(const Expression& x) {
  return {this, add({.op = Op::norm, .extent = Extent::parameter, .a = node_of(x)})};
}
Expression Formula::global_norm(const Expression& x) {
  return {this, add({.op = Op::global_norm, .extent = Extent::all, .a = node_of(x)})};
}

bool Formula::uses(Op op) const {
  return std::ranges::any_of(nodes_, [&](const Node& node) { return node.op == op; });
}

int Formula::add(Node node) {
  const auto found = std::ranges::find(nodes_, node);  // the same value is computed once
  if (found != nodes_.end()) return static_cast<int>(found - nodes_.begin());
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

int Formula::constant(double value) { return add({.op = Op::constant, .extent = Extent::all, .constant = value}); }
bool Formula::is_constant(int node, double value) const {
  return nodes_[at(node)].op == Op::constant && nodes_[at(node)].constant == value;
}

int Formula::node_of(const Expression& e) {
  if (e.formula_ && e.formula_ != this) throw Error("[formula] expressions of two formulas cannot be combined");
  return e.formula_ ? e.node_ : constant(e.constant_);
}

int Formula::combine(Op op, int a, int b) {
  const Extent extent = std::max(nodes_[at(a)].extent, nodes_[at(b)].extent);
  if (op == Op::power && extent == Extent::element)
    throw Error("[formula] pow() of elements is not there; it takes scalars and values of parameters");
  if (nodes_[at(a)].op == Op::constant && nodes_[at(b)].op == Op::constant)
    return constant(evaluate(op, nodes_[at(a)].constant, nodes_[at(b)].constant));
  if (op == Op::divide && uniform(b)) return combine(Op::multiply, combine_uniform(Op::divide, constant(1), b), a);
  if (op == Op::multiply) {
    if (uniform(b) && !uniform(a)) std::swap(a, b);
    if (is_constant(a, 1)) return b;
    if (is_constant(b, 1)) return a;
    const Node& factor = nodes_[at(b)];
    if (uniform(a) && factor.op == Op::multiply && extent == Extent::element && uniform(factor.a)) {
      const int rest = factor.b, together = combine_uniform(Op::multiply, a, factor.a);
      return combine(Op::multiply, together, rest);
    }
  }
  if (op == Op::add && is_constant(a, 0)) return b;
  if ((op == Op::add || op == Op::subtract) && is_constant(b, 0)) return a;
  return add({.op = op, .extent = extent, .a = a, .b = b});
}

// Both the same for all elements: nothing is rearranged, double has digits to spare.
int Formula::combine_uniform(Op op, int a, int b) {
  const Node &left = nodes_[at(a)], &right = nodes_[at(b)];
  if (left.op == Op::constant && right.op == Op::constant) return constant(evaluate(op, left.constant, right.constant));
  if (op == Op::multiply && is_constant(a, 1)) return b;
  if ((op == Op::multiply || op == Op::divide) && is_constant(b, 1)) return a;
  return add({.op = op, .extent = std::max(left.extent, right.extent), .a = a, .b = b});
}

Expression Formula::apply(Op op, const Expression& a) {
  if (!a.formula_) return evaluate(op, a.constant_, 0);
  Formula& f = *a.formula_;
  return {&f, f.add({.op = op, .extent = f.nodes_[at(a.node_)].extent, .a = a.node_})};
}

Expression Formula::apply(Op op, const Expression& a, const Expression& b) {
  Formula* f = a.formula_ ? a.formula_ : b.formula_;
  if (!f) return evaluate(op, a.constant_, b.constant_);
  const int left = f->node_of(a), right = f->node_of(b);
  const bool uniform = f->uniform(left) && f->uniform(right);
  return {f, uniform ? f->combine_uniform(op, left, right) : f->combine(op, left, right)};
}

Expression Formula::apply(Op op, const Expression& a, const Expression& b, const Expression& c) {
  Formula* f = a.formula_ ? a.formula_ : b.formula_ ? b.formula_ : c.formula_;
  if (!f) throw Error("[formula] a choice between numbers needs no formula");
  const int condition = f->node_of(a), then = f->node_of(b), otherwise = f->node_of(c);
  const auto extent = [&](int node) { return f->nodes_[at(node)].extent; };
  const Extent widest = std::max({extent(condition), extent(then), extent(otherwise)});
  if (widest == Extent::element)
    throw Error("[formula] where_positive() of elements is not there; it takes scalars and values of parameters");
  return {f, f->add({.op = op, .extent = widest, .a = condition, .b = then, .c = otherwise})};
}

double evaluate(Formula::Op op, double a, double b, double c) {
  using Op = Formula::Op;
  switch (op) {
    case Op::add: return a + b;
    case Op::subtract: return a - b;
    case Op::multiply: return a * b;
    case Op::divide: return a / b;
    case Op::minimum: return a < b ? a : b;
    case Op::maximum: return a > b ? a : b;
    case Op::power: return std::pow(a, b);
    case Op::square_root: return std::sqrt(a);
    case Op::absolute: return std::fabs(a);
    case Op::sign: return a > 0 ? 1 : a < 0 ? -1 : 0;
    case Op::where_positive: return a > 0 ? b : c;
    default: throw Error("[formula] operation {} has no value of its own", static_cast<int>(op));
  }
}

Variable::operator Expression() const { return {formula_, formula_->slots_[slot_].now}; }
Variable& Variable::operator=(const Expression& value) {
  const int node = formula_->node_of(value);
  Formula::Slot& slot = formula_->slots_[slot_];
  if (slot.op == Formula::Op::scalar_state && formula_->nodes_[at(node)].extent != Formula::Extent::all)
    throw Error("[formula] '{}' is one number; what is assigned to it differs between parameters or elements",
                slot.name);
  slot.now = node;
  return *this;
}
Variable& Variable::operator+=(const Expression& value) { return *this = static_cast<Expression>(*this) + value; }
Variable& Variable::operator-=(const Expression& value) { return *this = static_cast<Expression>(*this) - value; }
Variable& Variable::operator*=(const Expression& value) { return *this = static_cast<Expression>(*this) * value; }

Expression operator+(const Expression& a, const Expression& b) { return Formula::apply(Formula::Op::add, a, b); }
Expression operator-(const Expression& a, const Expression& b) { return Formula::apply(Formula::Op::subtract, a, b); }
Expression operator*(const Expression& a, const Expression& b) { return Formula::apply(Formula::Op::multiply, a, b); }
Expression operator/(const Expression& a, const Expression& b) { return Formula::apply(Formula::Op::divide, a, b); }
Expression operator-(const Expression& a) { return -1.0 * a; }
Expression sqrt(const Expression& a) { return Formula::apply(Formula::Op::square_root, a); }
Expression abs(const Expression& a) { return Formula::apply(Formula::Op::absolute, a); }
Expression sign(const Expression& a) { return Formula::apply(Formula::Op::sign, a); }
Expression square(const Expression& a) { return a * a; }
Expression min(const Expression& a, const Expression& b) { return Formula::apply(Formula::Op::minimum, a, b); }
Expression max(const Expression& a, const Expression& b) { return Formula::apply(Formula::Op::maximum, a, b); }
Expression pow(const Expression& a, const Expression& b) { return Formula::apply(Formula::Op::power, a, b); }
Expression where_positive(const Expression& condition, const Expression& then, const Expression& otherwise) {
  return Formula::apply(Formula::Op::where_positive, condition, then, otherwise);
}

}  // namespace d5
