# frozen_string_literal: true

# The cache store for Rails, `config.cache_store = :larder_store, "redis://…"`: the calls of ActiveSupport::Cache::Store over
# one view of a Larder::Cache. It does not go through the entries of ActiveSupport, whose handling costs more than a hit.

require "active_support"
require "active_support/cache"
# Loads classes that Marshal.load finds in values.
require "active_support/core_ext/marshal"
require "active_support/notifications"
require "larder"

module ActiveSupport
  module Cache
    # A store whose values are in the memory of the process and, with an address, in Redis.
    #
    #   config.cache_store = :larder_store, ENV["REDIS_URL"], { name: "shop", expires_in: 5.minutes }
    class LarderStore < Store
      require "active_support/cache/larder_store/glob"
      require "active_support/cache/larder_store/request_cache"
      require "active_support/cache/larder_store/settings"
      require "active_support/cache/larder_store/tiers"
      require "active_support/cache/larder_store/transactions"
      require "active_support/cache/larder_store/versioned"
      require "active_support/cache/larder_store/waits"

      include Settings
      include Tiers
      include Transactions

      # What a lookup returns if there is no value: `nil` is one.
      MISS = Object.new.freeze
      private_constant :MISS

      # The names of the events by their operations.
      EVENTS = %i[
        read read_multi write write_multi delete delete_multi exist? increment decrement delete_matched clear invalidate_tags
      ].to_h { |operation| [operation, "cache_#{operation}.active_support"] }.freeze
      READ = EVENTS[:read]
      private_constant :EVENTS, :READ

      # Records may have keys that do not change and versions that do.
      def self.supports_cache_versioning?
        true
      end

      # The Larder::Cache behind this store, for its `stats`, `coherence` and `drain`.
      attr_reader :larder

      def initialize(redis = nil, **options)
        own, rails, options = split(options)
        @name, @view_name, @codec, @secret, @shared = own.values_at(:name, :view, :codec, :secret, :shared)
        @store_in_transaction = own[:store_in_transaction]
        @error_handler = own[:error_handler] || method(:warn_of)
        @quiet_until = 0.0
        @waits = Waits.new
        # No value has this TTL: each write has its own.
        @larder = Larder::Cache.new(@name, redis: redis.presence, **options, ttl: FOREVER)
        extend(RequestCache) if own[:local_cache]
        super(rails)
      end

      # The value. `nil` if there is none, or one of another version.
      def read(name, options = nil)
        return observed_read(name, options) if observed?(READ)

        key = key_of(name, options)
        value = hit(key)
        value = lookup(key) if MISS.equal?(value)
        value = usable(value, version_of(name, options)) if Versioned === value
        return if MISS.equal?(value)

        options ? shown(value, options) : value
      end

      # The value. If there is none, that of the block, which is stored. Of many callers, in all processes, one runs its block.
      def fetch(name, options = nil, &block)
        return fetch_without_block(name, options) unless block_given?
        return observed_fetch(name, options, &block) if observed?(READ)

        key = key_of(name, options)
        value = options && options[:force] ? MISS : hit(key)
        value = usable(value, version_of(name, options)) if Versioned === value
        value = generate(key, version_of(name, options), merged_options(options)) { yield(name) } if MISS.equal?(value)
        shown(value, options)
      end

      # The values that are there, by their names. One round trip for those that memory does not have.
      def read_multi(*names)
        options = names.extract_options!
        observe(:read_multi, names, options) do |payload|
          keys = names.to_h { |name| [name, key_of(name, options)] }
          stored = lookup_multi(keys.values)
          found = keys.each_with_object({}) do |(name, key), results|
            value = usable(stored.fetch(key, MISS), version_of(name, options))
            results[name] = shown(value, options) unless MISS.equal?(value)
          end
          payload[:hits] = found.keys if payload
          found
        end
      end

      # The values by their names. The block makes those that are nowhere, one by one, and they are stored together.
      def fetch_multi(*names, &block)
        raise ArgumentError, "Missing block: `Cache#fetch_multi` requires a block." unless block_given?

        options = names.extract_options!
        observe(:read_multi, names, options) do |payload|
          values, generated = generate_multi(names, merged_options(options), &block)
          payload.merge!(hits: names - generated, super_operation: :fetch_multi) if payload
          values.transform_values { |value| shown(value, options) }
        end
      end

      # Stores a value, and invalidates the one that other processes have in memory. Returns whether all of them know; with
      # `unless_exist: true`, whether there was none.
      def write(name, value, options = nil)
        observe(:write, name, options) do
          merged = merged_options(options)
          store(key_of(name, options), packed(value, version_of(name, options), merged), merged)
        end
      end

      # Stores values by their names, in one round trip.
      def write_multi(hash, options = nil)
        observe(:write_multi, hash, options) do
          merged = merged_options(options)
          values = hash.to_h do |name, value|
            [key_of(name, options), packed(value, version_of(name, options), merged)]
          end
          store_multi(values, merged)
        end
      end

      # Removes a value in every process. Returns whether there was one.
      def delete(name, options = nil)
        observe(:delete, name) { remove(key_of(name, options)) }
      end

      # Removes values in every process, in one round trip. Returns how many there were.
      def delete_multi(names, options = nil)
        keys = names.map { |name| key_of(name, options) }
        observe(:delete_multi, keys) { remove_multi(keys) }
      end

      # Whether there is a value, of this version if one is given.
      def exist?(name, options = nil)
        observe(:exist?, name) do |payload|
          !MISS.equal?(usable(lookup(key_of(name, options), payload), version_of(name, options)))
        end
      end

      # Adds to a whole number in one step, which keeps its time. If there is none it becomes `amount`. Returns the sum, or
      # `nil` if Redis does not answer.
      def increment(name, amount = 1, options = nil)
        observe(:increment, name, amount: amount) do
          add_to(key_of(name, options), Integer(amount), merged_options(options))
        end
      end

      # As `increment`, with `-amount`.
      def decrement(name, amount = 1, options = nil)
        observe(:decrement, name, amount: amount) do
          add_to(key_of(name, options), -Integer(amount), merged_options(options))
        end
      end

      # Removes the keys that match a glob of Redis, or a regular expression that is as simple as one, in every process.
      # Returns how many there were. It walks over all keys of the Redis: `invalidate_tags` takes one round trip.
      def delete_matched(matcher, options = nil)
        pattern = Glob.of(matcher)
        observe(:delete_matched, matcher.inspect) do
          remove_matched(Glob.escape(namespace_key("", merged_options(options))) + pattern)
        end
      end

      # Removes everything: with a `namespace`, what is in that, and otherwise all that has the `name` of this store.
      def clear(options = nil)
        observe(:clear, nil) do
          namespace = namespace_key("", merged_options(options))
          namespace.empty? ? remove_all : remove_matched("#{Glob.escape(namespace)}*")
          nil
        end
      end

      # Does nothing: what has expired takes no memory for long.
      def cleanup(options = nil); end

      # Removes all values with one of these tags, in every process. Returns whether all of them know.
      def invalidate_tags(*tags)
        observe(:invalidate_tags, tags) { remove_tags(tags.flatten.map(&:to_s)) }
      end

      def inspect # :nodoc:
        "#<#{self.class.name} name=#{@name.inspect} options=#{@options.inspect}>"
      end

      private
        def fetch_without_block(name, options)
          if options && options[:force]
            raise ArgumentError, "Missing block: Calling `Cache#fetch` with `force: true` requires a block."
          end

          read(name, options)
        end

        # Keys and versions.

        # As `normalize_key`, which merges options for each key.
        def key_of(name, options)
          key = name.instance_of?(String) ? name : expanded_key(name).to_s
          key = key.dup.force_encoding(Encoding::UTF_8) unless Encoding::UTF_8.equal?(key.encoding)
          namespace = options && options.key?(:namespace) ? options[:namespace] : @options[:namespace]
          namespace ? "#{namespace.respond_to?(:call) ? namespace.call : namespace}:#{key}" : key
        end

        # `nil` also for a key of several parts if no part has a version.
        def version_of(name, options)
          version = options && options[:version]
          return version.to_param if version
          return if name.instance_of?(String)

          expanded_version(name).presence
        end

        # Values.

        # What is stored for a value.
        def packed(value, version, options)
          return raw(value) if options[:raw]

          version ? versioned(value, version) : value
        end

        # A text. What is a whole number is stored as one, so that `increment` can add to it.
        def raw(value)
          text = value.to_s
          number = Integer(text, 10, exception: false) if text.encoding.ascii_compatible?
          number && number.to_s == text && number.bit_length < 64 ? number : text
        end

        # The value of what is stored, if it is one for this version.
        def usable(stored, version)
          return stored unless Versioned === stored

          stored.of?(version) ? stored.value : MISS
        end

        def shown(value, options)
          options && options[:raw] && !value.nil? ? value.to_s : value
        end

        # Events.

        # Whether anybody wants to know of an event: to tell them takes longer than a hit.
        def observed?(event)
          ActiveSupport::Notifications.notifier.listening?(event) || (logger&.debug? && !silence?)
        end

        def observe(operation, name, options = nil, &block)
          return yield(nil) unless observed?(EVENTS[operation])

          instrument(operation, name, merged_options(options), &block)
        end

        def observed_read(name, options)
          instrument(:read, name, merged_options(options)) do |payload|
            value = usable(lookup(key_of(name, options), payload), version_of(name, options))
            payload[:hit] = !MISS.equal?(value)
            payload[:hit] ? shown(value, options) : nil
          end
        end

        # As `fetch`. A lookup in Redis is part of the first event, so a block needs another one for its lease.
        def observed_fetch(name, options)
          merged = merged_options(options)
          key, version = key_of(name, options), version_of(name, options)
          value = MISS
          instrument(:read, name, merged) do |payload|
            value = usable(lookup(key, payload), version) unless merged[:force]
            payload[:super_operation] = :fetch
            payload[:hit] = !MISS.equal?(value)
          end
          unless MISS.equal?(value)
            instrument(:fetch_hit, name, merged) {}
            return shown(value, options)
          end

          ran = false
          value = generate(key, version, merged) do
            ran = true
            instrument(:generate, name, merged) { yield(name) }
          end
          instrument(:write, name, merged) {} if ran && !kept_apart?(value, merged)
          shown(value, options)
        end
    end
  end
end
