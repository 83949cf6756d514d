// SPDX-License-Identifier: Apache-2.0
// Tables of numbers as text (.csv, .csv.gz): a row is a sample, its columns are the field "value" (f32), one of them
// may be the label. A first row that is not all numbers names the columns. A row that is broken is an error when it is
// read.
#include <algorithm>
#include <charconv>

#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/file_writer.hpp"

namespace d5 {
namespace {

constexpr uint64_t most_text = uint64_t{1} << 32;
constexpr size_t most_columns = 1 << 20, most_broken = 10000;

struct Layout {
  std::string label;  // last, first, none, or the name or number of a column
  char separator = ',';
  std::string shape;
  int64_t classes = 0;
};

std::string_view trimmed(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"' || cell.back() == '\r')) cell.remove_suffix(1);
  return cell;
}

std::optional<double> number(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  double value = 0;
  const auto end = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || end.ec != std::errc() || end.ptr != cell.data() + cell.size()) return {};
  return value;
}

std::vector<std::string_view> cells_of(std::string_view line, char separator) {
  std::vector<std::string_view> cells;
  while (cells.size() < most_columns) {
    const size_t end = line.find(separator);
    cells.push_back(line.substr(0, end));
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return cells;
}

class Csv : public Dataset {
 public:
  Csv(const std::string& path, const Layout& layout) : path_(path) {
    const auto file = whole_contents(path, most_text);
    const std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
    Index line_number = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++line_number;
      if (trimmed(line).empty()) continue;
      const auto cells = cells_of(line, layout.separator);
      if (columns_ == 0) {
        begin(cells, layout);
        if (!std::ranges::all_of(cells, [](auto cell) { return number(cell).has_value(); })) continue;  // names
      }
      add(cells, line_number);
    }
    file->require_there(0, file->size());
    if (columns_ == 0) throw Error("[csv] {}: there are no rows", path);
    int64_t largest = layout.classes - 1;
    for (const int64_t label : labels_) largest = std::max(largest, layout.classes ? largest : label);
    const auto width = static_cast<Index>(label_column_ ? columns_ - 1 : columns_);
    Shape shape = layout.shape.empty() ? Shape{width} : parse_shape(layout.shape);
    if (shape.elements() != width)
      throw UsageError("[csv] {}: shape {} has {} values, a row has {}", path, to_string(shape), shape.elements(),
                       width);
    fields_.push_back({"value", DType::f32, std::move(shape), {}});
    if (label_column_) fields_.push_back({"label", DType::i64, Shape{}, classes_up_to(largest)});
  }
  const std::vector<Field>& fields() const override { return fields_; }
  Index size() const override { return static_cast<Index>(lines_.size()); }
  std::string where(Index i) const override { return fmt::format("{}:{}", path_, lines_.at(static_cast<size_t>(i))); }
  void read(Index i, Sample& into) const override {
    check_index(*this, i);
    const auto next = std::ranges::lower_bound(broken_, i, {}, &Broken::row);
    if (next != broken_.end() && next->row == i) throw SampleError("[csv] {}: {}", where(i), next->reason);
    const Index place = i - (next - broken_.begin());  // among the rows that are whole
    const Shape& shape = *fields_[0].shape;
    give_copy(into, 0, DType::f32, shape, values_.data() + place * shape.elements());
    if (label_column_) give_label(into, 1, labels_[static_cast<size_t>(place)], *this, i);
  }

 private:
  void begin(const std::vector<std::string_view>& cells, const Layout& layout) {
    columns_ = cells.size();
    if (columns_ == most_columns) throw Error("[csv] {}: {} columns or more", path_, columns_);
    if (layout.label == "none") return;
    if (layout.label == "first") {
      label_column_ = 0;
    } else if (layout.label == "last") {
      label_column_ = columns_ - 1;
    } else {
      const auto found = std::ranges::find_if(cells, [&](auto cell) { return trimmed(cell) == layout.label; });
      if (found == cells.end())
        throw UsageError("[csv] {}: no column is called '{}'; legal: first, last, none or a name", path_, layout.label);
      label_column_ = static_cast<size_t>(found - cells.begin());
    }
    if (columns_ == 1) throw UsageError("[csv] {}: the only column cannot be the label; say label=none", path_);
  }
  // Of a row that is broken nothing is kept but the reason: a few bytes must not take the room of many columns.
  void add(const std::vector<std::string_view>& cells, Index line) {
    const size_t values = values_.size(), labels = labels_.size();
    const std::string reason = broken_reason(cells);
    if (!reason.empty()) {
      values_.resize(values);
      labels_.resize(labels);
      if (broken_.size() == most_broken)
        throw Error("[csv] {}: more than {} broken rows; the last: {}", path_, most_broken, reason);
      broken_.push_back({static_cast<Index>(lines_.size()), reason});
    }
    lines_.push_back(line);
  }
  // Empty where the row is whole; its values are then taken.
  std::string broken_reason(const std::vector<std::string_view>& cells) {
    if (cells.size() != columns_) return fmt::format("{} columns, the first row has {}", cells.size(), columns_);
    for (size_t c = 0; c < columns_; ++c) {
      const std::string_view shown = cells[c].substr(0, 40);
      const std::optional<double> value = number(cells[c]);
      if (!value) return fmt::format("column {} is '{}', which is no number", c + 1, shown);
      if (c != label_column_)
        values_.push_back(static_cast<float>(*value));
      else if (*value >= 0 && *value < 1e9 && *value == static_cast<double>(static_cast<int64_t>(*value)))
        labels_.push_back(static_cast<int64_t>(*value));
      else
        return fmt::format("the label is '{}', no class", shown);
    }
    return {};
  }
  struct Broken {
    Index row;
    std::string reason;
  };
  std::string path_;
  size_t columns_ = 0;
  std::optional<size_t> label_column_;
  std::vector<float> values_;
  std::vector<int64_t> labels_;
  std::vector<Index> lines_;
  std::vector<Broken> broken_;  // in their order
  std::vector<Field> fields_;
};

struct CsvFile {
  static constexpr const char* about = "tables of numbers (.csv, .csv.gz): a row is a sample";
  static std::vector<std::string> endings() { return {".csv", ".tsv"}; }
  static std::vector<DataOption> options() {
    return {{"label", "The column with the class: last, first, none, or its name", "last"},
            {"separator", "One character, or tab", ","},
            {"shape", "Of the values of a row, such as 1x8x8; empty: one axis", ""},
            {"classes", "Labels are below this; 0: below the largest one found", 0}};
  }
  static Layout layout(const Attributes& o) {
    const std::string separator = o.text("separator", ",");
    if (separator != "tab" && separator.size() != 1)
      throw UsageError("[csv] separator is '{}'; legal: one character, or tab", separator);
    return {o.text("label", "last"), separator == "tab" ? '\t' : separator[0], o.text("shape", ""),
            o.integer("classes", 0)};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& o) {
    return std::make_shared<Csv>(path, layout(o));
  }
  // The label last; numbers in the fewest digits that give the same value again.
  static void write(const Dataset& dataset, const std::string& path, const Attributes& o) {
    require_fixed_shapes(dataset, "[csv]");
    const char separator = layout(o).separator;
    const auto label = label_field(dataset);
    FileWriter file(path);
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      std::string line;
      for (size_t f = 0; f < sample.size(); ++f) {
        if (f == label) continue;
        const Tensor values = sample[f].cast(DType::f32);
        for (const float value : values.values<float>()) line += fmt::format("{}{}", value, separator);
      }
      if (label)
        line += fmt::format("{}", integer_value(sample[*label]));
      else if (!line.empty())
        line.pop_back();
      file.write(line + "\n");
    }
    file.commit();
  }
};

}  // namespace

D5_REGISTER(containers, "csv", CsvFile);

}  // namespace d5
