defmodule RedirectTo.Database do
  # The links in Mnesia, on the disc of the node that was started first.
  @moduledoc false

  @doc "Opens the database of this node, or joins that of another one."
  def open(nil) do
    File.mkdir_p!(:mnesia.system_info(:directory))
    # Where they were made by an earlier run, these change nothing.
    _ = :mnesia.change_table_copy_type(:schema, node(), :disc_copies)
    _ = :mnesia.create_table(:link, attributes: [:slug, :long_url], disc_copies: [node()])
    wait()
  end

  def open(other) do
    {:ok, [_ | _]} = :mnesia.change_config(:extra_db_nodes, [String.to_atom(other)])
    wait()
  end

  defp wait, do: :mnesia.wait_for_tables([:link], 10_000)

  @doc "The link of a slug, or `nil`."
  def by_slug(slug) do
    case transaction(fn -> :mnesia.read(:link, slug) end) do
      [{:link, ^slug, long_url}] -> %{slug: slug, long_url: long_url}
      [] -> nil
    end
  end

  def put(slug, long_url), do: transaction(fn -> :mnesia.write({:link, slug, long_url}) end)
  def delete(slug), do: transaction(fn -> :mnesia.delete({:link, slug}) end)

  defp transaction(fun) do
    {:atomic, result} = :mnesia.transaction(fun)
    result
  end
end
