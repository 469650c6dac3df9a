defmodule Larder.Cache do
  @moduledoc """
  The process that owns a cache: `{Larder, name: Shop, namespace: "shop", …}` in a list of children.

  Calls do not go through this process. It starts the cache, writes what larder logs to `Logger`, and ends the cache when it ends
  itself: it then waits up to two seconds until Redis has confirmed all invalidations. If it is killed, the cache ends likewise.
  """
  use GenServer

  require Logger
  alias Larder.{Call, Native, OptionError}

  @enforce_keys [:name, :namespace, :native, :views]
  defstruct [:name, :namespace, :native, :views]

  # Milliseconds for invalidations that Redis has not confirmed.
  @drain_limit 2_000
  # Milliseconds between two looks for records of the log.
  @log_interval 500

  @doc false
  def child_spec(options) do
    %{id: {Larder, options[:name]}, start: {__MODULE__, :start_link, [options]}, shutdown: @drain_limit + 3_000}
  end

  @doc "Starts a cache with these options, and registers the process under its `name`."
  @spec start_link(keyword()) :: GenServer.on_start()
  def start_link(options) do
    case Keyword.pop(options, :name) do
      {name, options} when is_atom(name) and not is_nil(name) ->
        GenServer.start_link(__MODULE__, {name, options}, name: name)

      {name, _} ->
        raise OptionError, "name is #{inspect(name)}; it must be an atom, such as a module"
    end
  end

  @doc false
  def fetch!(name) do
    case :persistent_term.get({Larder, name}, nil) do
      nil -> raise Larder.Closed, "no cache #{inspect(name)} is running"
      cache -> cache
    end
  end

  @doc false
  def call(name, run) do
    %{native: native} = fetch!(name)
    Call.of(&run.(native, &1))
  end

  # The table ends with the process.

  @doc false
  def find_view(cache, id) do
    case :ets.lookup(cache.views, id) do
      [{_, view}] -> {:ok, view}
      [] -> :error
    end
  rescue
    ArgumentError -> :error
  end

  @doc false
  def keep_view(cache, id, view) do
    :ets.insert(cache.views, {id, view})
  rescue
    ArgumentError -> false
  end

  @impl true
  def init({name, options}) do
    Process.flag(:trap_exit, true)

    case Keyword.pop(options, :namespace) do
      {nil, _} ->
        {:stop, %OptionError{message: "the option namespace is missing"}}

      {namespace, options} ->
        native = Native.open_cache(to_string(namespace), options)
        views = :ets.new(__MODULE__, [:public, read_concurrency: true])
        :persistent_term.put({Larder, name}, %__MODULE__{name: name, namespace: namespace, native: native, views: views})
        schedule_log()
        {:ok, {name, native}}
    end
  rescue
    exception -> {:stop, exception}
  end

  @impl true
  def handle_info(:log, state) do
    write_log()
    schedule_log()
    {:noreply, state}
  end

  def handle_info(_, state), do: {:noreply, state}

  @impl true
  def terminate(_reason, {name, native}) do
    :persistent_term.erase({Larder, name})
    pending = Native.close_cache(native, @drain_limit)
    write_log()
    if pending > 0, do: Logger.warning("the cache #{inspect(name)} ended before Redis confirmed #{pending} invalidations")
  end

  defp schedule_log, do: Process.send_after(self(), :log, @log_interval)

  defp write_log do
    for {level, message} <- Native.take_logs(), do: Logger.log(level, message, domain: [:larder])
  end
end
