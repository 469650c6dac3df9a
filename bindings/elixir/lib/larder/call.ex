defmodule Larder.Call do
  # Calls of native functions that may go on in threads of larder. The process waits for their one message, which always comes.
  @moduledoc false

  alias Larder.View

  @doc "Calls `run` with the native view and a reference. Where the owner of the cache was started again, with the new view."
  def of_view(%View{native: native} = view, run) do
    reference = make_ref()

    case run.(native, reference) do
      :pending ->
        receive do
          {^reference, {:ok, answer}} -> answer
          {^reference, {:error, exception}} -> raise exception
        end

      :closed ->
        view |> View.renew() |> of_view(run)

      answer ->
        answer
    end
  end

  @doc "Calls `run` with a reference: of a cache, or of a load, which ends with its cache."
  def of(run) do
    reference = make_ref()

    case run.(reference) do
      :pending ->
        receive do
          {^reference, {:ok, answer}} -> answer
          {^reference, {:error, exception}} -> raise exception
        end

      :closed ->
        raise Larder.Closed, "the cache was closed"

      answer ->
        answer
    end
  end
end
