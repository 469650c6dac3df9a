# One thread runs all processes: none of the calls holds it up.
defmodule SchedulerTest do
  use ExUnit.Case, async: false
  import Support

  # A process whose beats are counted, and which knows the longest time between two of them.
  @program """
  defmodule Heart do
    def start do
      beats = :counters.new(1, [])
      {spawn_link(fn -> beat(beats, :erlang.monotonic_time(:millisecond), 0) end), beats}
    end
    defp beat(beats, last, longest) do
      receive do
        {:longest, pid} -> send(pid, longest)
      after
        1 ->
          now = :erlang.monotonic_time(:millisecond)
          :counters.add(beats, 1, 1)
          beat(beats, now, max(longest, now - last))
      end
    end
    def longest({heart, _}) do
      send(heart, {:longest, self()})
      receive(do: (longest when is_integer(longest) -> longest))
    end
    def during({_, beats}, fun) do
      before = :counters.get(beats, 1)
      fun.()
      :counters.get(beats, 1) - before
    end
  end
  {:ok, _} = Application.ensure_all_started(:larder_cache)
  Logger.configure(level: :error)
  1 = :erlang.system_info(:schedulers_online)
  """

  test "processes run while Redis hangs" do
    redis = Support.Redis.start()

    program = """
    #{@program}
    # A call that held up the thread would do so for two seconds.
    {:ok, _} = Larder.start_link(name: Shop, namespace: "heart", ttl: "5m", redis: System.get_env("REDIS"), redis_timeout: "2s")
    view = Larder.view(Shop, "v")
    :ok = Larder.write(view, "k", 1)
    {_, 0} = System.cmd("kill", ["-STOP", System.get_env("REDIS_PID")])
    heart = Heart.start()
    tasks = for n <- 1..200 do
      Task.async(fn ->
        case rem(n, 6) do
          0 -> Larder.read(view, {"read", n})
          1 -> Larder.fetch(view, {"fetch", rem(n, 12)}, fn -> n end)
          2 -> Larder.write(view, {"write", n}, n)
          3 -> Larder.delete(view, {"delete", n})
          4 -> Larder.fetch_multi(view, ["a", n], fn keys -> Map.new(keys, &{&1, 1}) end)
          5 -> Larder.invalidate_tags(Shop, ["tag"])
        end
      end)
    end
    Task.await_many(tasks, 60_000)
    IO.inspect(Heart.longest(heart))
    """

    {printed, 0} = run(program, ["--erl", "+S 1:1"], [{"REDIS", redis.url}, {"REDIS_PID", redis.pid}])
    Support.Redis.go_on(redis)
    assert String.to_integer(String.trim(printed)) < 1_000
  end

  test "processes run while large values and many keys are worked on" do
    program = """
    #{@program}
    {:ok, _} = Larder.start_link(name: Shop, namespace: "large", ttl: "5m", memory_bytes: "4GiB")
    views = [Larder.view(Shop, "v"), Larder.view(Shop, "etf", codec: :etf, keys: [String.duplicate("k", 32)])]
    values = [Enum.to_list(1..2_000_000), Map.new(1..200_000, &{to_string(&1), &1})]
    many = for n <- 1..100_000, do: {n, n}
    keys = Enum.to_list(1..100_000)
    heart = Heart.start()
    # Each of them takes many times as long as the time between two beats. A call that held up the thread would leave room for one.
    for {name, call} <- [
      write: fn -> for view <- views, value <- values, do: {:written, Heart.during(heart, fn -> Larder.write(view, "k", value) end)} end,
      load: fn -> for view <- views, value <- values, do: {:loaded, Heart.during(heart, fn -> Larder.fetch(view, "k", [refresh: true], fn -> value end) end)} end,
      hit: fn -> for view <- views, do: {:ok, Heart.during(heart, fn -> {:ok, _} = Larder.hit(view, "k") end)} end,
      write_multi: fn -> [many: Heart.during(heart, fn -> Larder.write_multi(hd(views), many) end)] end,
      read_multi: fn -> [many: Heart.during(heart, fn -> Larder.read_multi(hd(views), keys) end)] end,
      delete_multi: fn -> [many: Heart.during(heart, fn -> Larder.delete_multi(hd(views), keys) end)] end
    ], {_, beats} <- call.(), beats < 4, do: IO.inspect({name, beats})
    """

    assert run(program, ["--erl", "+S 1:1"]) == {"", 0}
  end
end
