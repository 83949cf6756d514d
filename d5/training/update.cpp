// SPDX-License-Identifier: Apache-2.0
#include "d5/training/update.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "d5/core/error.hpp"
#include "d5/core/parallel.hpp"
#include "d5/graph/graph.hpp"
#include "d5/training/device_loop.hpp"
#include "d5/training/floating_mode.hpp"
#include "d5/training/sixteen_bits.hpp"
#include "d5/training/squares.hpp"

namespace d5 {
namespace {

using Op = Formula::Op;
using Extent = Formula::Extent;

constexpr Index line = 16;     // elements of a cache line: threads share none
constexpr Index chunk = 2048;  // elements of one sum of squares
constexpr Index block = 512;   // of what is computed before something else is done with it: memory goes on meanwhile
constexpr Index stretch = 1 << 15;     // after norms a parameter is updated from its end: these are still near
constexpr Index near_bytes = 1 << 19;  // of parameters that a thread updates while what their norms read is near
constexpr Index thread_lines = 1024;   // a thread's least share

size_t at(int i) { return static_cast<size_t>(i); }

// New values of states that a pass for norms, the first of these, computes anyway: it stores them where nobody reads
// the old ones later, and what comes after it reads them instead of what they are made of.
std::vector<Wanted> stored_early(const Formula& formula, std::span<const int> stream_of,
                                 std::span<const std::vector<Wanted>> passes, const std::vector<Wanted>& known) {
  const std::vector<Formula::Node>& nodes = formula.nodes();
  const std::vector<int> computed = last_uses(formula, passes.front(), known);
  std::vector<Wanted> early;
  for (const Wanted& store : passes.back())
    if (store.stream > 0 && computed[at(store.node)] >= 0 && nodes[at(store.node)].a >= 0 &&
        nodes[at(store.node)].extent == Extent::element)
      early.push_back(store);
  const auto still_read = [&](const Wanted& store) {
    const auto slot = std::ranges::find(stream_of, store.stream) - stream_of.begin();
    std::vector<Wanted> all = known;
    all.insert(all.end(), early.begin(), early.end());
    return std::ranges::any_of(passes.subspan(1), [&](const std::vector<Wanted>& later) {
      return last_uses(formula, later, all)[at(formula.slots()[static_cast<size_t>(slot)].first)] >= 0;
    });
  };
  for (auto kept = std::ranges::find_if(early, still_read); kept != early.end();
       kept = std::ranges::find_if(early, still_read))
    early.erase(kept);
  return early;
}

}  // namespace

Tensor UpdateState::find_or_make(const Formula::Slot& slot) {
  for (const Entry& entry : entries_)
    if (entry.name == slot.name) return entry.values;
  if (slot.op == Op::scalar_state) {
    entries_.push_back({slot.name, Tensor::scalar(slot.value).reshaped({1}), false});
    return entries_.back().values;
  }
  Tensor values(DType::f32, {part_.count});
  const auto to = values.values<float>();
  std::ranges::fill(to, 0.0f);  // between parameters, too
  for (const ParameterSet::Parameter& parameter : set_->parameters()) {
    const Index first = std::max(parameter.offset, part_.first);
    const Index end = std::min(parameter.offset + parameter.padded_elements, part_.first + part_.count);
    if (first >= end) continue;
    const auto own = to.subspan(static_cast<size_t>(first - part_.first), static_cast<size_t>(end - first));
    if (slot.start == Formula::Start::parameter)
      std::ranges::copy(set_->masters({first, end - first}).to(host_memory()).values<float>(), own.begin());
    else
      std::ranges::fill(own, static_cast<float>(slot.value));
  }
  values = values.to(set_->masters({0, 0}).memory());
  entries_.push_back({slot.name, values, true});
  return values;
}

struct Update::Scratch {
  Scratch(const Pass& pass, size_t own_streams, bool widened)
      : streams(at(pass.program.streams)),
        gradient(widened ? block : 0),
        results((streams.size() - own_streams) * block) {
    for (size_t i = own_streams; i < streams.size(); ++i) streams[i] = results.data() + (i - own_streams) * block;
  }
  std::vector<float*> streams;  // of the present block
  std::vector<float> gradient, results;
};

Update::Update(const Formula& formula, ParameterSet& set, UpdateState& state, const PerParameter& per_parameter,
               const MakeLoop& make)
    : set_(&set), nodes_(formula.nodes()), names_(formula.names()), scalars_(names_.size()), part_(state.part()) {
  const Tensor masters = set.masters(set.all()), gradients = set.gradients(set.all());
  const bool on_host = masters.memory().is_host(), narrowed = set.compute_dtype() != DType::f32;
  if (!on_host && narrowed)
    throw CannotRun(fmt::format("[optimizer] parameters are {} on {}; formulas run there in f32",
                                name(set.compute_dtype()), masters.memory().device()));
  // Streams: the parameter, its gradient, then states.
  streams_ = {static_cast<float*>(masters.data()), narrowed ? nullptr : static_cast<float*>(gradients.data())};
  if (narrowed) {
    narrow_gradients_ = static_cast<std::byte*>(gradients.data());
    narrow_computes_ = static_cast<std::byte*>(set.computes(set.all()).data());
  }
  std::vector<int> stream_of;
  std::vector<Wanted> stores;
  for (const Formula::Slot& slot : formula.slots()) {
    if (slot.op == Op::scalar_state) {
      scalar_states_.push_back({state.find_or_make(slot), slot.now});
      needs_all_ |= slot.now != slot.first;
      stream_of.push_back(-1);
      continue;
    }
    scalar_states_.push_back({{}, -1});
    stream_of.push_back(slot.op == Op::parameter ? 0 : static_cast<int>(streams_.size()));
    if (slot.op == Op::state) streams_.push_back(static_cast<float*>(state.find_or_make(slot).data()));
    if (slot.now != slot.first) stores.push_back({slot.now, stream_of.back()});
  }
  all_.resize(nodes_.size());
  each_.assign(nodes_.size(), std::vector<double>(set.parameters().size()));
  per_parameter_.resize(names_.size());
  for (const Formula::Node& node : nodes_) {
    if (node.op != Op::per_parameter) continue;
    for (const ParameterSet::Parameter& parameter : set.parameters())
      per_parameter_[at(node.index)].push_back(per_parameter(names_[at(node.index)], parameter));
  }

  // Norms of the same stage share a pass.
  std::vector<std::vector<int>> norms;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Formula::Node& node = nodes_[i];
    int stage = 0;
    for (const int operand : {node.a, node.b, node.c})
      if (operand >= 0) stage = std::max(stage, stage_[at(operand)]);
    if (node.op == Op::norm || node.op == Op::global_norm) {
      norms.resize(std::max(norms.size(), at(stage) + 1));
      norms[at(stage++)].push_back(static_cast<int>(i));
      uses_norms_ = true;
      needs_all_ |= node.op == Op::global_norm;
    }
    stage_.push_back(stage);
  }
  make_passes(formula, stream_of, norms, std::move(stores), make);
}

