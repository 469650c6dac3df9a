# frozen_string_literal: true

# A cache: a namespace with its tiers.

module Larder
  # A namespace with its tiers: the memory of this process, and Redis if +redis+ has its address.
  #
  #   cache = Larder::Cache.new("shop", ttl: "5m", redis: "redis://localhost")
  #
  # Options are those of larder, by their names: +ttl+, +grace+, +redis+, +memory_bytes+, +max_lag+ and so on. A number of
  # seconds or a duration of Rails is a time, and so is text with a unit, such as "250ms" or "5m".
  #
  # No thread is started and no connection opened before the first call that needs it. After a fork the child has an empty
  # memory and connections of its own.
  class Cache
    # The seconds for which the end of a cache or of the process waits for invalidations that Redis has not confirmed.
    DRAIN_LIMIT = 2

    TIMES = Larder._time_options.freeze
    OPEN = ObjectSpace::WeakMap.new
    private_constant :TIMES, :OPEN
    private_class_method :_open
    private :_invalidate_tags, :_drain, :_drain_at_exit, :_close

    class << self
      # Makes a cache.
      def new(namespace, **options)
        pairs = options.reject { |_, value| value.nil? }.map { |name, value| [name.to_s, text(name, value)] }
        cache = _open(namespace, pairs)
        OPEN[cache] = cache
        cache
      end

      # Gives the invalidations that Redis has not confirmed some time. They end with the process.
      def drain_all # :nodoc:
        OPEN.values.each do |cache|
          cache.__send__(:_drain_at_exit, DRAIN_LIMIT)
        rescue Error
          next
        end
      end

      private

      # An option as text.
      def text(name, value)
        return value.to_s unless TIMES.include?(name) && value.is_a?(Numeric)

        # A duration of Rails says that it is an Integer.
        Integer === value ? "#{value}s" : "#{format('%.9f', value.to_f)}s"
      end
    end

    # A View: values of one kind. Views of the same name and schema share their entries, in every program and language.
    #
    # - +schema+: a name and a number, such as <tt>["product", 3]</tt>. Raise the number when the shape of the values changes,
    #   and older values are misses. By default the name of the view with the number 1.
    # - +codec+: +:messagepack+, which other languages read; +:json+, which they read too, and other programs as text in Redis; or
    #   +:marshal+, which needs +keys+: secrets of at least 16 bytes. The first one signs what is written; all of them are accepted.
    # - +shared+: all hits return one object, which is frozen with all that is in it. Otherwise each hit returns a new one.
    # - +ttl+, +negative_ttl+ (of +nil+), +grace+, +retry_after+, +soft_timeout+, +hard_timeout+, +jitter+, +refresh_ahead+,
    #   +tags+: those of View
    def view(name, schema: nil, codec: :messagepack, keys: nil, shared: false, **options)
      View.open(self, name, schema: schema, codec: codec, keys: keys, shared: shared, **options)
    end

    # Invalidates all entries with one of these tags, on every node. Soft, they stay for their grace period, as stale values.
    #
    # Returns whether all nodes know: otherwise the invalidation holds in this process, and is queued and replayed until Redis
    # confirms it.
    def invalidate_tags(*tags, soft: false)
      _invalidate_tags(tags.flatten, soft)
    end

    ##
    # :method: delete_matched_with_reach
    # :call-seq: delete_matched_with_reach(pattern)
    # As #delete_matched: how many there were, and whether all nodes know.

    # Deletes the keys whose <tt>view:key</tt> matches a pattern of Redis. Returns how many there were.
    #
    # It walks over all keys of the Redis: an invalidation of a tag takes one round trip.
    def delete_matched(pattern)
      delete_matched_with_reach(pattern).first
    end

    # Waits until Redis has confirmed every invalidation of this process. Returns how many are pending still.
    def drain(limit = DRAIN_LIMIT)
      _drain(limit)
    end

    # Ends the cache of this process and its threads: later calls raise CacheClosed, but for another +close+, which does nothing.
    # Returns the number of invalidations that are lost.
    def close(limit = DRAIN_LIMIT)
      # A thread for itself: the fibers of a scheduler go on.
      return Thread.new { _close(limit) }.value if Fiber.current_scheduler

      _close(limit)
    end

    def inspect
      "#<#{self.class} #{namespace.inspect}>"
    end
  end

  at_exit { Cache.drain_all }
end
