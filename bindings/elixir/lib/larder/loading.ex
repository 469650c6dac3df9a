defmodule Larder.Loading do
  # Fetches that memory has not answered: the process loads in its own function, or waits for the load of another one.
  @moduledoc false

  alias Larder.{Call, Load, Loaded, Native, RecursiveLoad, View}

  def fetch(view, key, options, fun) do
    case Call.of_view(view, &Native.lease(&1, &2, key, options)) do
      {:ok, value} -> value
      {:lead, load} -> lead(view, key, load, fun)
      # Elixir has no value like it.
      :miss -> fetch(view, key, Keyword.put(options, :refresh, true), fun)
      :recursive -> raise_recursive(view, key)
    end
  end

  defp lead(view, key, load, fun) do
    case run(fun, fn -> [%Load{key: key, stale: Native.stale(load)}] end) do
      {:loaded, %Loaded{keep: true}} ->
        value!(Call.of(&Native.keep(load, &1)))

      {:loaded, loaded} ->
        %Loaded{value: value, options: options} = loaded(loaded)
        value!(Call.of(&Native.complete(load, &1, View.encode(view, value), options)))

      {:failed, failure} ->
        case fail(failure, &Native.fail(load, &1, &2, &3)) do
          {:ok, stale} -> stale
          _ -> reraise(failure)
        end
    end
  end

  defp value!({:ok, value}), do: value
  defp value!(other), do: raise(Larder.Error, "the load resulted in #{inspect(other)}")

  def fetch_multi(view, keys, options, fun) do
    step_multi(view, keys, fun, Call.of_view(view, &Native.lease_multi(&1, &2, keys, options)))
  end

  defp step_multi(_, keys, _, {:ok, values}), do: Larder.found(keys, values)
  defp step_multi(view, keys, _, {:recursive, position}), do: raise_recursive(view, Enum.at(keys, position))

  defp step_multi(view, keys, fun, {:lead, load, positions}) do
    case run(fun, fn -> [at(keys, positions)] end) do
      {:loaded, loaded} ->
        %Loaded{value: values, options: options} = loaded(loaded)
        pairs = for {key, value} <- values, do: {key, View.encode(view, value)}
        step_multi(view, keys, fun, Call.of(&Native.complete_multi(load, &1, pairs, options)))

      {:failed, failure} ->
        case fail(failure, &Native.fail_multi(load, &1, &2, &3)) do
          :failed -> reraise(failure)
          answer -> step_multi(view, keys, fun, answer)
        end
    end
  end

  defp at(keys, positions) do
    keys = List.to_tuple(keys)
    Enum.map(positions, &elem(keys, &1))
  end

  defp loaded(%Loaded{} = loaded), do: loaded
  defp loaded(value), do: %Loaded{value: value}

  # Runs a loader, with its arguments if it takes them.
  defp run(fun, arguments) do
    {:loaded, if(is_function(fun, 0), do: fun.(), else: apply(fun, arguments.()))}
  catch
    kind, reason -> {:failed, {kind, reason, __STACKTRACE__}}
  end

  # Tells those who wait. The answer is a stale value, or that there is none.
  defp fail({kind, reason, stacktrace}, end_load) do
    cause = if kind == :error, do: Exception.normalize(:error, reason, stacktrace), else: {kind, reason}
    Call.of(&end_load.(&1, Exception.format_banner(kind, reason, stacktrace), cause))
  rescue
    # The cache ended meanwhile, which is not what the caller has to know.
    Larder.Closed -> :failed
  end

  defp reraise({kind, reason, stacktrace}), do: :erlang.raise(kind, reason, stacktrace)

  defp raise_recursive(view, key) do
    raise RecursiveLoad, "the loader of key #{inspect(key)} of view #{view.name} fetches that key: it would wait for itself"
  end
end