void Update::make_passes(const Formula& formula, std::span<const int> stream_of,
                         const std::vector<std::vector<int>>& norms, std::vector<Wanted> stores, const MakeLoop& make) {
  const Memory& memory = set_->masters({0, 0}).memory();
  const auto bind = [&](Pass& pass) {
    if (memory.is_host())
      pass.loop = make(pass.program);
    else
      pass.device = make_device_loop(pass.program, memory);
  };
  assigns_ = !stores.empty();
  std::vector<std::vector<Wanted>> wanted;  // by pass: of norms what is squared, in the end what is stored
  for (const std::vector<int>& made : norms) {
    wanted.emplace_back();
    for (const int node : made) wanted.back().push_back({nodes_[at(node)].a, computed_node});
  }
  wanted.push_back(std::move(stores));
  std::vector<Wanted> known;
  for (size_t i = 0; i < norms.size(); ++i) {
    std::vector<Wanted> early;
    if (memory.is_host()) early = stored_early(formula, stream_of, std::span(wanted).subspan(i), known);
    const auto is_early = [&](int stream) { return std::ranges::find(early, stream, &Wanted::stream) != early.end(); };
    std::erase_if(wanted.back(), [&](const Wanted& store) { return is_early(store.stream); });
    Pass pass{.norms = norms[i]};
    std::vector<Wanted> made = early;
    auto streams = static_cast<int>(streams_.size());
    for (const Wanted& operand : wanted[i]) {  // what lies in a stream is squared where it lies
      int stream = memory.is_host() ? stream_read(formula, stream_of, known, operand.node) : computed_node;
      if (stream == computed_node || is_early(stream)) made.push_back({operand.node, stream = streams++});
      pass.squared.push_back(stream);
    }
    pass.program = make_program(formula, stream_of, made, streams, known);
    bind(pass);
    norm_passes_.push_back(std::move(pass));
    known.insert(known.end(), early.begin(), early.end());
  }
  last_.program = make_program(formula, stream_of, wanted.back(), static_cast<int>(streams_.size()), known);
  bind(last_);
}

