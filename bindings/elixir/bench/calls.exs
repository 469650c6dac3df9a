# The calls that are measured in Elixir, of larder and of ETS beside it: `mix run bench/calls.exs [REDIS]`.
#
# A line on stdin names a workload, a subject and a number of calls. The answer is the nanoseconds of one call, or why there are
# none. It is the time of the clock, since the emulator's threads spin while they wait for work.

defmodule Calls do
  @keys for number <- 1..1_000, do: "product:#{number}"
  @value %{
    "name" => "apple",
    "price" => 3,
    "tags" => ["fruit", "red"],
    "description" => String.duplicate("a", 160),
    "weight" => 0.5
  }
  @text String.duplicate("a", 300)

  def main(words) do
    {:ok, _} = Application.ensure_all_started(:larder_cache)
    {:ok, _} = Larder.start_link(name: Calls, namespace: "bench", ttl: "10m")
    loop(List.first(words), %{})
  end

  defp loop(redis, calls) do
    case IO.gets("") do
      line when is_binary(line) ->
        [workload, subject, count] = line |> String.trim_trailing("\n") |> String.split("\t")
        calls = Map.put_new_lazy(calls, {workload, subject}, fn -> made(workload, subject, String.to_integer(count)) end)
        IO.puts(answer(calls[{workload, subject}], workload, redis, String.to_integer(count)))
        loop(redis, calls)

      _ ->
        :ok
    end
  end

  # Calls that have run once.
  defp made("elixir-cold", _, _), do: :cold

  defp made(workload, subject, count) do
    call = call(workload, subject)
    hits(call, count)
    call
  rescue
    error -> {:failed, Exception.message(error)}
  end

  defp answer({:failed, message}, _, _, _), do: "failed: #{message}"
  defp answer(:cold, "elixir-cold", redis, count), do: cold_fetches(redis, count)
  defp answer(call, _, _, count), do: hits(call, count)

  defp call("elixir-map", "larder"), do: of_larder("map", @value, &Larder.hit/2)
  defp call("elixir-map", "larder fetch"), do: of_larder("map", @value, fn view, key -> Larder.fetch(view, key, fn -> nil end) end)

  defp call("elixir-map", "larder view and fetch") do
    of_larder("map", @value, fn _, key -> Larder.fetch(Larder.view(Calls, "map"), key, fn -> nil end) end)
  end

  defp call("elixir-map", "ets"), do: of_ets(@value)
  defp call("elixir-text", "larder"), do: of_larder("text", @text, &Larder.hit/2)
  defp call("elixir-text", "ets"), do: of_ets(@text)
  defp call("elixir-small", "larder"), do: of_larder("small", 17, &Larder.hit/2)
  defp call("elixir-small", "ets"), do: of_ets(17)

  defp of_larder(name, value, call) do
    view = Larder.view(Calls, name)
    for key <- @keys, do: :ok = Larder.write(view, key, value)
    ^value = Larder.fetch(view, hd(@keys), fn -> nil end)
    &call.(view, &1)
  end

  defp of_ets(value) do
    table = :ets.new(:calls, [:public, read_concurrency: true])
    for key <- @keys, do: :ets.insert(table, {key, value})
    &:ets.lookup(table, &1)
  end

  defp hits(call, count) do
    keys = List.to_tuple(@keys)
    keys = for _ <- 1..count, do: elem(keys, :rand.uniform(1_000) - 1)
    :erlang.garbage_collect()
    start = :erlang.monotonic_time(:nanosecond)
    each(keys, call)
    (:erlang.monotonic_time(:nanosecond) - start) / count
  end

  defp each([key | keys], call) do
    call.(key)
    each(keys, call)
  end

  defp each([], _), do: :ok

  # The time of a fetch that no tier answers, with a loader that takes none.
  defp cold_fetches(redis, count) do
    {:ok, cache} = Larder.start_link(name: Cold, namespace: "bench-elixir", ttl: "10m", redis: redis)
    view = Larder.view(Cold, "cold")
    Larder.fetch(view, "connects", fn -> @value end)
    first = System.unique_integer([:positive])
    start = :erlang.monotonic_time(:nanosecond)
    for number <- first..(first + count - 1), do: Larder.fetch(view, number, fn -> @value end)
    elapsed = (:erlang.monotonic_time(:nanosecond) - start) / count
    GenServer.stop(cache)
    elapsed
  end
end

Calls.main(System.argv())
