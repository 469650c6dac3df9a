# frozen_string_literal: true

# The version of the package, which is that of the core.

module Larder
  # The version of this package.
  VERSION = "0.1.0"
end
