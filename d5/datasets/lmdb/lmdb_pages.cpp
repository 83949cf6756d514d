// SPDX-License-Identifier: Apache-2.0
// The format, version 1 of a machine of 64 bits, little-endian. A page: u64 its number, u16 pad, u16 flags, u16 where
// the free space begins (an overflow run: u32 its pages, with the next), u16 where it ends; then u16 for each node,
// where it begins in the page. A node: u16 low, u16 high, u16 flags, u16 bytes of the key, the key, then in a leaf the
// value (low and high are its size; flag 1: the number of the overflow page that holds it). In a branch low, high and
// flags are the number of a page. Pages 0 and 1 are the heads, of which the one with the later transaction counts:
// u32 magic, u32 version, two u64, two databases of 48 bytes (the second one is ours), u64 last page, u64 transaction.
// A database: u32 (the first one's: bytes of a page), u16 flags, u16 depth, four u64 counts, u64 its root.
#include "d5/datasets/lmdb/lmdb_pages.hpp"

#include <algorithm>
#include <utility>

#include "d5/datasets/byte_order.hpp"

namespace d5 {
namespace {

constexpr uint32_t magic = 0xbeefc0de, version = 1;
constexpr uint64_t page_head = 16, node_head = 8, no_page = ~uint64_t{0};
constexpr uint16_t branch = 1, leaf = 2, overflow = 4, meta = 8, kinds = 0x6f;  // flags of a page
constexpr uint16_t in_overflow = 1, several = 6;                                // flags of a node
constexpr int deepest = 32;

struct Head {
  uint64_t page_bytes = 0, root = 0, last_page = 0, transaction = 0;
  uint16_t flags = 0;
};

class Walk {
 public:
  explicit Walk(const FileBytes& file) : file_(file) {
    const Head first = head(0);
    const Head second = head(first.page_bytes);
    head_ = second.transaction > first.transaction ? second : first;
    page_bytes_ = first.page_bytes;
    if (head_.last_page >= file.size() / page_bytes_)
      fail("cut short: {} bytes, the last page is number {}", file.size(), head_.last_page);
    if (head_.flags & 4) fail("keys with several values are not read");
    if (head_.root == no_page) return;
    descend(head_.root, 0);
    file.require_there(0, file.size());
  }
  std::vector<LmdbValue> values;

 private:
  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> text, T&&... values) const {
    throw Error("[lmdb] {}: {}", file_.name(), fmt::format(text, std::forward<T>(values)...));
  }
  template <class T>
  T number(uint64_t at) const {
    if (!file_.holds(at, sizeof(T))) fail("cut short, or no LMDB file");
    return load_little<T>(file_.data() + at);
  }

  Head head(uint64_t page) const {
    if (file_.holds(page, page_head + 136)) file_.touch(page, page_head + 136);
    const uint64_t at = page + page_head;
    if (!(number<uint16_t>(page + 10) & meta) || number<uint32_t>(at) != magic) fail("no LMDB file");
    if (number<uint32_t>(at + 4) != version)
      fail("version {} of the format; {} is read", number<uint32_t>(at + 4), version);
    Head found;
    found.page_bytes = number<uint32_t>(at + 24);
    if (found.page_bytes < 256 || found.page_bytes > 65536 || (found.page_bytes & (found.page_bytes - 1)))
      fail("pages of {} bytes", found.page_bytes);
    found.flags = number<uint16_t>(at + 76);
    found.root = number<uint64_t>(at + 112);
    found.last_page = number<uint64_t>(at + 120);
    found.transaction = number<uint64_t>(at + 128);
    return found;
  }

  uint64_t place(uint64_t page) const {
    if (page < 2 || page > head_.last_page) fail("page {} of {}: damaged", page, head_.last_page);
    return page * page_bytes_;
  }

  void descend(uint64_t page, int depth) {
    // A page that is its own ancestor, or is listed twice, would never end.
    if (depth == deepest || ++visited_ > head_.last_page) fail("its pages go in circles: damaged");
    const uint64_t at = place(page);
    file_.touch(at, page_bytes_);
    const uint64_t lower = number<uint16_t>(at + 12);
    const uint16_t kind = number<uint16_t>(at + 10) & kinds;
    if (kind != branch && kind != leaf) fail("page {} is of kind {}: damaged, or of another use", page, kind);
    if (lower < page_head || lower > page_bytes_ || lower % 2) fail("page {}: damaged", page);
    for (uint64_t n = page_head; n < lower; n += 2) {
      const uint64_t begin = number<uint16_t>(at + n);
      if (begin < lower || begin + node_head > page_bytes_) fail("page {}: a node at {}: damaged", page, begin);
      const uint64_t node = at + begin, low = number<uint16_t>(node), high = number<uint16_t>(node + 2);
      const uint64_t flags = number<uint16_t>(node + 4);
      if (kind == branch)
        descend(low | high << 16 | flags << 32, depth + 1);
      else
        note(page, begin, low | high << 16, flags);
    }
  }

  void note(uint64_t page, uint64_t begin, uint64_t size, uint64_t flags) {
    const uint64_t node = place(page) + begin, value = begin + node_head + number<uint16_t>(node + 6);
    if (flags & several) fail("page {}: a database within the database, or several values: not read", page);
    const uint64_t here = flags & in_overflow ? 8 : size;
    if (value + here > page_bytes_) fail("page {}: a value that leaves it: damaged", page);
    if (!(flags & in_overflow)) return values.push_back({place(page) + value, size});
    const uint64_t run = place(number<uint64_t>(place(page) + value));
    file_.touch(run, page_head);
    const uint64_t pages = number<uint32_t>(run + 12);
    if (!(number<uint16_t>(run + 10) & overflow) || pages > head_.last_page - run / page_bytes_ + 1 ||
        size > pages * page_bytes_ - std::min(page_head, pages * page_bytes_))
      fail("page {}: a value of {} bytes in {} pages: damaged", run / page_bytes_, size, pages);
    values.push_back({run + page_head, size});
  }

  const FileBytes& file_;
  Head head_;
  uint64_t page_bytes_ = 0, visited_ = 0;
};

}  // namespace

std::vector<LmdbValue> lmdb_values(const FileBytes& file) { return std::move(Walk(file).values); }

}  // namespace d5
