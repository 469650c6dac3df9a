# Redis is away, hangs, or comes back: a fetch loads, an invalidation is queued, and the log has what does not work.
defmodule OutageTest do
  use ExUnit.Case, async: false
  import ExUnit.CaptureLog
  import Support

  @tag :capture_log
  test "a fetch loads, and mutations are queued, while Redis hangs" do
    redis = Support.Redis.start()
    options = [namespace: namespace(), redis: redis.url, redis_timeout: "100ms"]
    [one, two] = for _ <- 1..2, do: cache(options)
    [view, seen] = for name <- [one, two], do: Larder.view(name, "v")
    assert Larder.write(view, "k", 1) == :ok
    assert Larder.read(seen, "k") == {:ok, 1}
    Support.Redis.pause(redis)
    assert Larder.write(view, "k", 2) == :queued
    assert Larder.fetch(view, "loaded", fn -> 3 end) == 3
    assert {:queued, _} = Larder.delete(view, "nothing")
    assert {:queued, _} = Larder.delete_multi(view, ["x"])
    assert Larder.invalidate_tags(one, ["t"]) == :queued

    for call <- [
          &Larder.add(view, &1, 1),
          &Larder.take(view, &1),
          &Larder.touch(view, &1),
          &Larder.increment(view, &1, 1, initial: 1)
        ] do
      assert_raise Larder.RedisError, fn -> call.("k") end
    end

    assert Larder.coherence(one).pending_invalidations > 0
    Support.Redis.go_on(redis)
    eventually("the replay", fn -> Larder.drain(one, 100) == 0 end)
    eventually("the news", fn -> Larder.read(seen, "k") != {:ok, 1} end)
    assert Larder.coherence(one).pending_invalidations == 0
  end

  test "nothing waits longer than its timeouts, and the log says what is wrong" do
    log =
      capture_log(fn ->
        view = view(redis: "redis://127.0.0.1:1", redis_timeout: 100)
        began = System.monotonic_time(:millisecond)
        assert Larder.read(view, "k") == :miss
        assert Larder.fetch(view, "k", fn -> 1 end) == 1
        assert Larder.write(view, "k", 2) == :queued
        assert "Connection refused" <> _ = Larder.coherence(view.cache).problem
        assert System.monotonic_time(:millisecond) - began < 5_000
        # The owner writes it, when it looks for it, or when it ends.
        stop_supervised!(view.cache)
      end)

    assert log =~ ~r/\[warn.*\] request to redis failed/
  end

  # A handler of `logger`.
  def log(%{level: level, msg: {:string, message}, meta: meta}, %{config: test}) do
    send(test, {:logged, level, IO.chardata_to_string(message), meta[:domain]})
  end

  def log(_, _), do: :ok

  @tag :capture_log
  test "the owner writes the log while it runs" do
    :ok = :logger.add_handler(:outage, __MODULE__, %{config: self()})
    on_exit(fn -> :logger.remove_handler(:outage) end)
    Larder.read(view(redis: "redis://127.0.0.1:1", redis_timeout: 100), "k")
    assert_receive {:logged, :warning, "request to redis failed" <> _, [:elixir, :larder]}, 5_000
  end
end
