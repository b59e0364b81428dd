// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_xml.h"

#include <deque>
#include <memory>

#include <fmt/format.h>

#include "backend/s3_format.h"
#include "backend/s3_library.h"

namespace verbena::backend {
namespace {

constexpr size_t kMaxElements = 100'000;  // a listing of 1000 keys has some 10,000
constexpr size_t kMaxDepth = 16;
constexpr size_t kMaxTextBytes = 16 * 1024;  // a key of 1024 bytes has 3072, encoded

struct Element {
  std::string name;  // without its namespace prefix
  std::string text;
  std::vector<Element*> children;

  [[nodiscard]] const Element* find(std::string_view wanted) const {
    for (const Element* const child : children) {
      if (child->name == wanted) return child;
    }
    return nullptr;
  }
  [[nodiscard]] std::string text_of(std::string_view wanted) const {
    const Element* const child = find(wanted);
    return child == nullptr ? std::string() : child->text;
  }
};

class Document {
 public:
  // The error says why it is none.
  [[nodiscard]] verbena::Result<const Element*, std::string> parse(std::string_view body) {
    auto library = ExpatLibrary::load();
    if (!library) return fail(library.error().what);
    api_ = *library;
    if (body.size() > kMaxXmlBytes) return fail(std::string("it is too long"));
    const std::unique_ptr<XML_ParserStruct, decltype(api_->ParserFree)> parser(
        api_->ParserCreate("UTF-8"), api_->ParserFree);
    if (!parser) return fail(std::string("no memory"));
    parser_ = parser.get();
    api_->SetUserData(parser_, this);
    api_->SetElementHandler(parser_, &Document::on_start, &Document::on_end);
    api_->SetCharacterDataHandler(parser_, &Document::on_text);
    api_->SetStartDoctypeDeclHandler(parser_, &Document::on_doctype);
    const auto status =
        api_->Parse(parser_, body.data(), static_cast<int>(body.size()), /*isFinal=*/1);
    if (!refused_.empty()) return fail(refused_);
    if (status != XML_STATUS_OK) {
      return fail(fmt::format("it is not XML: {}", api_->ErrorString(api_->GetErrorCode(parser_))));
    }
    return &elements_.front();
  }

 private:
  void refuse(const char* why) {
    if (refused_.empty()) refused_ = why;
    api_->StopParser(parser_, XML_FALSE);
  }
  static void on_start(void* user, const XML_Char* name, const XML_Char** /*attributes*/) {
    auto* const self = static_cast<Document*>(user);
    if (self->elements_.size() >= kMaxElements) return self->refuse("it has too many elements");
    if (self->open_.size() >= kMaxDepth) return self->refuse("its elements are too deep");
    const std::string_view whole = name;
    Element& element = self->elements_.emplace_back();
    element.name = whole.substr(whole.rfind(':') + 1);  // npos + 1 is 0
    if (!self->open_.empty()) self->open_.back()->children.push_back(&element);
    self->open_.push_back(&element);
  }
  static void on_end(void* user, const XML_Char* /*name*/) {
    static_cast<Document*>(user)->open_.pop_back();
  }
  static void on_text(void* user, const XML_Char* text, int length) {
    auto* const self = static_cast<Document*>(user);
    if (self->open_.empty()) return;
    std::string& to = self->open_.back()->text;
    if (to.size() + static_cast<size_t>(length) > kMaxTextBytes) {
      return self->refuse("an element has too much text");
    }
    to.append(text, static_cast<size_t>(length));
  }
  static void on_doctype(void* user, const XML_Char* /*name*/, const XML_Char* /*system*/,
                         const XML_Char* /*public_id*/, int /*internal*/) {
    static_cast<Document*>(user)->refuse("it has a document type");
  }

  const ExpatLibrary* api_ = nullptr;
  XML_Parser parser_ = nullptr;
  std::string refused_;
  std::deque<Element> elements_;  // in order; the first one is the root
  std::vector<Element*> open_;
};

using Failed = std::unexpected<std::string>;

[[nodiscard]] Failed unexpected_answer(std::string_view what) {
  return fail(fmt::format("unexpected answer: {}", what));
}

[[nodiscard]] std::string escaped_text(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      default:  escaped += letter; break;
    }
  }
  return escaped;
}

}  // namespace

verbena::Result<S3Listing, std::string> parse_s3_listing(std::string_view body) {
  Document document;
  const auto root = document.parse(body);
  if (!root) return unexpected_answer(root.error());
  if ((*root)->name != "ListBucketResult") return unexpected_answer("it is not a listing");
  const bool encoded = (*root)->text_of("EncodingType") == "url";
  S3Listing listing;
  for (const Element* const entry : (*root)->children) {
    if (entry->name != "Contents") continue;
    const Element* const key = entry->find("Key");
    if (key == nullptr || key->text.empty()) return unexpected_answer("an object has no key");
    if (!encoded) {
      listing.keys.push_back(key->text);
      continue;
    }
    auto decoded = url_decoded(key->text);
    if (!decoded) return unexpected_answer("a key is not encoded correctly");
    listing.keys.push_back(std::move(*decoded));
  }
  const std::string cut = (*root)->text_of("IsTruncated");
  if (cut != "true" && cut != "false") return unexpected_answer("is the listing complete?");
  if (cut == "false") return listing;
  listing.next = (*root)->text_of("NextContinuationToken");
  if (listing.next.empty()) return unexpected_answer("a listing is cut, and has no token");
  return listing;
}

verbena::Result<std::vector<S3UploadEntry>, std::string> parse_s3_uploads(std::string_view body) {
  Document document;
  const auto root = document.parse(body);
  if (!root) return unexpected_answer(root.error());
  if ((*root)->name != "ListMultipartUploadsResult") {
    return unexpected_answer("it is not a list of uploads");
  }
  const bool encoded = (*root)->text_of("EncodingType") == "url";
  std::vector<S3UploadEntry> uploads;
  for (const Element* const entry : (*root)->children) {
    if (entry->name != "Upload") continue;
    const std::string key = entry->text_of("Key");
    auto decoded = encoded ? url_decoded(key) : key;
    std::string id = entry->text_of("UploadId");
    if (!decoded || id.empty()) return unexpected_answer("an upload has no key or no id");
    uploads.push_back({std::move(*decoded), std::move(id)});
  }
  return uploads;
}

bool is_s3_upload_end(std::string_view body) {
  Document document;
  const auto root = document.parse(body);
  return root && (*root)->name == "CompleteMultipartUploadResult";
}

verbena::Result<std::string, std::string> parse_s3_upload(std::string_view body) {
  Document document;
  const auto root = document.parse(body);
  if (!root) return unexpected_answer(root.error());
  if ((*root)->name != "InitiateMultipartUploadResult") {
    return unexpected_answer("it is not that of an upload");
  }
  std::string id = (*root)->text_of("UploadId");
  if (id.empty()) return unexpected_answer("the upload has no id");
  return id;
}

std::optional<S3Fault> parse_s3_fault(std::string_view body) {
  if (body.empty()) return std::nullopt;
  Document document;
  const auto root = document.parse(body);
  if (!root || (*root)->name != "Error") return std::nullopt;
  return S3Fault{(*root)->text_of("Code"), (*root)->text_of("Message")};
}

std::string s3_parts_document(std::span<const std::string> etags) {
  std::string text = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < etags.size(); ++i) {
    text += fmt::format("<Part><PartNumber>{}</PartNumber><ETag>{}</ETag></Part>", i + 1,
                        escaped_text(etags[i]));
  }
  return text + "</CompleteMultipartUpload>";
}

}  // namespace verbena::backend
