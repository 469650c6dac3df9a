# Callers that wait for a load, and each way in which a load or a caller may end.
defmodule LoadingTest do
  use ExUnit.Case, async: true
  import Support
  alias Larder.{LoadFailed, LoadTimeout, RecursiveLoad}

  # A process that fetches, and waits in its loader until it is told what to return.
  defp leader(view, key \\ "k", options \\ []) do
    test = self()

    task =
      Task.async(fn ->
        Larder.fetch(view, key, options, fn ->
          send(test, {:loading, self()})

          receive do
            {:return, value} -> value
            {:run, fun} -> fun.()
          end
        end)
      end)

    assert_receive {:loading, pid}, 5_000
    assert pid == task.pid
    task
  end

  # Callers that wait for the load of another one.
  defp followers(view, count, fun \\ fn -> flunk("another one loads") end) do
    tasks = for _ <- 1..count, do: Task.async(fn -> result(fn -> Larder.fetch(view, "k", fun) end) end)
    Enum.each(tasks, &wait_for_follower/1)
    tasks
  end

  # Until it waits for the message.
  defp wait_for_follower(task) do
    eventually("the wait", fn ->
      Process.info(task.pid, [:status, :current_function]) == [status: :waiting, current_function: {Larder.Call, :of_view, 2}]
    end)
  end

  defp result(fun) do
    {:ok, fun.()}
  rescue
    error -> {:error, error}
  end

  setup do
    name = cache()
    %{cache: name, view: Larder.view(name, "v", grace: "1m")}
  end

  test "one of ten thousand callers loads", %{cache: cache, view: view} do
    leader = leader(view)
    followers = followers(view, 10_000)
    send(leader.pid, {:return, %{n: 1}})
    assert Task.await(leader) == %{"n" => 1}
    assert followers |> Task.await_many(30_000) |> Enum.uniq() == [{:ok, %{"n" => 1}}]
    assert Larder.stats(cache).loads == 1
    assert {:message_queue_len, 0} = Process.info(self(), :message_queue_len)
  end

  test "one caller of two nodes loads" do
    redis = Support.Redis.start()
    namespace = namespace()
    [one, two] = for _ <- 1..2, do: Larder.view(cache(namespace: namespace, redis: redis.url), "v")
    leader = leader(one)
    follower = Task.async(fn -> Larder.fetch(two, "k", fn -> flunk("the other node loads") end) end)
    wait_for_follower(follower)
    send(leader.pid, {:return, 7})
    assert Task.await(follower) == 7
    assert Task.await(leader) == 7
    Larder.delete(one, "k")
    eventually("the invalidation", fn -> Larder.hit(two, "k") == :miss end, 2_000)
  end

  for {kind, run, pattern} <- [
        {"raises", quote(do: fn -> raise ArgumentError, "broken" end), quote(do: %ArgumentError{message: "broken"})},
        {"fails in Erlang", quote(do: fn -> :erlang.error(:badarg) end), quote(do: %ArgumentError{})},
        {"throws", quote(do: fn -> throw(:broken) end), quote(do: {:throw, :broken})},
        {"exits", quote(do: fn -> exit({:broken, %{a: 1}}) end), quote(do: {:exit, {:broken, %{a: 1}}})}
      ] do
    test "a loader that #{kind} does so in its caller, and is the cause for the others", %{view: view} do
      Process.flag(:trap_exit, true)
      test = self()

      leader =
        spawn(fn ->
          try do
            Larder.fetch(view, "k", fn ->
              send(test, :loading)
              receive(do: (:go_on -> unquote(run).()))
            end)
          catch
            kind, reason -> send(test, {:caught, kind, reason, __STACKTRACE__})
          end
        end)

      assert_receive :loading
      followers = followers(view, 3)
      send(leader, :go_on)
      assert_receive {:caught, kind, reason, stacktrace}
      cause = if kind == :error, do: Exception.normalize(:error, reason, stacktrace), else: {kind, reason}
      assert unquote(pattern) = cause
      # It has the place where it happened.
      assert Enum.any?(stacktrace, &match?({LoadingTest, _, _, _}, &1))

      for {:error, %LoadFailed{cause: seen, message: message}} <- Task.await_many(followers) do
        assert seen == cause
        assert message =~ "the load of another caller failed: **"
      end

      assert Larder.fetch(view, "k", fn -> "next" end) == "next"
    end
  end

  test "a leader that is killed fails nobody", %{view: view} do
    Process.flag(:trap_exit, true)
    leader = leader(view)
    followers = followers(view, 3, fn -> "of a follower" end)
    Process.exit(leader.pid, :kill)
    assert followers |> Task.await_many() |> Enum.uniq() == [{:ok, "of a follower"}]
  end

  test "a leader that is killed fails nobody, also where another process has its load", %{view: view} do
    Process.flag(:trap_exit, true)
    test = self()

    leader =
      spawn(fn ->
        Larder.Call.of_view(view, &Larder.Native.lease(&1, &2, "k", []))
        |> then(&send(test, &1))

        Process.sleep(:infinity)
      end)

    assert_receive {:lead, load}
    Process.exit(leader, :kill)
    assert Larder.fetch(view, "k", fn -> "next" end) == "next"
    assert_raise Larder.Error, ~r/has ended/, fn -> Larder.Native.stale(load) end
  end

  test "a leader of another node that is killed fails nobody" do
    redis = Support.Redis.start()
    namespace = namespace()
    [one, two] = for _ <- 1..2, do: Larder.view(cache(namespace: namespace, redis: redis.url), "v")
    Process.flag(:trap_exit, true)
    leader = leader(one)
    follower = Task.async(fn -> Larder.fetch(two, "k", fn -> "of the other node" end) end)
    wait_for_follower(follower)
    Process.exit(leader.pid, :kill)
    assert Task.await(follower) == "of the other node"
  end

  test "followers that are killed leave the load", %{view: view} do
    Process.flag(:trap_exit, true)
    leader = leader(view)
    [first, second] = followers(view, 2)
    Process.exit(first.pid, :kill)
    assert_receive {:EXIT, _, :killed}
    send(leader.pid, {:return, 1})
    assert Task.await(leader) == 1
    assert Task.await(second) == {:ok, 1}
  end

  test "of processes whose loaders fetch the keys of each other, one is told so", %{view: view} do
    many = fn key -> Larder.fetch_multi(view, [key, "more"], fn keys -> Map.new(keys, &{&1, 1}) end) end

    for inner <- [fn key -> Larder.fetch(view, key, fn -> 1 end) end, many] do
      caller = fn key, other ->
        Task.async(fn ->
          result(fn ->
            Larder.fetch(view, key, fn ->
              receive do: ({:begun, other} -> send(other, :go))
              receive do: (:go -> inner.(other))
            end)
          end)
        end)
      end

      [one, two] = [caller.("a", "b"), caller.("b", "a")]
      send(one.pid, {:begun, two.pid})
      send(two.pid, {:begun, one.pid})
      {recursive, others} = [one, two] |> Task.await_many(10_000) |> Enum.split_with(&match?({:error, %RecursiveLoad{}}, &1))
      assert length(recursive) == 1
      # The other one is told that its load has failed, unless it comes later and loads itself.
      assert [other] = others
      assert match?({:ok, _}, other) or match?({:error, %LoadFailed{cause: %RecursiveLoad{}}}, other)
      assert Larder.fetch(view, "a", fn -> Larder.fetch(view, "b", fn -> 1 end) end) == 1
      Larder.delete_multi(view, ["a", "b", "more"])
    end
  end

  test "a loader that fetches its own key is told so at once", %{view: view} do
    recursive = fn -> Larder.fetch(view, "k", fn -> 1 end) end
    error = assert_raise RecursiveLoad, fn -> Larder.fetch(view, "k", recursive) end
    assert error.message =~ ~s(the loader of key "k" of view v)
    assert_raise RecursiveLoad, fn -> Larder.fetch(view, "a", fn -> Larder.fetch(view, "k", recursive) end) end
    assert_raise RecursiveLoad, fn -> Larder.fetch_multi(view, ["j", "k"], fn _ -> %{"j" => recursive.()} end) end
    assert_raise RecursiveLoad, fn -> Larder.fetch(view, "k", fn -> Larder.fetch_multi(view, ["j", "k"], fn _ -> [] end) end) end
    # The same key, whatever it is written as.
    assert_raise RecursiveLoad, fn -> Larder.fetch(view, 17, fn -> Larder.fetch(view, "17", fn -> 1 end) end) end
    assert Larder.fetch(view, "k", fn -> 1 end) == 1
  end

  test "a task of a process that loads may wait for that load", %{view: view} do
    test = self()

    load = fn ->
      task = Task.async(fn -> Larder.fetch(view, "k", fn -> 2 end) end)
      wait_for_follower(task)
      send(test, {:task, task})
      1
    end

    assert Larder.fetch(view, "k", load) == 1
    assert_receive {:task, task}
    assert Task.await(task) == 1
  end

  test "a loader fetches other keys, and starts what fetches its own key later", %{view: view} do
    assert Larder.fetch(view, "a", fn -> Larder.fetch(view, "b", fn -> 2 end) + 1 end) == 3
    test = self()

    Larder.fetch(view, "c", fn ->
      task = Task.async(fn -> receive(do: (:go_on -> Larder.fetch(view, "c", fn -> 3 end))) end)
      send(test, {:task, task})
      1
    end)

    assert_receive {:task, task}
    send(task.pid, :go_on)
    assert Task.await(task) == 1
  end

  test "a load that lasts too long is void: the others go on, and its value is stored nowhere", %{view: view} do
    leader = leader(view, "k", hard_timeout: 50)
    load = fn -> Larder.fetch(view, "k", [hard_timeout: 50], fn -> "of another one" end) end
    ends = for(_ <- 1..3, do: Task.async(fn -> result(load) end)) |> Task.await_many()
    assert Enum.all?(ends, &(match?({:error, %LoadTimeout{}}, &1) or &1 == {:ok, "of another one"})), inspect(ends)
    Larder.delete(view, "k")
    send(leader.pid, {:return, "late"})
    assert Task.await(leader) == "late"
    assert Larder.hit(view, "k") == :miss
  end

  test "a stale value is served if the load fails or is slow", %{cache: cache, view: view} do
    Larder.write(view, "k", "old")
    Larder.expire(view, "k")
    assert Larder.fetch(view, "k", fn -> raise "no database" end) == "old"
    assert Larder.fetch_multi(view, ["k"], fn _ -> raise "no database" end) == %{"k" => "old"}
    soft = Larder.view(cache, "soft", grace: "1m", soft_timeout: 20)
    Larder.write(soft, "k", "old")
    Larder.expire(soft, "k")
    leader = leader(soft)
    assert Larder.fetch(soft, "k", fn -> flunk("somebody loads") end) == "old"
    send(leader.pid, {:return, "new"})
    assert Task.await(leader) == "new"
    assert Larder.fetch(soft, "k", fn -> flunk("it is there") end) == "new"
  end

  test "a loader keeps the stale value, or returns a value that is not stored", %{view: view} do
    Larder.write(view, "k", "old")
    Larder.expire(view, "k")

    load = fn %Larder.Load{key: "k", stale: {:ok, "old"}} -> Larder.keep() end
    assert Larder.fetch(view, "k", load) == "old"
    assert Larder.hit(view, "k") == {:ok, "old"}
    assert Larder.fetch(view, "none", fn %{stale: :miss} -> Larder.loaded(%{a: 1}, store: false) end) == %{"a" => 1}
    assert Larder.hit(view, "none") == :miss
    assert_raise Larder.Error, fn -> Larder.fetch(view, "none", fn -> Larder.keep() end) end
    assert Larder.fetch_multi(view, ["x"], fn keys -> Larder.loaded(Map.new(keys, &{&1, 1}), store: false) end) == %{"x" => 1}
    assert Larder.hit(view, "x") == :miss
  end

  test "the loader runs in the process of its caller", %{view: view} do
    Process.put(:mine, 1)
    assert Larder.fetch(view, "k", fn -> Process.put(:mine, Process.get(:mine) + 1) end) == 1
    assert Process.get(:mine) == 2
  end

  test "many keys are loaded with one call", %{cache: cache, view: view} do
    Larder.write(view, "there", 0)
    leader = leader(view, "slow")
    test = self()

    many =
      Task.async(fn ->
        Larder.fetch_multi(view, ["there", "slow", "a", {"b", 1}, "absent", "a"], [tags: ["t"]], fn keys ->
          send(test, {:wanted, keys})
          for key <- keys, key != "absent", do: {key, inspect(key)}
        end)
      end)

    assert_receive {:wanted, wanted}
    assert Enum.sort(wanted) == Enum.sort(["a", {"b", 1}, "absent"])
    send(leader.pid, {:return, "by another"})
    expected = %{"there" => 0, "slow" => "by another", "a" => inspect("a"), {"b", 1} => inspect({"b", 1})}
    assert Task.await(many) == expected
    assert Task.await(leader) == "by another"
    Larder.invalidate_tags(cache, ["t"])
    assert Larder.hit(view, "a") == :miss
    assert_raise RuntimeError, "broken", fn -> Larder.fetch_multi(view, ["n"], fn _ -> raise "broken" end) end
    assert Larder.fetch_multi(view, [], fn _ -> flunk("there is nothing to load") end) == %{}
  end

  test "a leader of many keys that is killed fails nobody", %{view: view} do
    Process.flag(:trap_exit, true)
    test = self()

    leader =
      spawn(fn ->
        Larder.fetch_multi(view, ["a", "b"], fn _ ->
          send(test, :loading)
          Process.sleep(:infinity)
        end)
      end)

    assert_receive :loading
    follower = Task.async(fn -> Larder.fetch_multi(view, ["a", "b"], fn keys -> Map.new(keys, &{&1, "mine"}) end) end)
    wait_for_follower(follower)
    Process.exit(leader, :kill)
    assert Task.await(follower) == %{"a" => "mine", "b" => "mine"}
  end
end
