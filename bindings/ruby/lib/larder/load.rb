# frozen_string_literal: true

# The load that a block gets, and the loads that are under way in this fiber.

module Larder
  # What a block returns that has found the stale value, +load.stale+, unchanged: it is fresh again. From the block of View#update: the
  # value stays as it is.
  KEEP = Object.new
  def KEEP.inspect
    "Larder::KEEP"
  end
  KEEP.freeze

  # What the block of View#update returns to remove the value.
  REMOVE = Object.new
  def REMOVE.inspect
    "Larder::REMOVE"
  end
  REMOVE.freeze

  # A wait of a fiber that loads something.
  class Waiting; end # :nodoc:

  # An update that a block decides about.
  class Update; end # :nodoc:

  # What the block of View#fetch gets: the stale value, and options of the new one.
  #
  # - +stale+: the stale value, or +nil+
  # - <tt>ttl = time</tt>, <tt>grace = time</tt>: the lifetime of the value
  # - <tt>tag(*names)</tt>: tags of the value
  # - +no_store!+: its callers get the value, and no tier keeps it
  class Load; end

  # What the block of View#fetch_multi gets: options of all values that it loads. As Load, without a stale value.
  class BulkLoad; end

  # The loads that blocks of this fiber are in: pairs of what is loaded, and the load.
  module Loads # :nodoc:
    class << self
      # Whether a block of this fiber is loading this key.
      def leads?(view, key)
        loads = Thread.current[:larder_loads]
        return false if loads.nil? || loads.empty?

        own = own(view, key)
        loads.any? { |loaded, load| loaded == own && load._leads? }
      end

      # Raises if a block of this fiber is loading this key: it would wait for itself.
      def check(view, key)
        return unless leads?(view, key)

        raise RecursiveLoad, "the block for key #{key.inspect} of view #{view.name.inspect} fetches that key: it would " \
                             "wait for itself"
      end

      # What the block returns, which waits for the loads of these keys. Raises if one of them waits for a load of this fiber.
      def wait(view, keys)
        held = Thread.current[:larder_loads]&.filter_map { |loaded, load| loaded if load._leads? }
        return yield if held.nil? || held.empty?

        waiting = Waiting._begin(held, keys.map { |key| own(view, key) })
        begin
          yield
        ensure
          waiting._end
        end
      end

      # Notes that the block loads these keys.
      def lead(view, keys, load)
        before = Thread.current[:larder_loads] || []
        begin
          Thread.current[:larder_loads] = before + keys.map { |key| [own(view, key), load] }
          yield
        ensure
          Thread.current[:larder_loads] = before
        end
      end

      private

      def own(view, key)
        "#{view.cache.__id__}\0#{view.name}\0".b << Larder.key_bytes(key).b
      end
    end
  end
end
