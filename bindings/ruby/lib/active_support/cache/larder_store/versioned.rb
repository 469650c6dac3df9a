# frozen_string_literal: true

# A value with the version of its record, as it is stored.

module ActiveSupport
  module Cache
    class LarderStore < Store
      # Values without a version are stored as they are.
      class Versioned # :nodoc:
        attr_reader :value

        def initialize(version, value)
          @version, @value = version, value
        end

        # Whether a caller that has this version may get the value. One that has none may.
        def of?(version)
          version.nil? || version == @version
        end
      end
    end
  end
end
