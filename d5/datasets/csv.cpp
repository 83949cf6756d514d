// SPDX-License-Identifier: Apache-2.0
// Tables of numbers as text (.csv, .tsv, packed or not): a row is a sample, its columns are the field "value" (f32, or
// the dtype that is asked for), one of them may be the label. A first row that is not all numbers names the columns. A
// row that is broken is an error when it is read.
//   label=auto: the column called label, labels or class; without names the last one, where its values are classes
//   beyond doubt: 0, 1, ... K - 1 and no others, each of them there, at least two; or where `classes` is given.
#include <algorithm>
#include <charconv>
#include <set>

#include "d5/datasets/byte_order.hpp"
#include "d5/datasets/byte_source.hpp"
#include "d5/datasets/container.hpp"
#include "d5/datasets/file_writer.hpp"
#include "d5/datasets/values.hpp"

namespace d5 {
namespace {

constexpr uint64_t most_text = uint64_t{1} << 32;
constexpr size_t most_columns = 1 << 20, most_broken = 10000;

struct Layout {
  std::string label;  // auto, last, first, none, or the name of a column
  char separator = ',';
  std::string shape;
  int64_t classes = 0;
  DType dtype = DType::f32;
};

std::string_view trimmed(std::string_view cell) {
  while (!cell.empty() && (cell.front() == ' ' || cell.front() == '"')) cell.remove_prefix(1);
  while (!cell.empty() && (cell.back() == ' ' || cell.back() == '"' || cell.back() == '\r')) cell.remove_suffix(1);
  return cell;
}

template <class T>
std::optional<T> parsed(std::string_view cell) {
  cell = trimmed(cell);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  T value = 0;
  const auto end = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (cell.empty() || end.ec != std::errc() || end.ptr != cell.data() + cell.size()) return {};
  return value;
}
std::optional<double> number(std::string_view cell) { return parsed<double>(cell); }
std::optional<int64_t> whole_number(std::string_view cell) { return parsed<int64_t>(cell); }

bool names_class(std::string_view column) { return column == "label" || column == "labels" || column == "class"; }

bool all_numbers(const std::vector<std::string_view>& cells) {
  return std::ranges::all_of(cells, [](auto cell) { return number(cell).has_value(); });
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
    for_each_line(text, [&](std::string_view line, Index line_number) {
      const auto cells = cells_of(line, layout.separator);
      if (columns_ == 0) {
        const bool named = !all_numbers(cells);
        begin(cells, layout);
        if (layout.label == "auto" && !named && columns_ > 1 &&
            (layout.classes > 0 || ends_in_classes(text, layout.separator)))
          label_column_ = columns_ - 1;
        if (named) return;
      }
      add(cells, line_number);
    });
    file->require_there(0, file->size());
    if (columns_ == 0) throw Error("[csv] {}: there are no rows", path);
    int64_t largest = layout.classes - 1;
    for (const int64_t label : labels_) largest = std::max(largest, layout.classes ? largest : label);
    const auto width = static_cast<Index>(label_column_ ? columns_ - 1 : columns_);
    Shape shape = layout.shape.empty() ? Shape{width} : parse_shape(layout.shape);
    if (shape.elements() != width)
      throw UsageError("[csv] {}: shape {} has {} values, a row has {}", path, to_string(shape), shape.elements(),
                       width);
    fields_.push_back({"value", values_.dtype, std::move(shape), {}});
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
    give_copy(into, 0, values_.dtype, shape,
              values_.bytes.data() + place * storage_bytes(values_.dtype, shape.elements()));
    if (label_column_) give_label(into, 1, labels_[static_cast<size_t>(place)], *this, i);
  }

 private:
  // Numbers of the type that is asked for.
  struct Values {
    DType dtype = DType::f32;
    std::vector<uint8_t> bytes;
    void add(std::string_view cell, double value) {
      if (dtype == DType::f32) return append_little(bytes, static_cast<float>(value));
      if (dtype == DType::f64) return append_little(bytes, value);
      append_little(bytes, whole_number(cell).value_or(0));
    }
  };

  template <class F>
  static void for_each_line(std::string_view text, F&& f) {
    Index number = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++number;
      if (!trimmed(line).empty()) f(line, number);
    }
  }

  static bool ends_in_classes(std::string_view text, char separator) {
    std::set<int64_t> found;
    bool whole = true;
    for_each_line(text, [&](std::string_view line, Index) {
      if (!whole) return;
      const size_t cell = line.rfind(separator);
      const auto label = whole_number(line.substr(cell == std::string_view::npos ? 0 : cell + 1));
      whole = label && *label >= 0 && *label < static_cast<int64_t>(most_columns);
      if (whole) found.insert(*label);
    });
    return whole && found.size() > 1 && *found.rbegin() + 1 == static_cast<int64_t>(found.size());
  }

