defmodule Larder.Prometheus do
  @moduledoc """
  The figures of caches as a page for Prometheus, with the names that larder's own page of metrics has.
  """

  # The outcomes of lookups, and the figures of a tier that count them.
  @outcomes [hit: :hits, miss: :misses, unreadable: :unreadable, error: :errors]

  # Each family: its type, its help, and the function that makes the samples of one cache.
  @families [
    {"larder_tier_lookups_total", "counter", "Lookups by outcome.", :lookups},
    {"larder_tier_operations_total", "counter", "Operations by name.", :operations},
    {"larder_tier_entries", "gauge", "Entries in the tier.", {:tier, :entries}},
    {"larder_tier_bytes", "gauge", "Bytes in the tier.", {:tier, :bytes}},
    {"larder_tier_capacity_bytes", "gauge", "Maximum number of bytes in the tier.", {:tier, :capacity}},
    {"larder_coalesced_total", "counter", "Fetches that waited for the load of another caller.", {:total, :coalesced}},
    {"larder_refused_loads_total", "counter", "Loads whose result was not stored because of an invalidation.", {:total, :refused}},
    {"larder_stale_answers_total", "counter", "Stale values served because a load failed or was slow.", {:total, :stale}},
    {"larder_coherent", "gauge", "1 if this node has what others invalidated, or has not needed Redis yet; 0 if it may miss some.",
     :coherent},
    {"larder_pending_invalidations", "gauge", "Invalidations that are done in this node and not yet confirmed by Redis.", :pending}
  ]

  @doc "The page of these caches. One that does not run is left out."
  @spec text([atom()]) :: String.t()
  def text(caches) do
    figures = Enum.flat_map(caches, &figures/1)
    IO.iodata_to_binary(for family <- @families, do: family(family, figures))
  end

  @doc "The content type of the page."
  @spec content_type() :: String.t()
  def content_type, do: "text/plain; version=0.0.4; charset=utf-8"

  defp figures(cache) do
    [%{part: Larder.Cache.fetch!(cache).namespace, stats: Larder.stats(cache), coherence: Larder.coherence(cache)}]
  rescue
    Larder.Closed -> []
  end

  defp family({name, type, help, source}, figures) do
    case for figure <- figures, {labels, value} <- samples(source, figure), do: sample(name, [{:part, figure.part} | labels], value) do
      [] -> []
      samples -> ["# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n" | samples]
    end
  end

  defp samples(:lookups, figure) do
    for {tier, counts} <- tiers(figure), {outcome, member} <- @outcomes, do: {[tier: tier, outcome: outcome], counts[member]}
  end

  defp samples(:operations, %{stats: stats}) do
    [{[tier: :origin, operation: :load], stats.loads}, {[tier: :origin, operation: :failure], stats.load_failures}]
  end

  defp samples({:tier, member}, figure) do
    for {tier, %{^member => value}} when value != nil <- tiers(figure), do: {[tier: tier], value}
  end

  defp samples({:total, member}, %{stats: stats}), do: [{[], stats[member]}]
  defp samples(_, %{coherence: %{mode: :memory}}), do: []
  defp samples(:coherent, %{coherence: %{mode: :unknown, problem: nil}}), do: [{[], 1}]
  defp samples(:coherent, %{coherence: %{mode: mode}}), do: [{[], if(mode == :full, do: 1, else: 0)}]
  defp samples(:pending, %{coherence: coherence}), do: [{[], coherence.pending_invalidations}]

  defp tiers(%{stats: stats}), do: for(tier <- [:memory, :redis], stats[tier] != nil, do: {tier, stats[tier]})

  defp sample(name, labels, value) do
    labels = Enum.map_intersperse(labels, ",", fn {label, text} -> [to_string(label), ~s(="), escape(to_string(text)), ~s(")] end)
    [name, "{", labels, "} ", to_string(value), "\n"]
  end

  defp escape(text), do: text |> String.replace("\\", "\\\\") |> String.replace("\"", "\\\"") |> String.replace("\n", "\\n")
end