void Update::set(std::string_view scalar, double value) {
  const auto found = std::ranges::find(names_, scalar);
  if (found != names_.end()) scalars_[static_cast<size_t>(found - names_.begin())] = value;
}

std::vector<Update::Piece> Update::pieces(ParameterSet::Range range) const {
  if (range.first < part_.first || range.first + range.count > part_.first + part_.count)
    throw Error("[optimizer] elements {} to {} are to be updated; there is state of {} to {}", range.first,
                range.first + range.count, part_.first, part_.first + part_.count);
  if (needs_all_ && (range.first != 0 || range.count != set_->elements()))
    throw Error("[optimizer] elements {} to {} are to be updated; a norm over all parameters needs 0 to {}",
                range.first, range.first + range.count, set_->elements());
  std::vector<Piece> result;
  const std::vector<ParameterSet::Parameter>& parameters = set_->parameters();
  const Index end = range.first + range.count;
  auto next = std::ranges::upper_bound(parameters, range.first, {}, &ParameterSet::Parameter::offset);
  if (next != parameters.begin()) --next;
  for (; next != parameters.end() && next->offset < end; ++next) {
    const Index first = std::max(range.first, next->offset);
    const Index count = std::min(end, next->offset + next->padded_elements) - first;
    if (count <= 0 || !next->trainable) continue;
    if (uses_norms_ && count != next->padded_elements)
      throw Error("[optimizer] {} of the {} elements of '{}' are to be updated; its norm needs all of them", count,
                  next->padded_elements, next->name);
    result.push_back({static_cast<size_t>(next - parameters.begin()), first, count});
  }
  return result;
}

double Update::value(int node, size_t parameter) const {
  return nodes_[at(node)].extent == Extent::all ? all_[at(node)] : each_[at(node)][parameter];
}

// What is known so far: norms of passes to come are still of the last step, and nobody reads them before.
void Update::evaluate_uniforms(Pieces pieces) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Formula::Node& node = nodes_[i];
    if (node.extent == Extent::element || node.op == Op::norm || node.op == Op::global_norm) continue;
    const auto of = [&](int operand, size_t parameter) { return operand < 0 ? 0 : value(operand, parameter); };
    const auto result = [&](size_t parameter) {
      switch (node.op) {
        case Op::constant: return node.constant;
        case Op::scalar: return scalars_[at(node.index)];
        case Op::per_parameter: return per_parameter_[at(node.index)][parameter];
        case Op::scalar_state: return scalar_states_[at(node.index)].values.values<double>()[0];
        default: return evaluate(node.op, of(node.a, parameter), of(node.b, parameter), of(node.c, parameter));
      }
    };
    if (node.extent == Extent::all) {
      all_[i] = result(0);
      continue;
    }
    for (const Piece& piece : pieces) each_[i][piece.parameter] = result(piece.parameter);
  }
}

