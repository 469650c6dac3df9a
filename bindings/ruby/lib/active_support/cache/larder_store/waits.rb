# frozen_string_literal: true

# Who waits for whom: two callers whose blocks fetch each other's keys would wait for ever.

require "fiber"

module ActiveSupport
  module Cache
    class LarderStore < Store
      # The fibers of this process that load or wait; most threads have one. Of other processes none waits longer than
      # `lease_wait`.
      class Waits # :nodoc:
        def initialize
          @mutex = Mutex.new
          # The fiber that runs the block of a key.
          @leaders = {}
          # The keys that a fiber waits for.
          @wanted = {}
        end

        # Whether this fiber may wait for these keys; if it may, it does until `leave`.
        def enter(keys)
          @mutex.synchronize do
            next false if circular?(keys)

            @wanted[Fiber.current] = keys
            true
          end
        end

        def leave
          @mutex.synchronize { @wanted.delete(Fiber.current) }
        end

        # While this fiber runs the block of some keys it does not wait, unless that block does.
        def lead(keys)
          waited = @mutex.synchronize do
            keys.each { |key| @leaders[key] = Fiber.current }
            @wanted.delete(Fiber.current)
          end
          yield
        ensure
          @mutex.synchronize do
            keys.each { |key| @leaders.delete(key) }
            @wanted[Fiber.current] = waited if waited
          end
        end

        private
          # Whether one of those waited for waits for this fiber. Larder itself refuses what this fiber is loading.
          def circular?(keys)
            fibers = keys.filter_map { |key| @leaders[key] }.uniq - [Fiber.current]
            fibers.each do |fiber|
              further = @wanted.fetch(fiber, []).filter_map { |key| @leaders[key] }
              return true if further.include?(Fiber.current)

              # More are looked at while there are new ones.
              fibers.concat(further - fibers)
            end
            false
          end
      end
    end
  end
end
