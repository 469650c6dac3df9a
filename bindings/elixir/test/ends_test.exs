# The end of a cache, of its owner and of the emulator; and what is left in memory.
defmodule EndsTest do
  use ExUnit.Case, async: false
  import ExUnit.CaptureLog
  import Support

  defp loading(view, fun) do
    test = self()

    task =
      Task.async(fn ->
        try do
          Larder.fetch(view, "k", fn ->
            send(test, :loading)
            receive(do: (:go_on -> fun.()))
          end)
        rescue
          error -> error
        end
      end)

    assert_receive :loading
    task
  end

  defp waiting(fun) do
    task = Task.async(fun)
    eventually("the wait", fn -> Process.info(task.pid, :current_function) == {:current_function, {Larder.Call, :of_view, 2}} end)
    task
  end

  # The name of a process that was killed is that of the cache it had, until the next one runs.
  defp runs?(name) do
    is_map(Larder.stats(name))
  rescue
    Larder.Closed -> false
  end

  test "callers of a cache that ends get an error, and so do later ones" do
    name = cache()
    view = Larder.view(name, "v")
    Larder.write(view, "there", 1)
    leader = loading(view, fn -> 1 end)
    failing = Task.async(fn -> catch_throw(Larder.fetch(view, "other", fn -> receive(do: (:go_on -> throw(:mine))) end)) end)
    follower = waiting(fn -> catch_error(Larder.fetch(view, "k", fn -> flunk("it does not lead") end)) end)
    stop_supervised!(name)
    assert %Larder.Closed{} = Task.await(follower)
    send(leader.pid, :go_on)
    assert %Larder.Closed{} = Task.await(leader)
    # What a loader throws is its caller's, as always.
    send(failing.pid, :go_on)
    assert Task.await(failing) == :mine
    message = ~r/no cache #{inspect(name)} is running/

    for call <- [
          fn -> Larder.hit(view, "there") end,
          fn -> Larder.fetch(view, "there", fn -> 1 end) end,
          fn -> Larder.fetch_multi(view, ["there"], fn _ -> [] end) end,
          fn -> Larder.write(view, "there", 1) end,
          fn -> Larder.increment(view, "there") end,
          fn -> Larder.stats(name) end,
          fn -> Larder.coherence(name) end,
          fn -> Larder.set_enabled(name, false) end,
          fn -> Larder.drain(name) end,
          fn -> Larder.clear(name) end,
          fn -> Larder.view(name, "v") end
        ] do
      assert_raise Larder.Closed, message, call
    end
  end

  test "a view goes on with the cache that its supervisor has started again" do
    name = cache()
    view = Larder.view(name, "v", ttl: "1m")
    leader = loading(view, fn -> 1 end)
    Larder.write(view, "k", "of the first")
    owner = Process.whereis(name)
    monitor = Process.monitor(owner)
    Process.exit(owner, :kill)
    assert_receive {:DOWN, ^monitor, _, _, :killed}
    eventually("the next cache", fn -> runs?(name) end)
    assert Larder.hit(view, "k") == :miss
    assert Larder.fetch(view, "k", fn -> "of the second" end) == "of the second"
    assert Larder.hit(view, "k") == {:ok, "of the second"}
    assert Larder.read(Larder.view(name, "v", ttl: "1m"), "k") == {:ok, "of the second"}
    # The cache of the killed process ends too.
    send(leader.pid, :go_on)
    assert %Larder.Closed{} = Task.await(leader)
  end

  test "the connections of a cache end with its owner, however that ends" do
    redis = Support.Redis.start()
    # The one that asks is one of them.
    clients = fn -> redis |> Support.Redis.command(["CLIENT", "LIST"]) |> String.split("\n", trim: true) |> length() end
    Process.flag(:trap_exit, true)

    for reason <- [:normal, :kill] do
      {:ok, owner} = Larder.start_link(name: Owned, namespace: namespace(), ttl: "5m", redis: redis.url)
      view = Larder.view(Owned, "v")
      assert Larder.write(view, "k", 1) == :ok
      assert clients.() > 1
      if reason == :kill, do: Process.exit(owner, :kill), else: GenServer.stop(owner)
      eventually("the end of the connections", fn -> clients.() == 1 end)
      assert_raise Larder.Closed, fn -> Larder.read(view, "k") end
    end
  end

  test "a name has one cache, and two caches do not disturb each other" do
    [one, two] = [cache(), cache()]
    Process.flag(:trap_exit, true)
    assert {:error, {:already_started, _}} = Larder.start_link(name: one, namespace: "n", ttl: "1m")
    [first, second] = for name <- [one, two], do: Larder.view(name, "v")
    Larder.write(first, "k", 1)
    assert Larder.read(second, "k") == :miss
    stop_supervised!(one)
    assert Larder.fetch(second, "k", fn -> 2 end) == 2
  end

  test "a load that its process forgets is given up" do
    view = view()
    test = self()

    spawn_link(fn ->
      {:lead, _} = Larder.Call.of_view(view, &Larder.Native.lease(&1, &2, "k", []))
      :erlang.garbage_collect()
      send(test, :forgotten)
      Process.sleep(:infinity)
    end)

    assert_receive :forgotten
    assert Larder.fetch(view, "k", fn -> "next" end) == "next"
  end

  test "an owner that ends waits for invalidations, and tells what is lost" do
    redis = Support.Redis.start()

    log =
      capture_log(fn ->
        name = cache(redis: redis.url, redis_timeout: "100ms")
        view = Larder.view(name, "v")
        assert Larder.write(view, "k", 1) == :ok
        Support.Redis.pause(redis)
        assert {:queued, _} = Larder.delete(view, "k")
        {microseconds, :ok} = :timer.tc(fn -> stop_supervised!(name) end)
        assert microseconds in 1_900_000..4_000_000
      end)

    assert log =~ "ended before Redis confirmed 1 invalidations"
    assert log =~ "request to redis failed"
  end

  test "the stop of an application confirms what is pending" do
    redis = Support.Redis.start()

    program = """
    defmodule App do
      use Application
      def start(_, _) do
        redis = System.get_env("REDIS")
        Supervisor.start_link([{Larder, name: Shop, namespace: "stop", ttl: "5m", redis: redis, redis_timeout: 100}], strategy: :one_for_one)
      end
    end
    Logger.configure(level: :error)
    :ok = :application.load({:application, :shop, vsn: '1', mod: {App, []}, applications: [:kernel, :stdlib, :elixir, :larder_cache]})
    {:ok, _} = Application.ensure_all_started(:shop)
    view = Larder.view(Shop, "v")
    :ok = Larder.write(view, "k", 1)
    # Redis does not answer for a second.
    {:ok, socket} = :gen_tcp.connect({:local, String.replace_prefix(System.get_env("REDIS"), "redis+unix://", "")}, 0, [])
    :ok = :gen_tcp.send(socket, "CLIENT PAUSE 1000 ALL\\r\\n")
    receive(do: ({:tcp, _, _} -> :ok))
    IO.inspect(Larder.delete(view, "k"))
    System.stop(0)
    Process.sleep(:infinity)
    """

    assert run(program, [], [{"REDIS", redis.url}]) == {"{:queued, true}\n", 0}
    assert Support.Redis.command(redis, ["EXISTS", "stop:v:k"]) == 0
  end

  test "the emulator ends at any time, and a module that is purged leaves the library where it is" do
    redis = Support.Redis.start()

    program = """
    {:ok, _} = Application.ensure_all_started(:larder_cache)
    {:ok, _} = Larder.start_link(name: Shop, namespace: "halt", ttl: "5m", redis: System.get_env("REDIS"))
    view = Larder.view(Shop, "v")
    for n <- 1..50, do: spawn(fn -> for m <- 1..1_000_000, do: Larder.fetch(view, {n, m}, fn -> Larder.write(view, m, n) end) end)
    Process.sleep(String.to_integer(System.get_env("PAUSE")))
    if System.get_env("PURGE") do
      :code.delete(Larder.Native)
      :code.purge(Larder.Native)
      Process.sleep(50)
      IO.puts("still there")
    end
    System.halt(0)
    """

    for pause <- 0..40//8 do
      assert {"", 0} = run(program, [], [{"REDIS", redis.url}, {"PAUSE", to_string(pause)}])
    end

    purged = run("Logger.configure(level: :none)\n" <> program, [], [{"REDIS", redis.url}, {"PAUSE", "20"}, {"PURGE", "yes"}])
    assert {said, 0} = purged
    assert said =~ "still there"
  end

  test "memory stays within its bound through a million writes" do
    program = """
    defmodule Program do
      def run do
        {:ok, _} = Application.ensure_all_started(:larder_cache)
        {:ok, _} = Larder.start_link(name: Shop, namespace: "flat", ttl: "5m", memory_bytes: "8MiB")
        view = Larder.view(Shop, "v")
        for number <- 1..30, do: round(view, number)
        first = megabytes()
        for number <- 31..100, do: round(view, number)
        grown = megabytes() - first
        IO.puts(if grown < 40, do: "flat", else: "grown by \#{grown}")
      end

      defp round(view, round) do
        numbers = for n <- 1..10_000, do: rem(round * 10_000 + n, 50_000)
        Larder.write_multi(view, for(n <- numbers, do: {n, value(n)}))
        # Each that is there is kept as a term, and each that is not is loaded.
        for n <- Enum.take_every(numbers, 5), do: Larder.fetch(view, n, fn -> value(n) end)
      end

      defp value(n), do: %{"n" => n, "text" => String.duplicate("x", 200)}

      defp megabytes do
        for pid <- Process.list(), do: :erlang.garbage_collect(pid)
        [_, kilobytes] = Regex.run(~r/VmRSS:\\s+(\\d+)/, File.read!("/proc/self/status"))
        div(String.to_integer(kilobytes), 1024)
      end
    end

    Program.run()
    """

    assert run(program) == {"flat\n", 0}
  end
end