  void begin(const std::vector<std::string_view>& cells, const Layout& layout) {
    columns_ = cells.size();
    if (columns_ == most_columns) throw Error("[csv] {}: {} columns or more", path_, columns_);
    values_.dtype = layout.dtype;
    if (layout.label == "none") return;
    if (layout.label == "auto") {
      for (size_t c = 0; c < columns_ && columns_ > 1 && !label_column_; ++c)
        if (names_class(trimmed(cells[c]))) label_column_ = c;
      return;
    }
    if (layout.label == "first") {
      label_column_ = 0;
    } else if (layout.label == "last") {
      label_column_ = columns_ - 1;
    } else {
      const auto found = std::ranges::find_if(cells, [&](auto cell) { return trimmed(cell) == layout.label; });
      if (found == cells.end())
        throw UsageError("[csv] {}: no column is called '{}'; legal: auto, first, last, none or a name", path_,
                         layout.label);
      label_column_ = static_cast<size_t>(found - cells.begin());
    }
    if (columns_ == 1) throw UsageError("[csv] {}: the only column cannot be the label; say label=none", path_);
  }
  // Of a row that is broken nothing is kept but the reason: a few bytes must not take the room of many columns.
  void add(const std::vector<std::string_view>& cells, Index line) {
    const size_t values = values_.bytes.size(), labels = labels_.size();
    const std::string reason = broken_reason(cells);
    if (!reason.empty()) {
      values_.bytes.resize(values);
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
      if (c != label_column_) {
        if (values_.dtype == DType::i64 && !whole_number(cells[c]))
          return fmt::format("column {} is '{}', no whole number of 64 bits", c + 1, shown);
        values_.add(cells[c], *value);
      } else if (*value >= 0 && *value < 1e9 && *value == static_cast<double>(static_cast<int64_t>(*value)))
        labels_.push_back(static_cast<int64_t>(*value));
      else {
        return fmt::format("the label is '{}', no class", shown);
      }
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
  Values values_;
  std::vector<int64_t> labels_;
  std::vector<Index> lines_;
  std::vector<Broken> broken_;  // in their order
  std::vector<Field> fields_;
};

struct CsvFile {
  static constexpr const char* about = "tables of numbers (.csv, .tsv, .gz too): a row is a sample";
  static std::vector<std::string> endings() { return {".csv", ".tsv", ".csv.gz", ".tsv.gz"}; }
  static std::vector<DataOption> options() {
    return {{"label",
             "The column with the class: last, first, none, or its name; auto: label, labels or class, and without "
             "names the last one if it holds 0, 1, ... K - 1, each of them",
             "auto"},
            {"separator", "One character, or tab; auto: tab for .tsv, else a comma", "auto"},
            {"dtype", "Of the values: f32, f64 or i64", "f32"},
            {"shape", "Of the values of a row, such as 1x8x8; empty: one axis", ""},
            {"classes", "Labels are below this; 0: below the largest one found", 0}};
  }
  static Layout layout(const std::string& path, const Attributes& o) {
    std::string separator = o.text("separator", "auto");
    if (separator == "auto") separator = path.ends_with(".tsv") || path.ends_with(".tsv.gz") ? "tab" : ",";
    if (separator != "tab" && separator.size() != 1)
      throw UsageError("[csv] separator is '{}'; legal: one character, tab or auto", separator);
    const std::string dtype = one_of(o, "dtype", {"f32", "f64", "i64"}, "[csv]");
    return {o.text("label", "auto"), separator == "tab" ? '\t' : separator[0], o.text("shape", ""),
            o.integer("classes", 0), parse_dtype(dtype)};
  }
  static std::shared_ptr<const Dataset> open(const std::string& path, const Attributes& o) {
    return std::make_shared<Csv>(path, layout(path, o));
  }
  // A row of names, then a row a sample, the label last; numbers in the fewest digits that give the same value again.
  static void write(const Dataset& dataset, const std::string& path, const Attributes& o) {
    require_fixed_shapes(dataset, "[csv]");
    const char separator = layout(path, o).separator;
    const auto label = label_field(dataset);
    FileWriter file(path);
    file.write(header(dataset.fields(), label, separator) + "\n");
    for (Index i = 0; i < dataset.size(); ++i) {
      const Sample sample = dataset.at(i);
      std::string line;
      for (size_t f = 0; f < sample.size(); ++f) {
        if (f == label) continue;
        append(line, sample[f], separator);
      }
      if (label)
        line += fmt::format("{}", integer_value(sample[*label]));
      else if (!line.empty())
        line.pop_back();
      file.write(line + "\n");
    }
    file.commit();
  }

 private:
  // "value_0,value_1,label": no name is a number, and none holds what separates them.
  static std::string header(const std::vector<Field>& fields, std::optional<size_t> label, char separator) {
    std::string line;
    for (size_t f = 0; f < fields.size(); ++f) {
      if (f == label) continue;
      std::string name = fields[f].name;
      std::ranges::replace_if(
          name, [&](char c) { return c == separator || c == '"' || c == '\n' || c == '\r'; }, '_');
      const Index columns = fields[f].shape->elements();
      if (columns == 1 && !number(name) && !names_class(name))
        line += name + separator;
      else
        for (Index c = 0; c < columns; ++c) line += fmt::format("{}_{}{}", name, c, separator);
    }
    if (label)
      line += "label";
    else if (!line.empty())
      line.pop_back();
    return line;
  }

  static void append(std::string& line, const Tensor& tensor, char separator) {
    const auto all = [&]<class T>(const Tensor& numbers, T) {
      for (const T value : numbers.values<T>()) line += fmt::format("{}{}", value, separator);
    };
    const DType type = tensor.dtype();
    if (type == DType::f64) return all(tensor, double{});
    if (type == DType::u64) return all(tensor, uint64_t{});
    is_float(type) ? all(tensor.cast(DType::f32), float{}) : all(tensor.cast(DType::i64), int64_t{});
  }
};

}  // namespace

D5_REGISTER(containers, "csv", CsvFile);

}  // namespace d5