std::vector<float> Update::table(const Pass& pass, Pieces pieces) const {
  std::vector<float> numbers;
  for (const Piece& piece : pieces)
    for (const int node : pass.program.numbers) numbers.push_back(static_cast<float>(value(node, piece.parameter)));
  return numbers;
}

// done(elements) after each part: of norms the scratch has the results.
template <class Done>
void Update::run_blocks(const Pass& pass, const Piece& piece, const float* numbers, Scratch& scratch, Done done) const {
  const DType type = set_->compute_dtype();
  const ParameterSet::Parameter& parameter = set_->parameters()[piece.parameter];
  const Index most = streams_[1] && pass.norms.empty() ? piece.count : block;
  for (Index before = 0; before < piece.count; before += most) {
    const Index first = piece.first + before, count = std::min(most, piece.count - before);
    for (size_t i = 0; i < streams_.size(); ++i)
      scratch.streams[i] = streams_[i] ? streams_[i] + (i < 2 ? first : first - part_.first) : nullptr;
    if (!streams_[1]) {
      scratch.streams[1] = scratch.gradient.data();
      if (pass.program.reads[1] || std::ranges::find(pass.squared, 1) != pass.squared.end())
        widen(type, narrow_gradients_ + storage_bytes(type, first), scratch.gradient.data(), count);
    }
    if (!pass.program.stores.empty()) pass.loop->run(scratch.streams.data(), numbers, count);
    if (!streams_[1] && pass.norms.empty() && parameter.spec.dtype != DType::f32)
      narrow(streams_[0] + first, type, narrow_computes_ + storage_bytes(type, first), count);
    done(count);
  }
}

// Sums of squares, [piece x norms + norm].
std::vector<double> Update::squares_on_host(const Pass& pass, Pieces pieces) const {
  std::vector<Piece> chunks;
  std::vector<size_t> piece_of;
  for (size_t i = 0; i < pieces.size(); ++i)
    for (Index done = 0; done < pieces[i].count; done += chunk) {
      chunks.push_back({pieces[i].parameter, pieces[i].first + done, std::min(chunk, pieces[i].count - done)});
      piece_of.push_back(i);
    }
  const std::vector<float> numbers = table(pass, pieces);
  const size_t results = pass.norms.size();
  std::vector<double> sums(chunks.size() * results);
  const FloatingMode mode;
  parallel_for(static_cast<Index>(chunks.size()), thread_lines * line / chunk, [&](Index first, Index last) {
    const FloatingMode::Held held(mode);
    Scratch scratch(pass, streams_.size(), !streams_[1]);
    std::vector<Squares> squares(results);
    for (auto c = static_cast<size_t>(first); c < static_cast<size_t>(last); ++c) {
      std::ranges::fill(squares, Squares{});
      run_blocks(pass, chunks[c], numbers.data() + piece_of[c] * pass.program.numbers.size(), scratch, [&](Index n) {
        for (size_t r = 0; r < results; ++r)
          add_squares(squares[r], scratch.streams[at(pass.squared[r])], n / Squares::step * Squares::step);
      });
      const Index rest = chunks[c].count % Squares::step, in_block = (chunks[c].count - 1) % block + 1;
      for (size_t r = 0; r < results; ++r)
        sums[c * results + r] = total(squares[r], scratch.streams[at(pass.squared[r])] + (in_block - rest), rest);
    }
  });
  std::vector<double> squares(pieces.size() * results);
  for (size_t c = 0; c < chunks.size(); ++c)
    for (size_t r = 0; r < results; ++r) squares[piece_of[c] * results + r] += sums[c * results + r];
  return squares;
}

