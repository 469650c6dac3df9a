# frozen_string_literal: true

# The log of larder: what does not work while the cache goes on.

require "logger"

module Larder
  class << self
    # Where larder writes what does not work: a Logger, or +nil+ for nowhere. By default it is one that writes warnings to
    # +$stderr+.
    attr_accessor :logger
  end
  self.logger = Logger.new($stderr, level: Logger::WARN, progname: "larder")

  # Writes to the logger.
  module Log # :nodoc:
    def self.write(level, message)
      Larder.logger&.public_send(level, message)
    rescue StandardError => error
      # A call of the cache does not fail because a disk is full.
      warn("larder: the logger has failed: #{error.message} (#{error.class})")
    end
  end
end
