# frozen_string_literal: true

# A small scheduler of fibers, with what Ruby asks of one: it runs fibers until each of them waits, and then sleeps until one of
# them is woken, also by another thread.

class SmallScheduler
  def initialize
    @ready = []
    @sleeping = {}
    @readable = {}
    @writable = {}
    @blocked = {}.compare_by_identity
    @lock = Thread::Mutex.new
    @unblocked = []
    @wake_reader, @wake_writer = IO.pipe
  end

  # Ruby calls it where the thread ends, or the scheduler is replaced.
  def close
    run
    @wake_reader.close
    @wake_writer.close
  end

  def run
    until @ready.empty? && @sleeping.empty? && @readable.empty? && @writable.empty? && @blocked.empty?
      turn
    end
  end

  def fiber(&block)
    fiber = Fiber.new(blocking: false, &block)
    fiber.resume
    fiber
  end

  def block(_blocker, timeout = nil)
    fiber = Fiber.current
    @blocked[fiber] = true
    @sleeping[fiber] = now + timeout if timeout
    Fiber.yield
  ensure
    @blocked.delete(fiber)
    @sleeping.delete(fiber)
  end

  # Of any thread.
  def unblock(_blocker, fiber)
    @lock.synchronize { @unblocked << fiber }
    @wake_writer.write_nonblock(".", exception: false)
  end

  def kernel_sleep(duration = nil)
    block(:sleep, duration)
    true
  end

  def io_wait(io, events, timeout = nil)
    fiber = Fiber.current
    @readable[io] = fiber if events & IO::READABLE != 0
    @writable[io] = fiber if events & IO::WRITABLE != 0
    @sleeping[fiber] = now + timeout if timeout
    Fiber.yield
    events
  ensure
    @readable.delete(io)
    @writable.delete(io)
    @sleeping.delete(fiber)
  end

  # Resumes a fiber of this thread soon, with an exception if there is one.
  def raise_into(fiber, exception)
    @ready << -> { fiber.raise(exception) if fiber.alive? }
  end

  private

  def turn
    fibers = @lock.synchronize { @unblocked.slice!(0..) }
    fibers.each { |fiber| fiber.resume if fiber.alive? && @blocked.key?(fiber) }
    @ready.slice!(0..).each(&:call)
    due = @sleeping.select { |_, time| time <= now }.keys
    due.each { |fiber| fiber.resume if fiber.alive? && @sleeping.key?(fiber) }
    wait if fibers.empty? && due.empty? && @ready.empty?
  end

  def wait
    return if @sleeping.empty? && @readable.empty? && @writable.empty? && @blocked.empty?

    soon = @sleeping.values.min
    readable, writable, = IO.select([@wake_reader, *@readable.keys], @writable.keys, nil, soon && [soon - now, 0].max)
    (readable || []).each do |io|
      io == @wake_reader ? io.read_nonblock(1_000, exception: false) : @readable[io]&.resume
    end
    (writable || []).each { |io| @writable[io]&.resume }
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
