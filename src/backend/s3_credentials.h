// SPDX-License-Identifier: Apache-2.0
// The keys for an S3 service, from where other programs have them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "backend/s3_tier.h"

namespace verbena::backend {

// Of one profile in the text of a file of credentials. None: it has no such profile, or one without
// both keys.
[[nodiscard]] std::optional<S3Credentials> parse_s3_credentials(std::string_view text,
                                                                std::string_view profile);

// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN; otherwise the profile AWS_PROFILE
// ("default") of AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials). kInvalid: there are none.
[[nodiscard]] Result<S3Credentials> find_s3_credentials();

// AWS_CA_BUNDLE: a file with the certificates of authorities; empty: none.
[[nodiscard]] std::string find_s3_ca_file();

}  // namespace verbena::backend