// Calls the loop of the device with the pieces and their numbers.
template <class Call>
auto Update::on_device(const Pass& pass, Pieces pieces, Call call) const {
  const std::vector<float> numbers = table(pass, pieces);
  std::vector<DeviceLoop::Piece> parts;
  for (size_t i = 0; i < pieces.size(); ++i)
    parts.push_back({pieces[i].first, pieces[i].count, numbers.data() + i * pass.program.numbers.size()});
  return call(*pass.device, std::span<float* const>(streams_), std::span<const DeviceLoop::Piece>(parts));
}

void Update::sum_norms(const Pass& pass, Pieces pieces) {
  const std::vector<double> squares =
      pass.device ? on_device(pass, pieces, [](auto& loop, auto... with) { return loop.sums_of_squares(with...); })
                  : squares_on_host(pass, pieces);
  const size_t results = pass.norms.size();
  for (size_t r = 0; r < results; ++r) {
    const auto node = at(pass.norms[r]);
    double all = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      each_[node][pieces[i].parameter] = std::sqrt(squares[i * results + r]);
      all += squares[i * results + r];
    }
    all_[node] = std::sqrt(all);
  }
}

void Update::store(Pieces pieces) {
  if (pieces.empty()) return;
  if (last_.device) return on_device(last_, pieces, [](auto& loop, auto... with) { loop.run(with...); });
  const std::vector<float> numbers = table(last_, pieces);
  const auto ends = [](const Piece& piece) { return piece.first + piece.count; };
  const Index first_line = pieces.front().first / line, lines = (ends(pieces.back()) + line - 1) / line - first_line;
  const FloatingMode mode;
  parallel_for(lines, thread_lines, [&](Index begin, Index end) {
    const FloatingMode::Held held(mode);
    Scratch scratch(last_, streams_.size(), !streams_[1]);
    const Index from = (first_line + begin) * line, to = (first_line + end) * line;
    for (auto piece = std::ranges::upper_bound(pieces, from, {}, ends); piece != pieces.end() && piece->first < to;
         ++piece) {
      const Index first = std::max(from, piece->first), count = std::min(to, ends(*piece)) - first;
      const float* const row =
          numbers.data() + static_cast<size_t>(piece - pieces.begin()) * last_.program.numbers.size();
      const Index most = norm_passes_.empty() ? count : stretch;
      for (Index left = count; left > 0; left -= std::min(left, most)) {
        const Index now = std::min(left, most);
        run_blocks(last_, {piece->parameter, first + left - now, now}, row, scratch, [](Index) {});
      }
    }
  });
}

// How many of the first pieces are updated together: what norms read stays near until the update reads it again.
size_t Update::group(Pieces pieces) const {
  if (norm_passes_.empty() || needs_all_ || last_.device || pieces.empty()) return pieces.size();
  const Index most = near_bytes / static_cast<Index>(streams_.size() * sizeof(float)) * threads();
  Index elements = 0;
  const auto full = std::ranges::find_if(pieces, [&](const Piece& piece) { return (elements += piece.count) > most; });
  return std::max<size_t>(1, static_cast<size_t>(full - pieces.begin()));
}

void Update::run(ParameterSet::Range range) {
  const std::vector<Piece> all = pieces(range);
  Pieces left = all;
  do {
    const Pieces parts = left.first(group(left));
    evaluate_uniforms(parts);
    for (const Pass& pass : norm_passes_) {
      sum_norms(pass, parts);
      evaluate_uniforms(parts);
    }
    if (!last_.program.stores.empty()) store(parts);
    left = left.subspan(parts.size());
  } while (!left.empty());
  for (const ScalarState& state : scalar_states_)
    if (state.node >= 0) state.values.values<double>()[0] = all_[at(state.node)];
  set_->touch();
}

}  // namespace d5
