# The page of figures for Prometheus.
defmodule PrometheusTest do
  use ExUnit.Case, async: true
  import Support

  test "the page has the figures of each cache that runs" do
    redis = Support.Redis.start()
    name = cache(namespace: ~s(a "b" \\ c), redis: redis.url)
    other = cache(namespace: "memory")
    view = Larder.view(name, "v")
    for _ <- 1..3, do: Larder.fetch(view, "k", fn -> 1 end)
    eventually("the proof", fn -> Larder.coherence(name).mode == :full end)
    page = Larder.Prometheus.text([name, other])
    part = ~S(part="a \"b\" \\ c")

    for line <- [
          "# TYPE larder_tier_lookups_total counter",
          ~s(larder_tier_operations_total{#{part},tier="origin",operation="load"} 1),
          ~s(larder_tier_lookups_total{#{part},tier="redis",outcome="miss"} 1),
          ~s(larder_tier_entries{part="memory",tier="memory"} 0),
          ~s(larder_coherent{#{part}} 1),
          ~s(larder_pending_invalidations{#{part}} 0)
        ] do
      assert line in String.split(page, "\n"), "#{line} in\n#{page}"
    end

    # Memory alone is neither coherent nor incoherent, and Redis has no number of entries.
    refute page =~ ~S(larder_coherent{part="memory"})
    refute page =~ ~S(tier="redis"} )

    assert page |> String.split("\n", trim: true) |> Enum.filter(&String.starts_with?(&1, "# TYPE")) |> Enum.uniq() |> length() ==
             10

    stop_supervised!(name)
    refute Larder.Prometheus.text([name, other]) =~ part
    assert Larder.Prometheus.text([]) == ""
  end
end
