defmodule RedirectTo.Links do
  # The links as the server reads and changes them: through the cache, and in the database before the cache hears of it.
  @moduledoc false
  alias RedirectTo.Database

  # A slug that does not exist is remembered for a shorter time.
  defp links, do: Larder.view(RedirectTo.Cache, "link", negative_ttl: "10s")

  @doc "The link, and whether this call asked the database."
  def fetch(slug) do
    caller = self()
    reference = make_ref()

    link =
      Larder.fetch(links(), slug, fn ->
        send(caller, reference)
        Database.by_slug(slug)
      end)

    receive do
      ^reference -> {link, :database}
    after
      0 -> {link, :cache}
    end
  end

  @doc "Stores a link under a slug, a new one if none is given."
  def put(slug \\ new_slug(), long_url) do
    Database.put(slug, long_url)
    Larder.delete(links(), slug)
    slug
  end

  def delete(slug) do
    Database.delete(slug)
    Larder.delete(links(), slug)
  end

  defp new_slug, do: Base.url_encode64(:crypto.strong_rand_bytes(6), padding: false)
end
