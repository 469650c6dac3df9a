# frozen_string_literal: true

# The exceptions of the package. A failure of Redis is never the reason why a fetch raises: the cache then loads.

module Larder
  # The base of all exceptions of the package.
  class Error < StandardError; end

  # An option is unknown, or its value is none of the valid ones, which the message names.
  class OptionError < Error; end

  # A key is of a class that no key has.
  class KeyTypeError < Error; end

  # A value cannot be written. It is stored nowhere.
  class EncodeError < Error; end

  # The block of another caller has raised. Its exception is the +cause+.
  class LoadFailed < Error
    # Raises it with a cause.
    def self.raise_with(message, cause) # :nodoc:
      raise new(message), cause: cause
    end
  end

  # The load exceeded its +hard_timeout+, and there was no stale value.
  class LoadTimeout < Error; end

  # A block fetched the key that it loads, or one whose block waits for that key: it would wait for itself.
  class RecursiveLoad < Error; end

  # Redis did not confirm, refused, or was not asked. Of an invalidation this is no exception: it is queued.
  class RedisError < Error; end

  # Other nodes changed the key between a read and a write, again and again. Nothing was stored.
  class Contended < RedisError; end

  # The cache was closed.
  class CacheClosed < Error; end
end
