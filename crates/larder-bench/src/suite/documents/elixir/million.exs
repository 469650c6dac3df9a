# A million pairs as document 0 stores them: prints seconds and bytes.
#   elixir million.exs genserver|public record|address COUNT
defmodule LinkCache do
  use GenServer

  def init(table), do: {:ok, table}
  def handle_call({:get, slug}, _from, table), do: {:reply, :ets.lookup(table, slug), table}

  def handle_call({:set, slug, value}, _from, table) do
    :ets.insert(table, {slug, value})
    {:reply, value, table}
  end
end

defmodule Million do
  # The fields of the record of the document as Ecto loads it.
  @record %{
    __struct__: RedirectTo.Link,
    __meta__: %{__struct__: Ecto.Schema.Metadata, state: :loaded, source: {nil, "links"}, context: nil},
    id: 1,
    slug: "A",
    long_url: "http://www.example.com",
    link_visits_count: 0,
    link_visits: %{
      __struct__: Ecto.Association.NotLoaded,
      __field__: :link_visits,
      __owner__: RedirectTo.Link,
      __cardinality__: :many
    },
    inserted_at: %{__struct__: Ecto.DateTime, year: 2016, month: 7, day: 13, hour: 12, min: 0, sec: 0, usec: 0},
    updated_at: %{__struct__: Ecto.DateTime, year: 2016, month: 7, day: 13, hour: 12, min: 0, sec: 0, usec: 0}
  }

  def run([owner, value, count]) do
    link = if value == "record", do: @record, else: Map.take(@record, [:slug, :long_url])
    table = :ets.new(:links, [:set, :public, read_concurrency: true])
    fetch = fetch(owner, table)
    before = :erlang.memory(:total)
    {microseconds, :ok} = :timer.tc(fn -> fill(fetch, link, String.to_integer(count)) end)
    :erlang.garbage_collect()
    bytes = :erlang.memory(:total) - before
    true = :ets.info(table, :size) == String.to_integer(count)
    IO.puts("#{microseconds / 1.0e6} #{bytes}")
  end

  defp fill(fetch, link, count), do: Enum.each(1..count, fn i -> fetch.(to_string(i), link) end)

  defp fetch("genserver", table) do
    {:ok, server} = GenServer.start_link(LinkCache, table)

    fn slug, link ->
      [] = GenServer.call(server, {:get, slug})
      GenServer.call(server, {:set, slug, link})
    end
  end

  defp fetch("public", table) do
    fn slug, link ->
      [] = :ets.lookup(table, slug)
      :ets.insert(table, {slug, link})
    end
  end
end

Million.run(System.argv())
