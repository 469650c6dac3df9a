# frozen_string_literal: true

# A cache for web services that stays coherent: memory in each process, Redis behind it.
#
# What one process deletes, overwrites or tags away, no other one serves later than +max_lag+ afterwards, in Ruby as in Rust. Of
# many callers of a key that is not there, one loads.
#
#   cache = Larder::Cache.new("shop", ttl: "5m")
#   prices = cache.view("price")
#   prices.fetch("apple") { 3 }   # => 3
#   prices.hit("apple")           # => 3
module Larder
  # Stands for a value that is not there, as +nil+ does not.
  MISSED = Object.new.freeze # :nodoc:

  # Freezes what the hits of a view share.
  module Frozen # :nodoc:
    def self.of(object)
      Ractor.make_shareable(object)
    rescue Ractor::Error
      object.freeze
    end
  end
end

require_relative "larder/version"
require_relative "larder/errors"
require_relative "larder/log"
require_relative "larder/core"
require_relative "larder/fibers"
require_relative "larder/load"
require_relative "larder/cache"
require_relative "larder/view"
