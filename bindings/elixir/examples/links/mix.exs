defmodule RedirectTo.MixProject do
  use Mix.Project

  def project do
    [app: :redirect_to, version: "0.1.0", elixir: "~> 1.14", deps: [{:larder_cache, path: "../.."}]]
  end

  def application do
    [mod: {RedirectTo, []}, extra_applications: [:logger, :inets, :mnesia]]
  end
end
