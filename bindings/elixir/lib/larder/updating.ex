defmodule Larder.Updating do
  # Updates by a function, which the process calls between the steps.
  @moduledoc false

  alias Larder.{Call, Native, View}

  def update(view, key, options, fun) do
    step(view, fun, Call.of_view(view, &Native.update(&1, &2, key, options)))
  end

  defp step(view, fun, {:decide, update, found}) do
    made =
      try do
        encoded(view, fun.(found))
      rescue
        exception -> leave(update, :error, exception, __STACKTRACE__)
      catch
        kind, reason -> leave(update, kind, reason, __STACKTRACE__)
      end

    step(view, fun, Call.of(&decide(update, &1, made)))
  end

  defp step(_, _, found), do: found

  defp encoded(view, {:ok, value}), do: {:put, View.encode(view, value)}
  defp encoded(_, decision) when decision in [:keep, :remove], do: decision

  defp encoded(_, other) do
    raise ArgumentError, "the function of an update returned #{inspect(other)}; it must return {:ok, value}, :keep or :remove"
  end

  defp decide(update, reference, {:put, value}), do: Native.put(update, reference, value)
  defp decide(update, reference, :keep), do: Native.keep_value(update, reference)
  defp decide(update, reference, :remove), do: Native.remove(update, reference)

  # Others need not wait until this process forgets it.
  defp leave(update, kind, reason, stacktrace) do
    Native.leave(update)
    :erlang.raise(kind, reason, stacktrace)
  end
end
