defmodule Larder.MixProject do
  use Mix.Project

  def project do
    [
      app: :larder_cache,
      version: "0.1.0",
      elixir: "~> 1.14",
      description: "A cache that stays coherent: memory in each node, Redis behind it.",
      licenses: ["MIT", "Apache-2.0"],
      deps: []
    ]
  end

  def application do
    [extra_applications: [:logger]]
  end
end
