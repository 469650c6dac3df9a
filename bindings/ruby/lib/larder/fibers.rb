# frozen_string_literal: true

# How a fiber of a scheduler waits for a call: by a queue, so that the scheduler runs other fibers meanwhile.

module Larder
  # The calls of fibers, and the thread that is told of their ends. Any scheduler will do: it sees a +Thread::Queue+ alone.
  module Fibers # :nodoc:
    @ended = {}
    @pump = nil

    class << self
      # Blocks this fiber until the call has ended. Native code calls it, and takes the result then.
      def wait(call)
        number = call.number
        ended = @ended[number] = Thread::Queue.new
        pump
        call.start
        ended.pop
        ended = nil
      ensure
        @ended.delete(number)
        # The fiber was stopped or raised into.
        call.cancel if ended
      end

      private

      # The thread that waits for the ends of all calls. A forked child has no thread of its parent.
      def pump
        return if @pump&.alive?

        @pump = Thread.new do
          Thread.current.name = "larder-fibers"
          loop do
            Larder._ended_calls.each { |number| @ended[number]&.push(true) }
          end
        end
      end
    end
  end
end
