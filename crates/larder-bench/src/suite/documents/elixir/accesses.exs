# The accesses of document 4 without HTTP: prints how many a second one caller makes.
#   elixir accesses.exs NAME MILLISECONDS
defmodule Text do
  @text String.duplicate("あいうえおかきくけこ", 10_000)
  def built, do: String.duplicate("あいうえおかきくけこ", 10_000)
  def precomputed, do: @text
end

defmodule Asker do
  use GenServer
  def init(access), do: {:ok, access}
  def handle_call(:text, _from, access), do: {:reply, access.(), access}
end

defmodule Accesses do
  def run([name, milliseconds]) do
    access = open(name)
    300_000 = byte_size(access.())
    limit = System.convert_time_unit(String.to_integer(milliseconds), :millisecond, :native)
    start = System.monotonic_time()
    count = repeat(access, start + limit, 0)
    seconds = System.convert_time_unit(System.monotonic_time() - start, :native, :microsecond) / 1.0e6
    IO.puts(count / seconds)
  end

  defp repeat(access, deadline, count) do
    for _ <- 1..10, do: access.()
    if System.monotonic_time() < deadline, do: repeat(access, deadline, count + 10), else: count + 10
  end

  defp open("built"), do: &Text.built/0
  defp open("precomputed"), do: &Text.precomputed/0

  defp open("agent") do
    {:ok, agent} = Agent.start_link(&Text.precomputed/0)
    fn -> Agent.get(agent, & &1) end
  end

  defp open("ets") do
    table = :ets.new(:text, [:protected, read_concurrency: true])
    :ets.insert(table, {"text", Text.precomputed()})
    fn -> [{_, text}] = :ets.lookup(table, "text"); text end
  end

  defp open("agent-behind-genserver"), do: behind_genserver(open("agent"))
  defp open("ets-behind-genserver"), do: behind_genserver(open("ets"))

  defp behind_genserver(access) do
    {:ok, server} = GenServer.start_link(Asker, access)
    fn -> GenServer.call(server, :text) end
  end
end

Accesses.run(System.argv())
