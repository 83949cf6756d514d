// SPDX-License-Identifier: Apache-2.0
// Sums that publishers of files give: MD5 (RFC 1321) and SHA-256 (FIPS 180-4). They find damage, not malice.
#pragma once

#include <string>
#include <string_view>

namespace d5 {

std::string md5(std::string_view bytes);  // in hexadecimal digits
std::string sha256(std::string_view bytes);
// "md5:..." of a file; `kind` is md5 or sha256.
std::string file_checksum(const std::string& path, std::string_view kind);
std::string contents_checksum(const std::string& path, std::string_view kind);  // of what it unpacks to

}  // namespace d5
